"""Evictions where a name says too little: another pod or another object has it. And of pods nobody owns."""

import asyncio

import msgspec
import pytest

from fakekube.kinds import MIGRATIONS, PODS, STATEFUL_SETS
from support.clocks.fair_time import fair_now
from support.kube.cluster_stage import DECISIONS
from support.kube.eviction_stage import EvictionStage

ONE_MOVE = msgspec.structs.replace(
    DECISIONS, budgets=msgspec.structs.replace(DECISIONS.budgets, moves_at_once=1)
)
MINE = {"replica": "training/none/worker/0", "reason": "no"}


@pytest.fixture
async def stage(tmp_path):
    async with EvictionStage(tmp_path, nodes=4) as made:
        yield made


async def make_plain(stage, name, node):
    spec = {"containers": [{"name": "web", "image": "web:1"}], "nodeName": node}
    await stage.cluster.machinery.create(PODS, "training", {"metadata": {"name": name}, "spec": spec})
    await asyncio.sleep(0.3)


async def delete_wishes(stage):
    for wish in stage.wishes():
        await stage.cluster.machinery.delete(MIGRATIONS, ("training", wish["metadata"]["name"]))
    await asyncio.sleep(0.5)


async def test_no_annotation_keeps_a_pod_without_a_sidecar_on_a_drained_node(stage):
    """Its eviction passes, whatever Migration a tenant made in its name."""
    await stage.manage_and_lead()
    node = stage.nodes[0]
    await make_plain(stage, "web-0", node)
    about = {"name": "mine", "annotations": {"specon.io/evicted-pod": "web-0/none"}}
    await stage.cluster.machinery.create(MIGRATIONS, "training", {"metadata": about, "spec": MINE})
    await asyncio.sleep(0.5)
    await stage.drain(node)
    assert stage.on_node(node) == []


async def test_a_plain_pod_that_took_the_name_of_a_moved_one_is_drained(stage):
    """Its owner was replaced by another one within two minutes of the move."""
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", "web")
    await stage.trains(replica)
    name = stage.pod_of(replica)["metadata"]["name"]
    await stage.evict(name)
    await stage.no_moves_but(1)
    await stage.cluster.machinery.delete(STATEFUL_SETS, ("training", "web"))
    if stage.cluster.store.get(PODS, ("training", name)):
        await stage.cluster.machinery.delete(PODS, ("training", name))
    await stage.until(lambda: not stage.cluster.store.get(PODS, ("training", name)), "gone")
    await make_plain(stage, name, stage.nodes[3])
    await stage.drain(stage.nodes[3])
    assert stage.on_node(stage.nodes[3]) == []


async def test_the_next_node_is_drained_though_nobody_here_knows_that_it_is_cordoned(stage):
    """The pod has just moved to it, and the watch is late: else the drain would end, and the pod stay."""
    await stage.manage_and_lead()
    replica = await stage.make_drained("train")
    node = stage.node_of(replica)
    stage.cluster.faults.freeze_watches()
    drain = asyncio.create_task(stage.drain(node))
    await asyncio.sleep(1.0)
    assert not drain.done()
    assert stage.on_node(node)
    stage.cluster.faults.clear()
    await drain
    assert stage.on_node(node) == []


async def test_after_all_migrations_were_deleted_the_next_drain_saves(stage):
    """The name of the former wish is taken for ever: the next one has another."""
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", "train")
    await stage.trains(replica)
    name = stage.pod_of(replica)["metadata"]["name"]
    stage.sidecars.refuses[replica] = "the disk is full"
    assert (await stage.evict(name))[0] == 429
    await stage.wishes_ended()
    stage.sidecars.refuses.clear()
    await delete_wishes(stage)
    assert (await stage.evict(name))[0] == 429, stage.notes(name)


async def test_a_wish_that_is_deleted_while_it_waits_lets_nobody_go_unsaved(stage):
    """Whoever evicts the pod asks again five seconds later."""
    await stage.manage_and_lead("first", ONE_MOVE)
    busy, second = await stage.make("Job", "busy"), await stage.make("StatefulSet", "second")
    await stage.trains(busy, second)
    stage.brake(busy, "Checkpointing")
    await stage.evict(stage.pod_of(busy)["metadata"]["name"])
    await stage.until(lambda: stage.state(busy) == "Checkpointing", "the first one moves")
    name = stage.pod_of(second)["metadata"]["name"]
    assert (await stage.evict(name))[0] == 429
    await delete_wishes(stage)
    answers = [(await stage.evict(name))[0] for _ in range(3)]
    await stage.release(busy)
    assert answers == [429] * 3, stage.notes(name)


async def test_a_migration_that_has_the_name_of_a_wish_keeps_no_pod(stage):
    """A tenant knows the UID of its pod: the wish has the next name, and the pod moves."""
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", "train")
    await stage.trains(replica)
    node = stage.node_of(replica)
    about = {"name": f"evict-{stage.pod_of(replica)['metadata']['uid']}"}
    await stage.cluster.machinery.create(MIGRATIONS, "training", {"metadata": about, "spec": MINE})
    await asyncio.sleep(0.5)
    await stage.drain(node)
    assert stage.on_node(node) == []
    await stage.trains(replica)


async def test_an_eviction_is_answered_in_time_however_many_names_are_taken_and_slow(stage):
    """The API server waits five seconds for the answer, and lets the pod go unsaved then."""
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", "train")
    await stage.trains(replica)
    metadata = stage.pod_of(replica)["metadata"]
    for ending in ("", "-2"):
        about = {"name": f"evict-{metadata['uid']}{ending}"}
        await stage.cluster.machinery.create(MIGRATIONS, "training", {"metadata": about, "spec": MINE})
    await asyncio.sleep(0.5)
    stage.cluster.faults.delay(0.9, path="migrations", times=100)
    began = fair_now()
    status, words, _ = await stage.evict(metadata["name"])
    assert status == 429
    assert "cannot write down yet" in words
    assert fair_now() - began < 4


async def test_a_bare_pod_without_room_elsewhere_trains_again_once_there_is_room(stage):
    """Nobody would create it again: it stays saved where it is, and moves then."""
    await stage.manage_and_lead()
    replica = await stage.make("Pod", "bare")
    await stage.trains(replica)
    node = stage.node_of(replica)
    for other in stage.nodes:
        await stage.cordon(other)
    drain = asyncio.create_task(stage.drain(node, seconds=300.0))
    await stage.until(lambda: replica in stage.sidecars.saved, "it is saved")
    saved = stage.sidecars.saved[replica]
    await stage.cordon(next(each for each in stage.nodes if each != node), on=False)
    await drain
    await stage.trains(replica, beyond=saved)
