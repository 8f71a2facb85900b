"""The plain move with everything real but the cluster: manager, webhook, sidecars' protocol."""

import msgspec
import pytest

from fakekube.kinds import MIGRATIONS
from support.kube.cluster_stage import DECISIONS, OWNERS

SPECON = msgspec.structs.replace(DECISIONS, policy="specon", parameters={"rebalance": False})


@pytest.mark.parametrize("chosen", [True, False], ids=["target", "no-target"])
async def test_a_move_that_somebody_asks_for_ends_on_a_target_and_leaves_nothing_behind(stage, chosen):
    await stage.manage_and_lead()
    replicas = [await stage.make(owner, f"train-{owner.lower()}") for owner in OWNERS]
    await stage.trains(*replicas)
    before = {replica: stage.pod_of(replica) for replica in replicas}
    for replica in replicas:
        await stage.ask(replica, stage.other_node(replica) if chosen else None)
    await stage.ended(*replicas)
    for replica in replicas:
        move, source = stage.move(replica), before[replica]["spec"]["nodeName"]
        assert (move["state"], move["source"]) == ("Succeeded", source), stage.tale()
        assert stage.node_of(replica) == move["target"] != source
        checkpoint = move["checkpoint"]["step"]
        assert stage.sidecars.saved[replica] == checkpoint
        assert stage.sidecars.first[stage.pod_of(replica)["metadata"]["uid"]] == checkpoint + 1
        assert move["firstStep"] == checkpoint + 1
        await stage.trains(replica, beyond=checkpoint)
    for replica in replicas:
        await stage.until(lambda each=replica: stage.progress(each)["moves"] == 1, "its move is counted")
        assert stage.progress(replica)["node"] == stage.node_of(replica)
    await stage.tidy()


async def test_a_move_can_be_asked_for_by_the_name_of_a_pod(stage):
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", "set")
    await stage.trains(replica)
    await stage.ask(replica, pod="set-0")
    await stage.ended(replica)
    assert stage.state(replica) == "Succeeded"


@pytest.mark.parametrize("nodes", [1])
async def test_what_converged_beside_what_grows_is_moved_and_told_in_plain_words(stage):
    await stage.manage_and_lead("first", SPECON)
    growing = [await stage.make("Job", f"growing-{number}") for number in range(3)]
    replicas = [await stage.make(owner, f"done-{owner.lower()}") for owner in ("Job", "StatefulSet")]
    await stage.trains(*growing, *replicas)
    await stage.add_node("node-1")
    stage.sidecars.converged |= set(replicas)
    await stage.until(lambda: any(stage.state(each) == "Succeeded" for each in replicas), "one has moved")
    moved = next(each for each in replicas if stage.state(each) == "Succeeded")
    move, pod = stage.move(moved), stage.pod_of(moved)
    assert (move["policy"], move["purpose"]) == ("specon", "migrate")
    notes = stage.notes(moved.split("/")[1]) + stage.notes(pod["metadata"]["name"])
    told = f"moving from {move['source']} to {move['target']}: converged at step"
    await stage.until(
        lambda: any(told in note for note in stage.notes(moved.split("/")[1]) + notes), "it is told"
    )
    await stage.until(lambda: stage.progress(moved).get("category") == "converged", "its progress says so")
    assert stage.cluster.store.all(MIGRATIONS)
    await stage.until(lambda: not stage.rules.leftovers(), "all is tidied up")
    stage.check()
