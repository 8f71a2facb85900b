"""The room of a gang that moves, on a real API server with the real scheduler: equals do not get it."""

import asyncio
import time

import pytest

from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.transport.api import Api
from specon_manager.model.actions import PlaceJob
from specon_manager.model.events import ReplicaGone, ReplicaStarted, RoomHeld
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.kube import scheduler as kube_scheduler
from support.kube import server as kube_server
from support.kube.manifests import IGNORE_DISRUPTIONS
from support.kube.played import Played
from support.kube.stage import Stage, make_job, template

MOVES, STAYS = "default/train/worker/0", "default/train/worker/1"
NODES = ("source", "target", "home")
GUARDED = KubeSettings(rooms=RoomSettings(priority_class="rooms", guard_class="guards"))
SETTLED = 1.5
"""Seconds; longer than the scheduler backs off from what it has tried once."""
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def played(tmp_path):
    programs = kube_server.assets()
    scheduler = kube_scheduler.program(programs)
    if programs is None or scheduler is None:
        pytest.skip("no etcd, kube-apiserver and kube-scheduler: set KUBEBUILDER_ASSETS to their folder")
    with kube_server.running(tmp_path, programs) as endpoint:
        access = kube_scheduler.kubeconfig(tmp_path, endpoint)
        api = await Api.connect(kubeconfig=access)
        try:
            with kube_scheduler.scheduling(tmp_path, scheduler, access):
                async with Played(api) as cluster:
                    for node in NODES:
                        await cluster.node(node, "3")
                    await cluster.priority_class("jobs", 100)
                    await cluster.priority_class("batch", -10)
                    await cluster.priority_class("rooms", -1000, never=True)
                    await cluster.priority_class("guards", 1_000_000, never=True)
                    yield cluster
        finally:
            await api.close()


async def _gang(cluster):
    """Make a Job of two pods with 2 of the 3 processors of a node each, one on `source`, one on `home`."""
    cluster.pins.update({MOVES: "source", STAYS: "home"})
    cluster.job = await make_job(
        cluster.api,
        "train",
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        podFailurePolicy=IGNORE_DISRUPTIONS,
        template=_template(),
    )


def _template():
    made = template(priorityClassName="jobs", terminationGracePeriodSeconds=1)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    return made


async def _placed(stage, placement, ending=None, transaction="m-1"):
    order = PlaceJob(
        job="default/train",
        transaction=transaction,
        placement=placement,
        ending=ending or {},
        grace_seconds=1.0,
        reason="test",
    )
    await stage.backend.carry_out(order)


async def _leave(stage):
    """Have both members end, and return once nothing is left of them."""
    ending = {name: stage.said(ReplicaStarted, replica=name)[-1].incarnation for name in (MOVES, STAYS)}
    await _placed(stage, {}, ending)
    for name, incarnation in ending.items():
        await stage.hear(ReplicaGone, replica=name, incarnation=incarnation)


async def _come(stage, placement):
    """Have both members come, and return how long it took until both ran there, seconds."""
    before = {each.incarnation for each in stage.said(ReplicaStarted)}
    began = time.monotonic()
    await _placed(stage, placement)

    def come():
        found = [each for each in stage.said(ReplicaStarted) if each.incarnation not in before]
        return {each.replica: each.node for each in found} == placement

    await stage.until(come)
    return time.monotonic() - began


async def _waits(cluster, *names):
    """Whether these pods have no node, and everybody's low pods are where they were."""
    assert [await cluster.node_of(name) for name in names] == [""] * len(names)
    assert [await cluster.node_of(f"low-{node}") for node in NODES] == list(NODES)


async def _guards(cluster):
    """Return the nodes of what holds room, empty for what waits for it."""
    found = [pod for pod in await cluster.pods() if pod["metadata"]["name"].startswith("specon-room-")]
    return sorted(pod["spec"].get("nodeName", "") for pod in found)


async def _is_nominated(cluster, node):
    """Wait until some pod is counted as one of a node."""
    async with asyncio.timeout(10):
        while True:
            if node in {pod["status"].get("nominatedNodeName") for pod in await cluster.pods()}:
                return
            await asyncio.sleep(0.01)


async def _runs(cluster, stage):
    """Have the gang run, let go like any gated pods by an order."""
    await _gang(cluster)
    await stage.until(lambda: stage.known().jobs)
    await _placed(stage, {MOVES: "source", STAYS: "home"}, transaction="m-0")
    await stage.hear(ReplicaStarted, replica=MOVES, node="source")
    await stage.hear(ReplicaStarted, replica=STAYS, node="home")


async def test_equals_do_not_get_the_room_of_a_gang_that_moves_and_is_turned_back(played):
    """Neither where it goes, nor where it came from, nor where a member stays; nobody has to go for it."""
    async with Stage(played.api, settings=GUARDED) as stage:
        await _runs(played, stage)
        for node in NODES:
            await played.pod(f"low-{node}", node, "1", "batch")
        await played.pod("rival-source", "source", "2", "jobs")
        await played.pod("rival-home", "home", "2", "jobs")
        await stage.hold("m-1", MOVES, "target")
        await stage.hear(RoomHeld)
        played.pins.update({MOVES: "target"})
        leaving = asyncio.create_task(_leave(stage))
        await _is_nominated(played, "target")
        await played.pod("rival-target", "target", "2", "jobs")
        await leaving
        await asyncio.sleep(SETTLED)
        rivals = [f"rival-{node}" for node in NODES]
        await _waits(played, *rivals)
        assert await _guards(played) == sorted(NODES)

        took = await _come(stage, {MOVES: "target", STAYS: "home"})
        assert took < 2.0
        await asyncio.sleep(SETTLED)
        await _waits(played, *rivals)
        assert await _guards(played) == ["source"]  # the way back

        await stage.release("m-1", MOVES, "target")
        played.pins.update({MOVES: "source"})
        await _leave(stage)
        took = await _come(stage, {MOVES: "source", STAYS: "home"})
        assert took < 2.0
        await asyncio.sleep(SETTLED)
        await _waits(played, "rival-source", "rival-home")
        assert await played.node_of("rival-target") == "target"  # nobody keeps that any more
        await _placed(stage, {MOVES: None, STAYS: None}, transaction="")
        await asyncio.sleep(SETTLED)
        assert await _guards(played) == []


@pytest.mark.parametrize("writes", [1, 2], ids=["nominated", "unguarded"])
async def test_a_manager_that_is_killed_while_it_hands_over_loses_no_room(played, monkeypatch, writes):
    """The nomination of the pod that waits is enough, until the next manager lets it go."""
    async with Stage(played.api, settings=GUARDED) as first:
        await _runs(played, first)
        await first.hold("m-1", MOVES, "target")
        await first.hear(RoomHeld)
        played.pins.update({MOVES: "target"})
        await _leave(first)
        rivals = [f"rival-{node}" for node in NODES]
        for node in NODES:
            await played.pod(f"low-{node}", node, "1", "batch")
            await played.pod(f"rival-{node}", node, "2", "jobs")
        defence, done = first.backend._rooms._defence, []

        def counted(work):
            async def worked(*given):
                found = await work(*given)
                done.append(given)
                first.leads = len(done) < writes
                return found

            return worked

        monkeypatch.setattr(defence, "_nominate", counted(defence._nominate))
        monkeypatch.setattr(defence, "_forget_gone", counted(defence._forget_gone))
        await _placed(first, {MOVES: "target", STAYS: "home"})
        await first.until(lambda: not first.leads)
        await asyncio.sleep(SETTLED)
        known = first.known()
    await _waits(played, *rivals)
    async with Stage(played.api, settings=GUARDED, state=known.with_transaction(_coming())) as second:
        await _come(second, {MOVES: "target", STAYS: "home"})
        await asyncio.sleep(SETTLED)
        await _waits(played, *rivals)
        assert await _guards(played) == ["source"]


def _coming():
    return Transaction(
        id="m-1",
        kind=Kind.MOVE,
        job="default/train",
        before={MOVES: "source", STAYS: "home"},
        after={MOVES: "target", STAYS: "home"},
        whole=True,
        restart=True,
        policy="test",
        reason="test",
        state=TransactionState.COMING,
        proposed_at=0.0,
        deadline=1e9,
    )


async def test_without_the_class_a_gang_is_moved_as_before(played, caplog):
    """The API server refuses its guards; that is said once, and the placeholder gives way."""
    settings = KubeSettings(rooms=RoomSettings(priority_class="rooms", guard_class="absent"))
    async with Stage(played.api, settings=settings) as stage:
        await _runs(played, stage)
        await stage.hold("m-1", MOVES, "target")
        await stage.hear(RoomHeld)
        played.pins.update({MOVES: "target"})
        await _leave(stage)
        assert await _guards(played) == ["target"]
        assert await _come(stage, {MOVES: "target", STAYS: "home"}) < 2.0
        assert await _guards(played) == []
    said = [record for record in caplog.records if "no PriorityClass with name absent" in record.getMessage()]
    assert len(said) == 1
