"""What others do to pods, nodes, owners and namespaces while moves of every kind stand in every state."""

import msgspec
import pytest

from fakekube.kinds import NAMESPACES, PDBS
from support.kube.cluster_stage import DECISIONS
from support.kube.held_moves import BEFORE_EVICTION, all_end, every_move, in_state, of_owner

IMPATIENT = msgspec.structs.replace(
    DECISIONS, deadlines=msgspec.structs.replace(DECISIONS.deadlines, start=6, verify=6)
)
"""A start that fails is noticed soon."""


async def test_a_pod_that_somebody_deletes_ends_its_move_or_is_restored_and_trains_again(stage):
    await stage.manage_and_lead("first", IMPATIENT)
    replicas = await every_move(stage, forgiving=True)
    await stage.delete_pods(*replicas)
    # Else a checkpoint may be verified before the manager hears of the end, and the move succeeds.
    await stage.ended(*in_state(replicas, *BEFORE_EVICTION))
    # Nobody but a move creates a bare pod again.
    lost = of_owner(in_state(replicas, *BEFORE_EVICTION), "Pod")
    await all_end(stage, replicas, lost=lost)
    assert all(stage.state(each) == "RolledBack" for each in in_state(replicas, *BEFORE_EVICTION))
    assert all(stage.state(each) == "Succeeded" for each in in_state(replicas, "Evicting"))
    assert not [pod for each in lost for pod in stage.pods_of(each)]


async def test_a_pod_created_again_under_its_name_is_another_one_and_is_left_alone(stage):
    await stage.manage_and_lead()
    replicas = await every_move(stage, owners=["StatefulSet"], states=BEFORE_EVICTION)
    created = {}
    for replica in replicas:
        before = stage.pod_of(replica)
        await stage.delete_pods(replica)
        await stage.until(lambda replica=replica: len(stage.pods_of(replica)) == 1, "it is created again")
        created[replica] = stage.pod_of(replica)["metadata"]
        assert created[replica]["name"] == before["metadata"]["name"]
        assert created[replica]["uid"] != before["metadata"]["uid"]
    await all_end(stage, replicas)
    for replica in replicas:
        assert stage.state(replica) == "RolledBack"
        assert stage.pod_of(replica)["metadata"]["uid"] == created[replica]["uid"]


@pytest.mark.parametrize("nodes", [1])
async def test_a_source_that_dies_costs_at_most_what_was_not_saved_yet(stage):
    await stage.manage_and_lead("first", IMPATIENT)
    replicas = await every_move(stage, forgiving=True, target="node-1")
    await stage.lose_node("node-0")
    await stage.remove_node("node-0")
    lost = of_owner(in_state(replicas, *BEFORE_EVICTION), "Pod")
    await all_end(stage, replicas, lost=lost)
    assert all(stage.state(each) == "RolledBack" for each in in_state(replicas, *BEFORE_EVICTION))
    for replica in in_state(replicas, "Evicting", "Restoring", "Verifying"):
        assert stage.state(replica) == "Succeeded", stage.move(replica)
        assert stage.node_of(replica) == "node-1"


@pytest.mark.parametrize("nodes", [1])
async def test_a_target_that_dies_is_given_up_and_the_replica_trains_elsewhere(stage):
    await stage.manage_and_lead("first", IMPATIENT)
    replicas = await every_move(stage, forgiving=True, target="node-1")
    uids = {each: stage.pod_of(each)["metadata"]["uid"] for each in in_state(replicas, *BEFORE_EVICTION)}
    await stage.lose_node("node-1")
    await stage.until(
        lambda: all(stage.state(each) == "RolledBack" for each in uids), "those that stayed are rolled back"
    )
    for replica, uid in uids.items():
        assert "node-1" in stage.move(replica)["message"]
        assert stage.pod_of(replica)["metadata"]["uid"] == uid
    await stage.remove_node("node-1")
    await all_end(stage, replicas)
    assert not any(stage.state(each) == "Succeeded" for each in replicas)
    assert "node-1" not in {stage.node_of(each) for each in replicas}


async def test_a_namespace_that_is_deleted_is_let_go_and_other_moves_go_on(stage):
    await stage.manage_and_lead("first", IMPATIENT)
    await stage.cluster.machinery.create(NAMESPACES, "", {"metadata": {"name": "doomed"}})
    spared = await every_move(stage, states=["Reserved"])
    await every_move(stage, namespace="doomed")
    await stage.cluster.machinery.delete(NAMESPACES, ("", "doomed"))
    await stage.release_all()
    await stage.until(lambda: stage.cluster.store.get(NAMESPACES, ("", "doomed")) is None, "it is gone")
    await all_end(stage, spared)
    assert {stage.state(each) for each in spared} == {"Succeeded"}
    await stage.until(
        lambda: not [name for name in stage.leader.state.transactions if name.startswith("doomed/")],
        "no change of it is in flight",
    )


@pytest.mark.parametrize("owner", ["StatefulSet", "Job", "Indexed"])
async def test_an_owner_that_scales_to_zero_ends_the_move_and_keeps_no_pod(stage, owner):
    await stage.manage_and_lead("first", IMPATIENT)
    replicas = await every_move(stage, owners=[owner])
    size = "replicas" if owner == "StatefulSet" else "parallelism"
    for replica in replicas:
        await stage.patch_owner(replica, {"spec": {size: 0}})
    await all_end(stage, replicas, lost=replicas)
    assert not [pod for each in replicas for pod in stage.pods_of(each)]
    for replica in replicas:
        await stage.patch_owner(replica, {"spec": {size: 1}})
    await stage.trains(*replicas)
    await stage.tidy()


@pytest.mark.parametrize("suspend", [False, True], ids=["resumes", "suspends"])
async def test_a_user_who_resumes_or_suspends_a_job_in_the_middle_has_the_last_word(stage, suspend):
    await stage.manage_and_lead("first", IMPATIENT)
    replicas = await every_move(stage, owners=["Job"])
    stage.rules.may_overlap |= set(replicas)  # resumed while its pod ends, a Job begins the next one at once
    for replica in replicas:
        mark = {"metadata": {"annotations": {"specon.io/suspended-for": None}}} if suspend else {}
        await stage.patch_owner(replica, {"spec": {"suspend": suspend}, **mark})
    await all_end(stage, replicas, lost=replicas if suspend else ())
    for replica in replicas:
        assert stage.owner(replica)["spec"]["suspend"] is suspend, replica
    if suspend:
        assert not [pod for each in replicas for pod in stage.pods_of(each)]
        for replica in replicas:
            await stage.patch_owner(replica, {"spec": {"suspend": False}})
        await stage.trains(*replicas)
    await stage.tidy()


async def never(stage, replicas):
    for replica in replicas:
        name = replica.split("/")[1]
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"job": name}}}
        await stage.cluster.machinery.create(PDBS, "training", {"metadata": {"name": name}, "spec": spec})
    await stage.cluster.settle()


async def test_a_budget_that_never_allows_rolls_back_before_the_trainer_is_asked(stage):
    await stage.manage_and_lead()
    replicas = [await stage.make(owner, owner.lower()) for owner in ("Pod", "Job", "StatefulSet", "Indexed")]
    await never(stage, replicas)
    await stage.trains(*replicas)
    uids = {replica: stage.pod_of(replica)["metadata"]["uid"] for replica in replicas}
    for replica in replicas:
        await stage.ask(replica)
    await stage.ended(*replicas)
    for replica in replicas:
        assert stage.state(replica) == "RolledBack"
        assert "disruption budget" in stage.move(replica)["message"]
        assert stage.pod_of(replica)["metadata"]["uid"] == uids[replica]
    assert not stage.sidecars.verified
    await stage.tidy()


async def test_a_budget_that_appears_after_the_trainer_saved_is_obeyed_and_it_trains_on(stage):
    await stage.manage_and_lead()
    replicas = await every_move(stage, states=["Checkpointing"])
    await never(stage, replicas)
    uids = {replica: stage.pod_of(replica)["metadata"]["uid"] for replica in replicas}
    await all_end(stage, replicas)
    for replica in replicas:
        assert stage.state(replica) == "RolledBack"
        assert "disruption budget" in stage.move(replica)["message"]
        assert stage.pod_of(replica)["metadata"]["uid"] == uids[replica]
        assert uids[replica] in stage.sidecars.verified
    await stage.trains(*replicas, beyond=max(stage.sidecars.saved.values()))
