"""Moves that somebody asked for: queued while others are in flight, refused in words, withdrawn."""

import contextlib

import pytest

from fakekube import schemas
from fakekube.cluster import FakeCluster
from fakekube.kinds import MIGRATIONS
from specon_manager.model import events as ev
from specon_manager.model.transactions import TransactionState
from support.kube.custom_resources import CRDS, FIRST_CRDS
from support.kube.remembered import Memories, R

OTHER = "default/other/worker/0"


@pytest.fixture(params=[CRDS, FIRST_CRDS], ids=["present", "first"])
async def memories(request):
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(FakeCluster(controllers=False, automatic=False))
        cluster.machinery.schemas |= {MIGRATIONS: schemas.read(request.param)["migrations"]}
        made = Memories(cluster, stack)
        made.first = request.param is FIRST_CRDS
        stack.push_async_callback(made.api.close)
        yield made


@pytest.fixture
async def manager(memories):
    """Return a manager with two jobs that train on node-0; one of them moves."""
    manager = await memories.manager()
    manager.run_job()
    manager.run_job("other")
    await ask(memories, "first", R)
    manager.request("default/first", R)
    await manager.commit()
    return manager


async def ask(memories, name, replica):
    body = {"metadata": {"name": name}, "spec": {"replica": replica, "target": "node-1"}}
    await memories.cluster.machinery.create(MIGRATIONS, "default", body)


def status(memories, name):
    return (memories.migration(name) or {}).get("status") or {}


async def test_a_request_that_waits_says_what_for_and_goes_on_with_the_next_manager(memories, manager):
    """It is no move yet: it has no state. Its age counts from when it was asked for."""
    await ask(memories, "waits", OTHER)
    manager.request("default/waits", OTHER)
    (request,) = manager.state.requests.values()
    await manager.commit()
    task = memories.in_background(manager.memory)
    await memories.until(lambda: status(memories, "waits").get("message"))
    told = status(memories, "waits")
    assert told["message"] == f"waits: {request.waits_for}"
    assert "in flight" in told["message"]
    assert not told.keys() & {"state", "manager"}
    task.cancel()
    _, state = await memories.loaded("two")
    (again,) = state.requests.values()
    assert (again.id, again.replica, again.target, again.at) == (
        "default/waits",
        OTHER,
        "node-1",
        request.at,
    )


async def test_a_request_begins_when_what_it_waits_for_is_over(memories, manager):
    """In the object with which it was asked for."""
    await ask(memories, "waits", OTHER)
    manager.request("default/waits", OTHER)
    manager.post(ev.RoomRefused(transaction="default/first", replica=R, reason="full"))
    manager.tick(200.0)
    assert list(manager.state.transactions) == ["default/waits"]
    await manager.commit()
    assert (status(memories, "waits")["state"], status(memories, "waits")["manager"]) == ("Proposed", "one")


async def test_a_request_whose_object_is_deleted_is_withdrawn_and_leaves_nothing(memories, manager):
    """Nobody makes its object again."""
    await ask(memories, "waits", OTHER)
    manager.request("default/waits", OTHER)
    await manager.commit()
    await memories.cluster.machinery.delete(MIGRATIONS, ("default", "waits"))
    manager.post(ev.RequestWithdrawn(id="default/waits", reason="its Migration was deleted"))
    assert not manager.state.requests
    await manager.commit()
    memories.in_background(manager.memory)
    manager.tick(5.0)
    await manager.commit()
    assert memories.migration("waits") is None


async def test_a_request_that_is_refused_says_so(memories, manager):
    """In its state, or where the server's schema does not know that one, in the first word of its message."""
    await ask(memories, "bad", "default/nobody/worker/0")
    manager.request("default/bad", "default/nobody/worker/0")
    over = manager.state.history[-1]
    assert over.state is TransactionState.REFUSED
    assert await manager.commit() == {}
    told = status(memories, "bad")
    if memories.first:
        assert (told["state"], told["message"]) == ("RolledBack", f"refused: {over.note}")
    else:
        assert (told["state"], told["message"]) == ("Refused", over.note)
    _, state = await memories.loaded("two")
    back = next(each for each in state.history if each.id == "default/bad")
    assert (back.state, back.note) == (TransactionState.REFUSED, over.note)
