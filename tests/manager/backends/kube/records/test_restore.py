"""The state that a new manager makes of the custom resources."""

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.core.state import Measured
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, HoldRoom, RequestCheckpoint, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.moves import MoveState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint
from support.cluster import DIGEST, SETTINGS
from support.custom_resources import migration_of, objects_of, progress_of, restored_from
from support.owners import Owners, described

R = "default/mnist/worker/0"
OPEN = [
    state
    for state in MoveState
    if state not in {MoveState.SUCCEEDED, MoveState.ROLLED_BACK, MoveState.FAILED}
]
BEFORE_EVICTION = OPEN[:3]


def running(jobs=("mnist",)):
    """Return a cluster in which these jobs train on node-0."""
    cluster = Owners()
    for job in jobs:
        cluster.observe(described(job))
    cluster.start_all()
    for job in jobs:
        cluster.report(f"default/{job}/worker/0", Category.CONVERGED, 100)
    return cluster


def moving(until, *, attempt=1):
    """Return a cluster with a move of the replica in that state."""
    cluster = running()
    cluster.post(ev.MoveRequested(id="default/by-hand", replica=R, target="node-1", reason="test"))
    for _ in range(100):
        move = cluster.state.moves[R]
        if move.state is until and move.attempt == attempt:
            return cluster
        if move.state is MoveState.CHECKPOINTING:
            checkpoint = Checkpoint(step=100, path="/c/100", digest=DIGEST)
            cluster.acknowledge(R, checkpoint=checkpoint)
        elif move.state is MoveState.RESERVED and until is MoveState.CHECKPOINTING:
            incarnation = cluster.live[R].incarnation
            cluster.post(ev.InstructionDelivered(id=move.id, replica=R, incarnation=incarnation))
        elif move.state is MoveState.VERIFYING and attempt == 2:
            cluster.tick(SETTINGS.deadlines.verify)  # it proves nothing on the target
        else:
            cluster.sidecars_answer = until is not MoveState.CHECKPOINTING
            cluster.carry_out_one(cluster.orders[0])
    raise AssertionError(f"the move never became {until}")


def again(cluster, change=lambda progresses, migrations: None, settings_=SETTINGS):
    progresses, migrations = objects_of(cluster.state, now=cluster.now)
    change(progresses, migrations)
    return restored_from(progresses, migrations, settings_, now=cluster.now)


def kept(replica):
    """Return what survives of what is known of a replica."""
    progress = msgspec.structs.replace(replica.progress, sessions=(), cpu_from=None)
    return msgspec.structs.replace(
        replica, progress=progress, requests=type(replica.requests)(), deadline=None, leaving=None
    )


STATES = [(state, 1) for state in OPEN] + [
    (state, 2) for state in (MoveState.EVICTING, MoveState.RESTORING, MoveState.VERIFYING)
]


@pytest.mark.parametrize(("state", "attempt"), STATES)
def test_an_open_move_comes_back_as_it_was(state, attempt):
    """Its record, its replica, and what it orders again, in every state of both attempts."""
    cluster = moving(state, attempt=attempt)
    restored = again(cluster)
    assert not restored.problems
    assert not restored.closings
    assert restored.state.moves == cluster.state.moves
    assert kept(restored.state.replicas[R]) == kept(cluster.state.replicas[R])
    _, expected = step(cluster.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    _, ordered = step(restored.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert [_bare(order) for order in ordered] == [_bare(order) for order in expected]


def _bare(order):
    """Without what the description of the job says, which comes from its owner."""
    changes = {"requests": None} if isinstance(order, HoldRoom) else {}
    changes |= {"grace_seconds": None} if isinstance(order, EvictReplica) else {}
    changes |= {"template": None} if isinstance(order, StartReplica) else {}
    return msgspec.structs.replace(order, **changes)


@pytest.mark.parametrize(("state", "attempt"), STATES)
def test_an_open_move_comes_back_though_the_training_progress_is_old_or_lost(state, attempt):
    """What is written before each order is enough: where the replica stands, and how often it was started."""
    cluster = moving(state, attempt=attempt)
    old = progress_of(running().state.replicas[R], now=cluster.now - 1)
    for stale in ([old], []):
        _, migrations = objects_of(cluster.state, now=cluster.now)
        restored = restored_from(stale, migrations, SETTINGS, now=cluster.now)
        assert restored.state.moves == cluster.state.moves
        there, was = restored.state.replicas[R], cluster.state.replicas[R]
        for field in ("phase", "node", "incarnation", "former", "starts", "moves", "attempts", "moved_for"):
            assert getattr(there, field) == getattr(was, field), field


def test_what_was_learnt_comes_back():
    """Categories, since when they hold, moved flags, cooldowns, history, costs; jobs with their replicas."""
    cluster = running(("mnist", "other"))
    cluster.post(ev.MoveRequested(id="default/by-hand", replica=R, target="node-1", reason="test"))
    cluster.carry_out()
    cluster.tick()
    cluster.report(R, Category.CONVERGED, 101)
    before = cluster.state
    assert not before.moves
    assert before.replicas[R].moves == 1
    restored = again(cluster)
    state = restored.state
    assert {name: kept(r) for name, r in state.replicas.items()} == {
        name: kept(r) for name, r in before.replicas.items()
    }
    assert state.replicas[R].moved_for == ("requested",)
    assert state.replicas[R].cooldown_until == before.replicas[R].cooldown_until
    assert [move.id for move in state.history] == ["default/by-hand"]
    assert state.measured == before.measured != Measured()
    assert {name: job.spec.replicas for name, job in state.jobs.items()} == {
        name: job.spec.replicas for name, job in before.jobs.items()
    }
    assert all(job.trains_since is not None for job in state.jobs.values())


def test_the_number_of_the_next_move_is_one_that_never_was():
    """Names of Migrations are made of it."""
    cluster = running()
    cluster.post(ev.MoveRequested(id="default/by-hand", replica=R, target="node-1", reason="test"))
    move = msgspec.structs.replace(cluster.state.moves[R], id="move-41", state=MoveState.FAILED, ended_at=1.0)
    restored = restored_from([], [migration_of(move, None, now=1.0)], SETTINGS, now=2.0)
    assert restored.state.move_count == 41


def test_nothing_is_moved_before_its_owner_described_it():
    """The description of a job is not in the custom resources: until it is seen no policy moves it."""
    state = again(running()).state
    state, ordered = step(state, ev.MoveRequested(id="default/x", replica=R, target="node-1"), 5000.0)
    assert not ordered
    assert state.history[-1].state is MoveState.ROLLED_BACK


def test_a_replica_that_was_to_start_after_a_failed_move_is_still_to_start():
    """A manager that is killed right after the move failed, before anything else was written."""
    cluster = moving(MoveState.RESTORING, attempt=2)
    stale = progress_of(running().state.replicas[R], now=cluster.now - 1)
    number = cluster.state.replicas[R].starts
    cluster.post(ev.StartRefused(replica=R, start=number, reason="no room"))
    assert cluster.state.history[-1].state is MoveState.FAILED
    _, migrations = objects_of(cluster.state, now=cluster.now)
    restored = restored_from([stale], migrations, SETTINGS, now=cluster.now)
    _, ordered = step(restored.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert [(o.replica, o.node) for o in ordered if isinstance(o, StartReplica)] == [(R, None)]


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize(
    ("field", "value"),
    [("state", "Nonsense"), ("source", None), ("target", 7), ("replica", "default/x")],
)
def test_an_open_move_that_makes_no_sense_is_closed_and_ordered_nothing(state, field, value):
    """RolledBack where nothing had been ended, else Failed; the replica comes back wherever it can."""
    cluster = moving(state)

    def edit(progresses, migrations):
        migrations[0]["status"][field] = value
        if field == "replica":
            migrations[0]["spec"] = {"replica": value}

    restored = again(cluster, edit)
    (closing,) = restored.closings
    readable = field != "state"
    expected = MoveState.ROLLED_BACK if readable and state in BEFORE_EVICTION else MoveState.FAILED
    assert closing.state is expected
    assert field in closing.message
    assert not restored.state.moves
    _, ordered = step(restored.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert not [o for o in ordered if isinstance(o, EvictReplica | HoldRoom | RequestCheckpoint)]
    assert all(o.node is None for o in ordered if isinstance(o, StartReplica))
    if expected is MoveState.FAILED and field != "replica":
        assert restored.state.replicas[R].phase is Phase.STARTING


@pytest.mark.parametrize("state", OPEN[3:])
def test_a_pod_that_lives_is_believed_before_a_closed_move(state):
    """Where the backend tells of one, nothing is started beside it."""
    cluster = moving(state)
    restored = again(cluster, lambda _, migrations: migrations[0]["status"].pop("state"))
    told = ev.ReplicaStarted(replica=R, incarnation="uid-9", node="node-1")
    after, ordered = step(restored.state, told, cluster.now)
    assert not ordered
    after, ordered = step(after, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert not ordered
    assert after.replicas[R].incarnation == "uid-9"


def test_of_two_open_moves_of_one_replica_one_is_closed():
    """The one that came furthest goes on."""
    cluster = moving(MoveState.EVICTING)

    def double(progresses, migrations):
        other = copy.deepcopy(migrations[0])
        other["metadata"] |= {"name": "other", "uid": "uid-other"}
        other["status"] |= {"state": "Reserved", "id": "default/other"}
        migrations.append(other)

    restored = again(cluster, double)
    assert restored.state.moves[R].id == "default/by-hand"
    (closing,) = restored.closings
    assert (closing.name.name, closing.state) == ("other", MoveState.ROLLED_BACK)
    assert "default/by-hand moves the same replica" in closing.message


def test_ours_without_a_status_was_never_begun():
    """A manager that was killed between the two writes had ordered nothing."""
    cluster = running()
    cluster.post(ev.MoveRequested(id="default/by-hand", replica=R, target="node-1"))
    move = msgspec.structs.replace(cluster.state.moves[R], id="move-1")
    item = migration_of(move, None, now=1.0)
    del item["status"]
    restored = again(cluster, lambda _, migrations: migrations.__setitem__(slice(None), [item]))
    (closing,) = restored.closings
    assert closing.state is MoveState.ROLLED_BACK
    assert "it was not begun" in closing.message
    assert restored.state.replicas[R].phase is Phase.RUNNING


def test_a_request_that_nobody_looked_at_is_left_alone():
    """It is found by whoever leads, and is no open move."""
    metadata = {"name": "ask", "namespace": "default", "uid": "1"}
    item = {"metadata": metadata, "spec": {"replica": R}}
    restored = again(running(), lambda _, migrations: migrations.append(item))
    assert not restored.closings
    assert not restored.state.moves


keys = st.sampled_from(
    [
        "state",
        "source",
        "target",
        "incarnation",
        "attempt",
        "record",
        "checkpoint",
        "phase",
        "node",
        "replica",
    ]
)
values = st.sampled_from(
    [None, "", 0, -1, "x" * 300, [], {}, "Running", "Verifying", "Succeeded", {"phase": "Running"}]
)


@settings(deadline=None)
@given(
    st.sampled_from(STATES),
    st.lists(st.tuples(st.booleans(), keys, values), max_size=4),
    st.booleans(),
)
def test_whatever_was_edited_a_manager_goes_on(at, edits, lives):
    """It takes over, hears of the pods, and its next steps start nothing beside a live pod."""
    cluster = moving(at[0], attempt=at[1])

    def edit(progresses, migrations):
        for of_move, key, value in edits:
            (migrations if of_move else progresses)[0]["status"][key] = value

    state, now = again(cluster, edit).state, cluster.now
    told = [
        ev.NodeObserved(node=n.name, capacity=n.capacity, usage=n.usage) for n in cluster.state.nodes.values()
    ]
    told.append(ev.JobObserved(cluster.specs["default/mnist"]))
    known = state.replicas[R].incarnation
    if lives:
        if known not in {None, "uid-9"}:
            told.append(ev.ReplicaGone(replica=R, incarnation=known))
        told.append(ev.ReplicaStarted(replica=R, incarnation="uid-9", node="node-1"))
    elif known is not None:
        told.append(ev.ReplicaGone(replica=R, incarnation=known))
    for event in (*told, ev.ManagerStarted("again", SETTINGS), ev.Tick()):
        state, ordered = step(state, event, now)
    if lives and R not in state.moves:
        assert state.replicas[R].incarnation == "uid-9"
        assert not [order for order in ordered if isinstance(order, StartReplica)]
    for _ in range(20):
        now += 1000.0
        state, ordered = step(state, ev.Tick(), now)
