"""How long an evicted pod is kept, and that nothing but what the docs name lets it go unsaved."""

import asyncio

import pytest

from fakekube.kinds import MIGRATIONS
from specon_manager.backends.kube.interception.desk import InterceptionSettings
from support.clocks.fair_time import fair_now
from support.kube.eviction_stage import RETRY_SECONDS, EvictionStage


@pytest.fixture
async def stage(tmp_path):
    async with EvictionStage(tmp_path, nodes=4) as made:
        yield made


async def train_one(stage, name="train"):
    """Have a StatefulSet train; return its replica and the name of its pod."""
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", name)
    await stage.trains(replica)
    return replica, stage.pod_of(replica)["metadata"]["name"]


async def delete_wishes(stage):
    for wish in stage.wishes():
        await stage.cluster.machinery.delete(MIGRATIONS, ("training", wish["metadata"]["name"]))
    await asyncio.sleep(0.5)


async def test_a_gang_that_cannot_be_saved_is_let_go_after_three_moves(stage):
    """Each of its many pods counts its own, and the records of one do not displace those of another."""
    pods = 8
    stage.interception = InterceptionSettings(enabled=True, patience=600.0)
    stage.sidecars.save_seconds = 0.6
    await stage.manage_and_lead()
    node = stage.nodes[0]
    await stage.cordon_all_but(node)
    first = await stage.make("Gang", "gang", completions=pods, parallelism=pods)
    members = [f"{first[:-1]}{index}" for index in range(pods)]
    await stage.trains(*members)
    for other in stage.nodes:
        await stage.cordon(other, on=False)
    await asyncio.sleep(0.5)
    for each in members:
        stage.sidecars.refuses[each] = "the disk is full"
    names = [stage.pod_of(each)["metadata"]["name"] for each in members]

    async def first_to_go(name):
        while (answer := await stage.evict(name))[0] == 429:  # noqa: ASYNC110
            await asyncio.sleep(RETRY_SECONDS)
        return answer[0]

    asking = [asyncio.create_task(first_to_go(each)) for each in names]
    done, left = await asyncio.wait(asking, timeout=120, return_when=asyncio.FIRST_COMPLETED)
    for each in left:
        each.cancel()
    assert {each.result() for each in done} == {201}
    stage.rules.breaches.clear()  # it went unsaved, as the docs say


async def test_a_wish_deleted_before_the_watch_told_of_it_is_written_again(stage):
    """The watch begins anew behind both, and would never tell of it."""
    stage.interception = InterceptionSettings(enabled=True, patience=60.0)
    replica, name = await train_one(stage)
    stage.cluster.faults.freeze_watches()
    assert (await stage.evict(name))[0] == 429
    for wish in stage.wishes():
        await stage.cluster.machinery.delete(MIGRATIONS, ("training", wish["metadata"]["name"]))
    stage.cluster.faults.answer(410, method="GET", path="migrations.*watch", times=2)
    stage.cluster.faults.cut_watches()
    await asyncio.sleep(1.5)
    stage.cluster.faults.clear()
    until = fair_now() + 30
    while replica not in stage.sidecars.saved and fair_now() < until:
        await stage.evict(name)
        await asyncio.sleep(RETRY_SECONDS)
    assert replica in stage.sidecars.saved, stage.notes(name)


async def test_however_often_migrations_were_deleted_the_next_drain_saves(stage):
    """The leader knows the names of all that ended, and refuses each of them."""
    replica, name = await train_one(stage)
    uid = stage.pod_of(replica)["metadata"]["uid"]
    stage.sidecars.refuses[replica] = "the disk is full"
    for _ in range(9):
        while not any(wish["status"]["state"] == "RolledBack" for wish in stage.wishes()):
            assert (await stage.evict(name))[0] == 429, stage.notes(name)
            await stage.wishes_ended()
        await delete_wishes(stage)
    stage.sidecars.refuses.clear()
    while (await stage.evict(name))[0] == 429:
        await stage.wishes_ended()
    assert uid in stage.sidecars.verified, stage.notes(name)


async def test_a_409_of_another_webhook_is_no_end_of_the_pod(stage):
    """Its eviction is tried again a moment later, not when it is overdue."""
    replica, name = await train_one(stage)
    stage.brake(replica, "Checkpointing")
    assert (await stage.evict(name))[0] == 429
    await stage.until(lambda: stage.state(replica) == "Checkpointing", "it is asked to save")
    stage.cluster.faults.answer(409, method="POST", path=f"pods/{name}/eviction$")
    began = fair_now()
    await stage.release(replica)
    await stage.wishes_ended()
    assert stage.wishes()[0]["status"]["state"] == "Succeeded"
    assert fair_now() - began < 15
