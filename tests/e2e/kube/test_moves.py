"""Moves of each kind of owner, on request and by a policy: nothing is lost, and it is proven."""

import pytest

from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from support.live.jobs import ANNOTATIONS, ONLY_WHEN_ASKED, STEPS
from support.live.stage import MOVES_NOTHING, LiveStage, check_trained

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

SIGNAL = {**ANNOTATIONS, "specon.io/checkpoint": "signal:USR1"}
RECREATE = {**SIGNAL, "specon.io/recreate": "true"}
KINDS = {
    "pod": (lambda jobs: jobs.pod("mover", *ONLY_WHEN_ASKED, annotations=RECREATE), 0, "mover"),
    "job": (lambda jobs: jobs.job("mover", *ONLY_WHEN_ASKED, annotations=SIGNAL), 0, "mover"),
    "stateful-set": (lambda jobs: jobs.stateful_set("mover"), 0, "mover-0"),
    "indexed-job": (lambda jobs: jobs.indexed_job("mover"), 1, "mover-1"),
}


async def check_resumed(live: LiveStage, directory: str, migration: Object) -> None:
    """Nothing was lost: what the trainer has in the end is what an uninterrupted run has."""
    await live.let_finish(directory)

    async def finished() -> dict[str, str] | None:
        left = await live.result(directory)
        return left if left["result.json"] else None

    left = await live.eventually(finished, f"{directory} has finished", seconds=120)
    # The trainer of a StatefulSet is started again when it has ended, and finds that nothing is left to do.
    (step,) = [one for one in check_trained(left) if one < STEPS]
    assert migration["checkpoint"]["step"] <= step < migration["firstStep"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_replica_moves_on_request(live: LiveStage, kind: str):
    """A Migration that somebody creates moves the replica to its target, and its training goes on there."""
    make, index, directory = KINDS[kind]
    await live.manage(decisions=MOVES_NOTHING)
    await live.create(make(live.jobs))
    before = await live.training("mover", index)
    await live.reported("mover", index, step=20)
    target = await live.other_node(before)
    await live.ask_for_move("by-hand", before, target)
    migration = await live.ended("by-hand")
    assert migration["state"] == "Succeeded", await live.account()
    after = await live.training("mover", index, former=before["metadata"]["uid"])
    assert after["spec"]["nodeName"] == target
    assert migration["incarnation"] == after["metadata"]["uid"]
    assert migration["source"] == before["spec"]["nodeName"]
    assert migration["firstStep"] > migration["checkpoint"]["step"]
    assert migration["downtimeSeconds"] > 0

    async def counted() -> bool:
        status = await live.progress("mover", index)
        return status.get("moves") == 1 and status.get("node") == target

    await live.eventually(counted, "the TrainingProgress tells of the move")
    await check_resumed(live, directory, migration)


async def test_a_job_that_was_moved_completes_without_a_failure(live: LiveStage):
    """A move uses up nothing of a Job's retry budget, and leaves nothing on the Job."""
    await live.manage(decisions=MOVES_NOTHING)
    manifest = live.jobs.job("mover")
    await live.create(manifest)
    before = await live.training("mover")
    await live.reported("mover", step=20)
    await live.ask_for_move("by-hand", before, await live.other_node(before))
    assert (await live.ended("by-hand"))["state"] == "Succeeded"
    await live.let_finish("mover")
    await live.eventually(lambda: live.completed("mover"), "the Job is complete")
    job = await live.owner("mover")
    assert job["status"].get("failed", 0) == 0
    assert "specon.io/suspended-for" not in job["metadata"].get("annotations", {})
    # Whether the tests were told to keep to some nodes or not.
    selector = job["spec"]["template"]["spec"].get("nodeSelector", {})
    assert selector == manifest["spec"]["template"]["spec"]["nodeSelector"]


async def test_a_policy_moves_what_has_converged(live: LiveStage):
    """Of two jobs on one node the one that has converged is moved, and events say so in words."""
    await live.manage()
    crowded, empty, *_ = await live.nodes()
    await live.create(
        live.jobs.pod("mover", annotations={**ANNOTATIONS, "specon.io/recreate": "true"}, prefers=crowded)
    )
    before = await live.training("mover")

    async def converged() -> bool:
        return (await live.progress("mover")).get("category") == "converged"

    await live.eventually(converged, "the mover has converged")  # before the neighbour grows beside it
    await live.create(
        live.jobs.pod("neighbour", annotations={**ANNOTATIONS, "specon.io/migrate": "false"}, prefers=crowded)
    )
    await live.training("neighbour")

    async def moved() -> Object | None:
        found, _ = await live.api.list(MIGRATIONS, live.namespace)
        return next((one for one in found if (one.get("status") or {}).get("state") == "Succeeded"), None)

    migration = await live.eventually(moved, "the policy has moved a job", seconds=120)
    status = migration["status"]
    assert status["replica"] == f"{live.namespace}/mover/worker/0"
    assert (status["source"], status["target"]) == (before["spec"]["nodeName"], empty)
    assert status["policy"] == "specon"
    after = await live.training("mover", former=before["metadata"]["uid"])
    assert after["spec"]["nodeName"] == empty

    async def told() -> list[str] | None:
        return [note for note in await live.notes("mover") if empty in note] or None

    await live.eventually(told, "an event on the pod names the new node")
    await check_resumed(live, "mover", status)
