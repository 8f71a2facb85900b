"""The move of a whole job comes back as it was from its TrainingJob, wherever the manager was ended."""

import json

import msgspec
import pytest

from specon_manager.backends.kube.records.job_text import read_text, text_of
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import Kind, TransactionState
from support.decisions.cluster import SETTINGS
from support.kube.changing import Changing, bare
from support.kube.custom_resources import (
    CRDS,
    FIRST_CRDS,
    migration_of,
    progress_of,
    restored_from,
    served,
    training_jobs_of,
)
from support.kube.gangs import JOB, STATES, coupled, goes_on, trains

WAYS = [
    *((state, 1) for state in STATES),
    *((state, 2) for state in STATES if state not in STATES[:3]),
]
MEMBERS = 4


def moving(until, attempt=1, **changed):
    """Return a manager with a gang that moves, in that state."""
    manager = trains(Changing(), **changed)
    manager.propose(Kind.MOVE)
    for _ in range(20):
        move = manager.flying()
        if move.state is until and move.attempt == attempt:
            return manager
        manager.now += 1
        goes_on(manager, back=attempt == 2)
    raise AssertionError(f"never {until} on way {attempt}: {manager.flying()}")


def again(manager, progresses=None, schema=CRDS, edit=lambda items: None):
    """Return what the next manager knows, of objects that are all up to date."""
    jobs = training_jobs_of(manager.state, now=manager.now, first_schema=schema is FIRST_CRDS)
    edit(jobs)
    if progresses is None:
        progresses = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
    return restored_from(
        progresses, [], SETTINGS, now=manager.now, jobs=[served(schema, each) for each in jobs]
    )


def seen(manager, restored):
    """Return the restored state once the nodes and the job are told, as a backend begins."""
    state = msgspec.structs.replace(restored.state, nodes=manager.state.nodes)
    return step(state, ev.JobObserved(manager.state.jobs[JOB].spec), manager.now)[0]


def core_of(replica):
    """Return what of a replica decides on what is ordered."""
    leaving = None if replica.leaving is None else replica.leaving.purpose
    return replica.phase, replica.node, replica.incarnation, replica.starts, leaving


def cores(state):
    return {name: core_of(each) for name, each in state.replicas.items()}


@pytest.mark.parametrize("savers", ["lead", "all"])
@pytest.mark.parametrize("schema", [CRDS, FIRST_CRDS], ids=["present", "first"])
@pytest.mark.parametrize(("state", "attempt"), WAYS)
def test_a_gang_that_moves_comes_back_as_it_was(state, attempt, schema, savers):
    """With all of its witnesses; also without any TrainingProgress, or with what they said before."""
    manager = moving(state, attempt, savers=savers)
    move = manager.flying()
    assert len(move.witnesses) == (MEMBERS if savers == "all" else 1)
    before = [progress_of(each, now=manager.now) for each in trains(Changing()).state.replicas.values()]
    for progresses in (None, [], before):
        restored = again(manager, progresses, schema)
        assert not restored.problems
        assert restored.state.transactions == manager.state.transactions
        assert cores(restored.state) == cores(manager.state)
        assert restored.state.transaction_count == manager.state.transaction_count
        spec, known = restored.state.jobs[JOB].spec, manager.state.jobs[JOB].spec
        assert (spec.coupled, spec.savers, spec.coupling) == (True, savers, known.coupling)
        _, expected = step(manager.state, ev.ManagerStarted("again", SETTINGS), manager.now)
        _, ordered = step(seen(manager, restored), ev.ManagerStarted("again", SETTINGS), manager.now)
        assert [bare(order) for order in ordered] == [bare(order) for order in expected]


@pytest.mark.parametrize(
    ("state", "attempt", "end"),
    [
        (TransactionState.VERIFYING, 1, TransactionState.SUCCEEDED),
        (TransactionState.VERIFYING, 2, TransactionState.ROLLED_BACK),
        (TransactionState.PROPOSED, 1, TransactionState.ROLLED_BACK),
        (TransactionState.COMING, 2, TransactionState.FAILED),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_what_a_gang_and_each_of_its_pods_remember_of_a_move_comes_back(state, attempt, end, late):
    """Also where the TrainingProgresses were written before it ended: cooldowns, counts, what moves cost."""
    manager = moving(state, attempt)
    before = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
    manager.now += 1
    if state is TransactionState.VERIFYING:
        goes_on(manager)
    elif attempt == 1:
        manager.refuses(manager.flying(), "there is no node for it")
    else:
        manager.ticks(manager.flying().deadline - manager.now + 1)
    assert not manager.state.transactions
    assert manager.state.history[-1].state is end
    restored = again(manager, before if late else None)
    history = [msgspec.structs.replace(over, ending={}) for over in manager.state.history]
    assert [*restored.state.history] == history
    assert restored.state.measured.moves == manager.state.measured.moves
    assert restored.state.measured.downtime == pytest.approx(manager.state.measured.downtime)
    job, known = restored.state.jobs[JOB], manager.state.jobs[JOB]
    assert (job.failures, job.cooldown_until) == (known.failures, known.cooldown_until)
    for name, replica in manager.state.replicas.items():
        found = restored.state.replicas[name]
        assert (found.moves, found.attempts, found.disrupted) == (
            replica.moves,
            replica.attempts,
            replica.disrupted,
        )
        assert found.cooldown_until == pytest.approx(replica.cooldown_until)
        assert set(found.moved_for) == set(replica.moved_for)


def test_a_gang_that_began_anew_is_not_moved_again_by_the_next_manager():
    """It had lost what it trained: only a person has it moved again."""
    manager = moving(TransactionState.VERIFYING)
    before = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
    manager.now += 1
    for name in sorted(manager.pods):
        manager.reports(name, 1)
    assert manager.state.history[-1].state is TransactionState.FAILED
    known = {name: each.unproven for name, each in manager.state.replicas.items()}
    assert all(known.values())
    restored = again(manager, before)
    assert {name: each.unproven for name, each in restored.state.replicas.items()} == known


def test_the_record_of_a_large_gang_is_no_longer_than_the_api_takes():
    """Its parts are saved by each of a hundred workers."""
    manager = moving(TransactionState.LEAVING, workers=100)
    assert len(manager.flying().witnesses) == 100
    (item,) = training_jobs_of(manager.state, now=manager.now)
    assert len(item["status"]["record"]) < 64 * 1024
    assert again(manager).state.transactions == manager.state.transactions


@pytest.mark.parametrize("state", STATES)
def test_a_record_that_makes_no_sense_is_closed_and_nothing_is_ordered(state):
    """Where nothing was told to end it is rolled back, else it has failed: its owner runs what it likes."""
    manager = moving(state)

    def edit(items):
        record = json.loads(items[0]["status"]["record"])
        record["change"]["fields"]["attempt"] = 3
        items[0]["status"]["record"] = json.dumps(record)

    restored = again(manager, edit=edit)
    assert not restored.state.transactions
    untouched = state in STATES[:3]
    expected = TransactionState.ROLLED_BACK if untouched else TransactionState.FAILED
    assert restored.state.history[-1].state is expected
    assert restored.state.history[-1].kind is Kind.MOVE
    _, actions = step(seen(manager, restored), ev.ManagerStarted("again", SETTINGS), manager.now)
    assert [type(action).__name__ for action in actions if getattr(action, "transaction", "")] == []


def test_a_migration_that_asked_for_it_is_no_second_record():
    """It tells of the move; also where its server keeps only what version 0.1 knew."""
    manager = trains(Changing())
    asked = "default/by-hand"
    manager.post(ev.MoveRequested(id=asked, job=JOB))
    for _ in range(4):
        goes_on(manager)
    move = manager.flying()
    assert (move.id, move.whole) == (asked, True)
    alone = msgspec.structs.replace(
        move, whole=False, before={move.replica: "node-0"}, after={move.replica: "node-1"}
    )
    looks_alike = migration_of(alone, manager.state.replicas[move.replica], now=manager.now)
    looks_alike["metadata"]["name"] = "by-hand"
    jobs = training_jobs_of(manager.state, now=manager.now)
    restored = restored_from([], [looks_alike], SETTINGS, now=manager.now, jobs=jobs)
    assert restored.state.transactions == {asked: move}
    assert not restored.closings
    assert not restored.open


def test_a_gang_that_nothing_was_ordered_of_comes_back_with_what_couples_it():
    """This holds until its owner is seen; until then no replica of it is moved."""
    manager = trains(Changing())
    spec = again(manager).state.jobs[JOB].spec
    assert (spec.coupled, spec.savers, bool(spec.immovable)) == (True, "all", True)
    assert all(each.phase is Phase.RUNNING for each in again(manager).state.replicas.values())


@pytest.mark.parametrize("schema", [CRDS, FIRST_CRDS], ids=["present", "first"])
def test_a_gang_of_different_requests_comes_back_with_those(schema):
    """A manager from before reads of each the largest; what that wrote has none of them."""
    differ = ((0, Resources(cpu=2.0)), (2, Resources(cpu=1.0)))
    manager = trains(Changing(), unlike=differ, requests=Resources(cpu=2.0))
    back = again(manager, schema=schema).state
    assert back.jobs[JOB].spec.unlike == differ
    spec = back.jobs[JOB].spec
    assert [spec.requests_of(name).cpu for name in spec.replicas] == [2.0, 2.0, 1.0, 1.0]
    described = json.loads(text_of(manager.state.jobs[JOB], {}, None))["described"]
    assert described["requests"] == {"cpu": 2.0}
    alike = text_of(trains(Changing()).state.jobs[JOB], {}, None)
    assert "unlike" not in alike
    assert read_text(alike).described.unlike == ()


def test_what_its_owner_starts_beside_what_leaves_has_to_end_for_the_next_manager_too():
    """It is none of those that ran when all of it was to go, and no record of nonsense because of that."""
    manager = Changing()
    manager.observe(coupled(savers="lead", resizing="restart", workers=4, present=3))
    names = manager.state.jobs[JOB].spec.replicas
    for name in names[:3]:
        manager.starts(name, "node-0")
    absent = msgspec.structs.replace(manager.state.replicas[names[3]], phase=Phase.ABSENT)
    manager.state = manager.state.with_replica(absent)
    for name in names[:3]:
        manager.reports(name)
    manager.now += 100
    manager.ticks()
    manager.propose(Kind.MOVE)
    while manager.flying().state is not TransactionState.LEAVING:
        goes_on(manager)
    manager.starts(names[3], "node-1")
    move = manager.flying()
    assert names[3] in move.ending
    assert names[3] not in move.concerned
    restored = again(manager)
    assert not restored.problems
    assert restored.state.transactions == manager.state.transactions
    assert cores(restored.state) == cores(manager.state)
