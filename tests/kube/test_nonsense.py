"""What people write by hand into the custom resources, or delete, in the middle of moves."""

from fakekube.kinds import MIGRATIONS, TRAINING_PROGRESSES
from specon_manager.backends.kube.objects.names import slug
from support.kube.held_moves import all_end, every_move

NONSENSE = {
    "state": "Verifying",
    "source": "",
    "target": "nowhere",
    "destination": "nowhere",
    "destinationHostname": "nowhere",
    "attempt": 2,
    "incarnation": "no-uid",
    "checkpoint": None,
    "deadline": "1970-01-01T00:00:00Z",
    "manifest": "{not JSON",
}
PROGRESS_NONSENSE = {
    "phase": "Succeeded",
    "node": "nowhere",
    "incarnation": "no-uid",
    "category": "converged",
    "step": 10**15,
    "starts": 2**31 - 1,
    "movedFor": ["migrate"] * 3,
    "cooldownUntil": "9999-12-31T23:59:59Z",
}


async def scribble(stage, replica):
    machinery, namespace = stage.cluster.machinery, "training"
    key = (namespace, f"please-{replica.split('/')[1]}")
    # Each names another replica: of one replica only the latest ten Migrations are kept.
    nonsense = {**NONSENSE, "replica": f"training/nobody-{replica.split('/')[1]}/worker/7"}
    await machinery.patch(MIGRATIONS, key, "merge", {"status": nonsense}, subresource="status")
    key = (namespace, slug(replica))
    await machinery.patch(
        TRAINING_PROGRESSES, key, "merge", {"status": PROGRESS_NONSENSE}, subresource="status"
    )


async def delete(stage, replica):
    await stage.cluster.machinery.delete(MIGRATIONS, ("training", f"please-{replica.split('/')[1]}"))
    await stage.cluster.machinery.delete(TRAINING_PROGRESSES, ("training", slug(replica)))


async def test_a_manager_does_not_heed_what_somebody_writes_into_its_memory(stage):
    await stage.manage_and_lead()
    replicas = await every_move(stage)
    for replica in replicas:
        await scribble(stage, replica)
    await all_end(stage, replicas)


async def test_a_manager_whose_memory_somebody_deletes_ends_the_moves_and_loses_no_replica(stage):
    await stage.manage_and_lead()
    replicas = await every_move(stage)
    for replica in replicas:
        await delete(stage, replica)
    await stage.release(*replicas)
    await stage.no_moves()
    await stage.trains(*replicas)
    await stage.tidy()


async def test_a_new_manager_that_finds_nonsense_closes_the_moves_and_loses_no_replica(stage):
    first = await stage.manage_and_lead()
    replicas = await every_move(stage, owners=["Job", "StatefulSet", "Indexed"])
    await first.kill()
    for replica in replicas:
        await scribble(stage, replica)
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await all_end(stage, replicas)


async def test_a_new_manager_that_finds_nothing_leaves_all_replicas_training(stage):
    first = await stage.manage_and_lead()
    replicas = await every_move(stage, owners=["Job", "StatefulSet", "Indexed"])
    await first.kill()
    for replica in replicas:
        await delete(stage, replica)
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await stage.release(*replicas)
    await stage.trains(*replicas)
    await stage.tidy()
