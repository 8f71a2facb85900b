"""The state that a new manager makes of the custom resources."""

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.kueue.decision import request_of
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.migration_status import migration_object
from specon_manager.backends.kube.records.pins import glance
from specon_manager.core.state import Measured
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import HoldRoom, PlaceJob, RequestCheckpoint
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import FINAL_STATES, UNTOUCHED_STATES, TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint
from support.decisions.cluster import DIGEST, SETTINGS
from support.decisions.owners import Owners, described
from support.kube.custom_resources import (
    CRDS,
    FIRST_CRDS,
    migration_of,
    objects_of,
    progress_of,
    restored_from,
    served,
)
from support.kube.kueue_objects import waiting

R = "default/mnist/worker/0"
MOVE = "default/by-hand"
OPEN = [state for state in TransactionState if state not in FINAL_STATES]
SCHEMAS = [pytest.param(CRDS, id="present"), pytest.param(FIRST_CRDS, id="first")]
"""Of the server: what Helm installs now, and what version 0.1 left there."""


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
    cluster.post(ev.MoveRequested(id=MOVE, replica=R, target="node-1", reason="test"))
    for _ in range(100):
        move = cluster.state.transactions[MOVE]
        if move.state is until and move.attempt == attempt:
            return cluster
        if move.state is TransactionState.CHECKPOINTING:
            checkpoint = Checkpoint(step=100, path="/c/100", digest=DIGEST)
            cluster.acknowledge(R, checkpoint=checkpoint)
        elif move.state is TransactionState.RESERVED and until is TransactionState.CHECKPOINTING:
            incarnation = cluster.live[R].incarnation
            cluster.post(ev.InstructionDelivered(id=move.id, replica=R, incarnation=incarnation))
        elif move.state is TransactionState.VERIFYING and attempt == 2:
            cluster.tick(SETTINGS.deadlines.verify)  # it proves nothing on the target
        else:
            cluster.sidecars_answer = until is not TransactionState.CHECKPOINTING
            cluster.carry_out_one(cluster.orders[0])
    raise AssertionError(f"the move never became {until}")


def again(cluster, change=lambda progresses, migrations: None, settings_=SETTINGS, schema=CRDS):
    progresses, migrations = objects_of(cluster.state, now=cluster.now)
    change(progresses, migrations)
    progresses = [served(schema, each) for each in progresses]
    migrations = [served(schema, each) for each in migrations]
    return restored_from(progresses, migrations, settings_, now=cluster.now)


def edited(cluster, change):
    """Return what comes of objects into which somebody wrote what no schema would take."""
    progresses, migrations = objects_of(cluster.state, now=cluster.now)
    change(progresses, migrations)
    return restored_from(progresses, migrations, SETTINGS, now=cluster.now)


def kept(replica):
    """Return what survives of what is known of a replica."""
    progress = msgspec.structs.replace(
        replica.progress,
        sessions=(),
        cpu_from=None,
        first_step=None,
        began_step=None,
        step_interval=None,
        step_gap=None,
        step_seconds=None,
    )
    return msgspec.structs.replace(
        replica,
        progress=progress,
        requests=type(replica.requests)(),
        deadline=None,
        leaving=None,
        lost_at=None,
        holds=False,
    )


def lasting(move):
    """Return what also a server with the first schema keeps of a move."""
    unknown = {"step_gap": 0, "began_step": None, "checkpoint_at": None, "answered": True}
    unknown |= {"asked_step": None, "asked_for": False}
    if move.attempt > 1 and move.gone_at is not None:
        unknown["incarnation"] = None  # of those that are gone the last one is known
    witnesses = {name: msgspec.structs.replace(each, **unknown) for name, each in move.witnesses.items()}
    return msgspec.structs.replace(move, witnesses=witnesses, repeats=0)


STATES = [(state, 1) for state in OPEN] + [
    (state, 2) for state in (TransactionState.LEAVING, TransactionState.COMING, TransactionState.VERIFYING)
]


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(("state", "attempt"), STATES)
def test_an_open_move_comes_back_as_it_was(state, attempt, schema):
    """Its record, its replica, and what it orders again, in every state of both attempts."""
    cluster = moving(state, attempt=attempt)
    restored = again(cluster, schema=schema)
    assert not restored.problems
    assert not restored.closings
    if schema is CRDS:
        assert restored.state.transactions == cluster.state.transactions
    (there,), (was,) = restored.state.transactions.values(), cluster.state.transactions.values()
    assert lasting(there) == lasting(was)
    assert kept(restored.state.replicas[R]) == kept(cluster.state.replicas[R])
    _, expected = step(cluster.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    _, ordered = step(seen(cluster, restored), ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert [_bare(order) for order in ordered] == [_bare(order) for order in expected]


def seen(cluster, restored):
    """Return the restored state once the nodes are told, as a backend begins."""
    return msgspec.structs.replace(restored.state, nodes=cluster.state.nodes)


def _bare(order):
    """Without what the description of the job says, which comes from its owner."""
    changes = {"requests": None} if isinstance(order, HoldRoom) else {}
    changes |= {"grace_seconds": None} if isinstance(order, PlaceJob) else {}
    changes |= {"deadline": None} if isinstance(order, RequestCheckpoint) else {}
    return msgspec.structs.replace(order, **changes)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(("state", "attempt"), STATES)
def test_an_open_move_comes_back_though_the_training_progress_is_old_or_lost(state, attempt, schema):
    """What is written before each order is enough: where the replica stands, and how often it was started."""
    cluster = moving(state, attempt=attempt)
    old = progress_of(running().state.replicas[R], now=cluster.now - 1)
    for stale in ([old], []):
        _, migrations = objects_of(cluster.state, now=cluster.now)
        migrations = [served(schema, each) for each in migrations]
        restored = restored_from(stale, migrations, SETTINGS, now=cluster.now)
        assert list(restored.state.transactions) == [MOVE]
        there, was = restored.state.replicas[R], cluster.state.replicas[R]
        for field in ("phase", "node", "incarnation", "former", "starts", "moves", "attempts", "moved_for"):
            assert getattr(there, field) == getattr(was, field), field


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_checkpoint_that_was_verified_long_ago_permits_nothing_after_a_restart(schema):
    """The manager was away: the trainer went on, and a new one is asked for before it is ended."""
    cluster = moving(TransactionState.LEAVING)
    restored = again(cluster, schema=schema)
    later = cluster.now + SETTINGS.deadlines.checkpoint_age + 1
    state, ordered = step(seen(cluster, restored), ev.ManagerStarted("again", SETTINGS), later)
    assert [type(order).__name__ for order in ordered] == ["RequestCheckpoint"]
    assert ordered[0].id != MOVE  # what was answered under that would be answered again
    assert state.transactions[MOVE].state is TransactionState.CHECKPOINTING
    asked = msgspec.structs.replace(cluster.state, transactions=state.transactions)
    cluster.state = asked
    back = again(cluster, schema=schema).state.transactions[MOVE]
    assert back.request == ordered[0].id


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_stuck_is_said_and_is_still_stuck_after_a_restart(schema):
    """Why, in the message of the object."""
    cluster = moving(TransactionState.LEAVING)
    move = cluster.state.transactions[MOVE]
    move = msgspec.structs.replace(move, stuck="it was told 3 times to end and is still there")
    cluster.state = msgspec.structs.replace(cluster.state, transactions={MOVE: move})
    _, migrations = objects_of(cluster.state, now=cluster.now)
    assert migrations[0]["status"]["message"] == f"stuck: {move.stuck}"
    assert again(cluster, schema=schema).state.transactions[MOVE].stuck == move.stuck


def test_a_text_that_contradicts_the_other_fields_does_not_count():
    """A manager of version 0.1 does not write it, and people edit what they see."""
    cluster = moving(TransactionState.VERIFYING)
    early = objects_of(moving(TransactionState.RESERVED).state, now=cluster.now)[1][0]["status"][
        "transaction"
    ]

    def older(_, migrations):
        migrations[0]["status"]["transaction"] = early

    restored = again(cluster, older)
    assert lasting(restored.state.transactions[MOVE]) == lasting(cluster.state.transactions[MOVE])


def test_requests_that_wait_come_back_with_their_age():
    """As they were written down: what they wait for is found out anew."""
    item = {
        "metadata": {"name": "ask", "namespace": "default", "uid": "1"},
        "spec": {"replica": R, "target": "node-1"},
        "status": {"message": "waits: for others", "replica": R, "proposedAt": "2026-01-01T00:00:00Z"},
    }
    restored = edited(running(), lambda _, migrations: migrations.append(item))
    (request,) = restored.state.requests.values()
    assert (request.id, request.replica, request.target) == ("default/ask", R, "node-1")
    assert request.at == 1_767_225_600.0
    assert not restored.closings


def test_what_was_learnt_comes_back():
    """Categories, since when they hold, moved flags, cooldowns, history, costs; jobs with their replicas."""
    cluster = running(("mnist", "other"))
    cluster.post(ev.MoveRequested(id=MOVE, replica=R, target="node-1", reason="test"))
    cluster.carry_out()
    cluster.tick()
    cluster.report(R, Category.CONVERGED, 101)
    before = cluster.state
    assert not before.transactions
    assert before.replicas[R].moves == 1
    restored = again(cluster)
    state = restored.state
    assert {name: kept(r) for name, r in state.replicas.items()} == {
        name: kept(r) for name, r in before.replicas.items()
    }
    assert state.replicas[R].moved_for == ("requested",)
    assert state.replicas[R].cooldown_until == before.replicas[R].cooldown_until
    assert [move.id for move in state.history] == [MOVE]
    assert state.measured == before.measured != Measured()
    assert {name: job.spec.replicas for name, job in state.jobs.items()} == {
        name: job.spec.replicas for name, job in before.jobs.items()
    }
    assert all(job.trains_since is not None for job in state.jobs.values())


def test_the_number_of_the_next_move_is_one_that_never_was():
    """Names of Migrations are made of it."""
    cluster = running()
    cluster.post(ev.MoveRequested(id=MOVE, replica=R, target="node-1", reason="test"))
    move = msgspec.structs.replace(
        cluster.state.transactions[MOVE], id="move-41", state=TransactionState.FAILED, ended_at=1.0
    )
    restored = restored_from([], [migration_of(move, None, now=1.0)], SETTINGS, now=2.0)
    assert restored.state.transaction_count == 41


@pytest.mark.parametrize("name", ["move-41", "admit-7"])
def test_what_a_person_calls_like_one_of_ours_is_another_one(name):
    """Its id has the namespace in it; its number is none of ours."""
    cluster = running()
    cluster.post(ev.MoveRequested(id=f"default/{name}", replica=R, target="node-1", reason="test"))
    cluster.carry_out()
    restored = again(cluster)
    assert list(restored.state.transactions) == [f"default/{name}"]
    assert restored.state.transaction_count == 0


@pytest.mark.parametrize("schema", SCHEMAS)
def test_how_often_a_replica_was_disrupted_comes_back(schema):
    """Where the schema has no place for it, its former moves say so; and why its last one is no success."""
    cluster = moving(TransactionState.VERIFYING)
    cluster.report(R, Category.CONVERGED, 1)
    over = cluster.state.history[-1]
    assert (over.state, over.attempt) == (TransactionState.FAILED, 1)
    there, was = again(cluster, schema=schema).state.replicas[R], cluster.state.replicas[R]
    assert (there.disrupted, there.unproven) == (was.disrupted, was.unproven) == (1, over.note)


def test_nothing_is_moved_before_its_owner_described_it():
    """The description of a job is not in the custom resources: until it is seen no policy moves it."""
    state = again(running()).state
    state, ordered = step(state, ev.MoveRequested(id="default/x", replica=R, target="node-1"), 5000.0)
    assert not ordered
    assert state.history[-1].state is TransactionState.REFUSED


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_replica_that_was_to_start_after_a_failed_move_is_still_its_owners_to_start(schema):
    """A manager that is killed right after the move failed, before anything else was written."""
    cluster = moving(TransactionState.COMING, attempt=2)
    stale = progress_of(running().state.replicas[R], now=cluster.now - 1)
    cluster.orders.clear()
    cluster.tick(SETTINGS.deadlines.start)
    assert cluster.state.history[-1].state is TransactionState.FAILED
    _, migrations = objects_of(cluster.state, now=cluster.now)
    migrations = [served(schema, each) for each in migrations]
    restored = restored_from([stale], migrations, SETTINGS, now=cluster.now)
    assert restored.state.replicas[R].phase is Phase.AWAITED
    _, ordered = step(restored.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert not [order for order in ordered if isinstance(order, PlaceJob) and order.transaction]


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

    restored = edited(cluster, edit)
    (closing,) = restored.closings
    untouched = field != "state" and state in UNTOUCHED_STATES
    expected = MoveState.ROLLED_BACK if untouched else MoveState.FAILED
    assert closing.state is expected
    assert field in closing.message
    assert not restored.state.transactions
    _, ordered = step(restored.state, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert not [o for o in ordered if isinstance(o, HoldRoom | RequestCheckpoint)]
    told = [o for o in ordered if isinstance(o, PlaceJob)]
    assert all(not o.transaction and not any(o.placement.values()) for o in told)
    if expected is MoveState.FAILED and field != "replica":
        assert restored.state.replicas[R].phase is Phase.AWAITED
        assert len(told) == 1  # its owner may hold it back for that move


@pytest.mark.parametrize("state", OPEN[3:])
def test_a_pod_that_lives_is_believed_before_a_closed_move(state):
    """Where the backend tells of one, nothing is started beside it."""
    cluster = moving(state)
    restored = edited(cluster, lambda _, migrations: migrations[0]["status"].pop("state"))
    told = ev.ReplicaStarted(replica=R, incarnation="uid-9", node="node-1")
    after, ordered = step(restored.state, told, cluster.now)
    assert not ordered
    after, ordered = step(after, ev.ManagerStarted("again", SETTINGS), cluster.now)
    assert not ordered
    assert after.replicas[R].incarnation == "uid-9"


def test_of_two_open_moves_of_one_replica_one_is_closed():
    """The one that came furthest goes on."""
    cluster = moving(TransactionState.LEAVING)

    def double(progresses, migrations):
        other = copy.deepcopy(migrations[0])
        other["metadata"] |= {"name": "other", "uid": "uid-other"}
        other["status"] |= {"state": "Reserved", "id": "default/other"}
        migrations.append(other)

    restored = again(cluster, double)
    assert list(restored.state.transactions) == [MOVE]
    (closing,) = restored.closings
    assert (closing.name.name, closing.state) == ("other", MoveState.ROLLED_BACK)
    assert "default/by-hand moves the same replica" in closing.message


def test_ours_without_a_status_was_never_begun():
    """A manager that was killed between the two writes had ordered nothing."""
    cluster = running()
    cluster.post(ev.MoveRequested(id=MOVE, replica=R, target="node-1"))
    move = msgspec.structs.replace(cluster.state.transactions[MOVE], id="move-1")
    item = migration_of(move, None, now=1.0)
    del item["status"]
    restored = edited(cluster, lambda _, migrations: migrations.__setitem__(slice(None), [item]))
    (closing,) = restored.closings
    assert closing.state is MoveState.ROLLED_BACK
    assert "it was not begun" in closing.message
    assert restored.state.replicas[R].phase is Phase.RUNNING


def test_a_request_that_nobody_looked_at_is_left_alone():
    """The leader finds it, and it is no open move."""
    metadata = {"name": "ask", "namespace": "default", "uid": "1"}
    item = {"metadata": metadata, "spec": {"replica": R}}
    restored = edited(running(), lambda _, migrations: migrations.append(item))
    assert not restored.closings
    assert not restored.state.transactions
    assert not restored.state.requests


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

    state, now = edited(cluster, edit).state, cluster.now
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
    if lives and not state.transactions:
        assert state.replicas[R].incarnation == "uid-9"
        assert not [order for order in ordered if isinstance(order, PlaceJob) and order.transaction]
    for _ in range(20):
        now += 1000.0
        state, ordered = step(state, ev.Tick(), now)


def test_a_save_before_a_preemption_is_nobodys_request_and_comes_back_as_it_was():
    """Its object is there a moment before its status: it was taken for a move that somebody asks for."""
    cluster = running()
    name = request_of(waiting("urgent"), R)
    cluster.post(ev.SaveRequested(id=name, replica=R, reason="Kueue is likely to preempt it"))
    (save,) = cluster.state.transactions.values()
    assert save.id == name
    assert not glance(migration_object(save)).asked
    restored = again(cluster).state
    assert (list(restored.transactions), restored.transactions[name].purpose) == ([name], "save")
    assert restored.transaction_count == 0
