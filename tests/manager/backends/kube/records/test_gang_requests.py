"""Moves of whole jobs that somebody asks for: taken, told, refused, withdrawn, and never lost in between."""

import asyncio
import contextlib

import msgspec
import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import MIGRATIONS, TRAINING_JOBS
from specon_manager.backends.kube.records.migrations import MigrationWatch
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.transactions import Kind, TransactionState
from support.kube.changing import Changing, Recording
from support.kube.gangs import JOB, STATES, goes_on, trains
from support.kube.remembered import START, Memories

ASKED = "default/by-hand"
TOLD = ["Proposed", "Reserved", "Checkpointing", "Evicting", "Restoring", "Verifying", "Succeeded"]


@pytest.fixture
async def memories():
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(FakeCluster(controllers=False, automatic=False))
        made = Memories(cluster, stack)
        stack.push_async_callback(made.api.close)
        yield made


async def managing(memories, identity="one"):
    """Return a manager that has taken over, told of the nodes."""
    memory, state = await memories.loaded(identity)
    nodes = Changing().state.nodes
    return Recording(memory, START, msgspec.structs.replace(state, nodes={**state.nodes, **nodes}))


@pytest.fixture
async def manager(memories):
    manager = trains(await managing(memories))
    await manager.commit()
    return manager


async def ask(memories, name="by-hand", **spec):
    body = {"metadata": {"name": name}, "spec": spec or {"job": JOB, "reason": "maintenance"}}
    return await memories.cluster.machinery.create(MIGRATIONS, "default", body)


async def asked(memories, manager, **spec):
    """Let somebody ask for the move, and the manager take it."""
    await ask(memories, **spec)
    given = {"job": JOB, "targets": tuple(spec.get("targets", ())), "reason": "maintenance"}
    manager.post(ev.MoveRequested(id=ASKED, **given))
    await manager.commit()


def status(memories, name="by-hand"):
    return (memories.migration(name) or {}).get("status") or {}


def record(memories):
    return memories.cluster.store.get(TRAINING_JOBS, ("default", "bert"))["status"]


async def test_a_move_of_a_job_is_told_step_by_step_to_who_asked_for_it(memories, manager):
    """Where from and where to, in words; in the end what it cost. Its record is the TrainingJob's."""
    await asked(memories, manager, job=JOB, targets=["node-2", "node-3"])
    memories.in_background(manager.memory)
    move, seen, pinned = manager.flying(), [], []
    assert (move.id, move.whole, set(move.after.values())) == (ASKED, True, {"node-2"})
    for told in TOLD:
        await memories.until(lambda told=told: status(memories).get("state") == told)
        seen.append(record(memories).get("change", {}).get("kind"))
        pinned.append(len(record(memories).get("pins", ())))
        if manager.flying() is not None:
            manager.now += 1
            goes_on(manager)
            await manager.commit()
    said = status(memories)
    assert (said["job"], said["source"], said["target"]) == (
        JOB,
        "node-0 (2), node-1 (2)",
        "node-2 (4)",
    )
    assert (said["stepsLost"], said["checkpoint"]["step"], said["reason"]) == (0, 100, "maintenance")
    assert said["downtimeSeconds"] == manager.state.history[-1].downtime
    assert seen == ["move"] * 6 + [None]
    assert pinned == [0, 0, 0, 4, 4, 4, 0], "from the moment that it is told to go"
    assert "replica" not in said
    last = record(memories)["lastChange"]
    assert (last["id"], last["kind"], last["state"]) == (ASKED, "move", "Succeeded")
    assert [item["metadata"]["name"] for item in memories.cluster.store.all(MIGRATIONS)] == ["by-hand"]


async def test_a_move_that_the_manager_decides_on_has_one_object_alone(memories, manager):
    """The TrainingJob of its job; there is no Migration of it."""
    manager.propose(Kind.MOVE)
    for _ in STATES:
        await manager.commit()
        assert not memories.cluster.store.all(MIGRATIONS)
        goes_on(manager)
    await manager.commit()
    assert record(memories)["lastChange"]["state"] == "Succeeded"


@pytest.mark.parametrize("at", range(len(TOLD)))
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "answer-lost"])
async def test_a_manager_that_is_killed_anywhere_leaves_all_of_it_to_the_next_one(
    memories, manager, at, lost
):
    """The move is remembered in full, and the leader at its end answers the request."""
    await ask(memories)
    manager.post(ev.MoveRequested(id=ASKED, job=JOB, reason="maintenance"))
    for _ in range(at):
        await manager.commit()
        manager.now += 1
        goes_on(manager)
    if lost:
        memories.cluster.faults.drop(method="PUT", path="trainingjobs", carried_out=True)
    await manager.commit()
    assert status(memories) == {}, "nothing was written in the background"
    second = await managing(memories, "two")
    assert second.state.transactions == manager.state.transactions
    ended = [msgspec.structs.replace(over, ending={}) for over in manager.state.history]
    assert [*second.state.history] == ended
    second.pods, second.sequences, second.now = dict(manager.pods), dict(manager.sequences), manager.now
    second.count = manager.count
    second.post(ev.JobObserved(manager.state.jobs[JOB].spec))
    second.post(ev.ManagerStarted("two", manager.state.settings))
    for name, uid in manager.pods.items():
        node = manager.state.replicas[name].node
        second.post(ev.ReplicaStarted(replica=name, incarnation=uid, node=node))
    memories.in_background(second.memory)
    while second.flying() is not None:
        await second.commit()
        second.now += 1
        goes_on(second)
    await second.commit()
    await memories.until(lambda: status(memories).get("state") == "Succeeded")
    assert (status(memories)["manager"], status(memories)["job"]) == ("two", JOB)
    await memories.until(lambda: not second.memory.is_answered(ASKED))


async def test_a_manager_that_is_killed_before_it_wrote_anything_has_promised_nothing(memories, manager):
    """The object is still a request, for the next one to take."""
    await ask(memories)
    manager.post(ev.MoveRequested(id=ASKED, job=JOB))
    second = await managing(memories, "two")
    assert second.state.transactions == {}
    heard = []
    watch = MigrationWatch(memories.api, identity="two")
    tasks = [
        asyncio.ensure_future(watch.run()),
        asyncio.ensure_future(watch.answer_requests(heard.append, lambda *_: None)),
    ]
    await memories.until(lambda: heard)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    (request,) = heard
    assert request == ev.MoveRequested(id=ASKED, job=JOB, reason="maintenance")


async def test_a_request_that_waits_says_what_for_and_is_taken_up_again(memories, manager):
    """For the same job as a whole, with the same targets."""
    await asked(memories, manager)
    await ask(memories, "later", job=JOB, targets=["node-3"])
    manager.post(ev.MoveRequested(id="default/later", job=JOB, targets=("node-3",), reason="maintenance"))
    await manager.commit()
    (request,) = manager.state.requests.values()
    memories.in_background(manager.memory)
    await memories.until(lambda: status(memories, "later").get("message"))
    assert status(memories, "later")["message"] == f"waits: {request.waits_for}"
    assert "state" not in status(memories, "later")
    second = await managing(memories, "two")
    (again,) = second.state.requests.values()
    assert (again.id, again.job, again.targets, again.replica) == ("default/later", JOB, ("node-3",), "")


async def test_a_request_is_withdrawn_by_its_deletion_while_it_waits(memories, manager):
    """What has begun goes on, and is told to nobody any more."""
    await asked(memories, manager)
    manager.post(ev.MoveRequested(id="default/later", job=JOB))
    await ask(memories, "later", job=JOB)
    await memories.cluster.machinery.delete(MIGRATIONS, ("default", "later"))
    manager.post(ev.RequestWithdrawn(id="default/later", reason="its Migration was deleted"))
    await memories.cluster.machinery.delete(MIGRATIONS, ("default", "by-hand"))
    memories.in_background(manager.memory)
    while manager.flying() is not None:
        await manager.commit()
        manager.now += 1
        goes_on(manager)
    await manager.commit()
    await memories.until(lambda: not manager.memory.is_answered(ASKED))
    states = {over.id: over.state for over in manager.state.history}
    assert states == {"default/later": TransactionState.REFUSED, ASKED: TransactionState.SUCCEEDED}
    assert not memories.cluster.store.all(MIGRATIONS)


@pytest.mark.parametrize(
    ("job", "words"),
    [("default/nobody", "there is no job default/nobody"), (JOB, "its owner forbids moves")],
)
async def test_a_refusal_is_told_in_words(memories, manager, job, words):
    """The refused job does not exist, or must not move; no TrainingJob changes."""
    spec = manager.state.jobs[JOB].spec
    manager.post(ev.JobObserved(msgspec.structs.replace(spec, migratable=False)))
    await ask(memories, job=job)
    manager.post(ev.MoveRequested(id=ASKED, job=job))
    await manager.commit()
    memories.in_background(manager.memory)
    await memories.until(lambda: status(memories).get("state") == "Refused")
    assert (status(memories)["message"], status(memories)["job"]) == (words, job)
    assert "endedAt" in status(memories)
    second = await managing(memories, "two")
    assert (second.state.requests, second.state.transactions) == ({}, {})


@pytest.mark.parametrize("spec", [{"job": "other/bert"}, {"job": "other/bert", "targets": ["node-1"]}])
async def test_a_job_of_another_namespace_is_nobody_elses_to_move(memories, spec):
    """The right to write in this namespace decides nothing in the other."""
    await ask(memories, **spec)
    heard = []
    watch = MigrationWatch(memories.api, identity="one")
    tasks = [
        asyncio.ensure_future(watch.run()),
        asyncio.ensure_future(watch.answer_requests(heard.append, lambda *_: None)),
    ]
    await memories.until(lambda: status(memories).get("state"))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not heard
    assert "names no replica and no job of the namespace default" in status(memories)["message"]


async def test_a_pod_of_a_gang_that_is_to_move_takes_all_of_it_along_and_its_migration_tells(
    memories, manager
):
    """It named one replica; the record is the job's."""
    await ask(memories, replica=f"{JOB}/worker/1", target="node-2")
    manager.post(ev.MoveRequested(id=ASKED, replica=f"{JOB}/worker/1", target="node-2"))
    await manager.commit()
    assert manager.flying().whole
    memories.in_background(manager.memory)
    await memories.until(lambda: status(memories).get("state") == "Proposed")
    assert (status(memories)["job"], status(memories)["target"]) == (JOB, "node-0, node-1 (2), node-2")
    second = await managing(memories, "two")
    assert second.state.transactions == manager.state.transactions
    _, actions = step(second.state, ev.ManagerStarted("two", second.state.settings), second.now)
    assert all(getattr(action, "transaction", ASKED) == ASKED for action in actions)
    glances = MigrationWatch(memories.api, identity="two")
    assert glances.pins == {}


async def test_a_new_manager_pins_to_the_hostnames_that_were_known_before_it_sees_a_node(memories, manager):
    """They are labels, and need not be the names of the nodes."""
    for index in range(4):
        known = manager.state.nodes[f"node-{index}"]
        labels = {"kubernetes.io/hostname": f"host-{index}"}
        manager.post(
            ev.NodeObserved(node=known.name, capacity=known.capacity, usage=known.usage, labels=labels)
        )
    manager.propose(Kind.MOVE)
    while manager.flying().state is not TransactionState.COMING:
        await manager.commit()
        goes_on(manager)
    await manager.commit()
    assert {pin["hostname"] for pin in record(memories)["pins"]} == {"host-3"}
    await memories.loaded("two")
    assert record(memories)["manager"] == "two"
    assert {pin["hostname"] for pin in record(memories)["pins"]} == {"host-3"}
