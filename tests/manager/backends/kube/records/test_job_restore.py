"""Jobs and changes that a new manager makes of the TrainingJobs."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.records.job_record import read_training_job
from specon_manager.backends.kube.records.job_text import REMEMBERED, read_text, text_of
from specon_manager.backends.kube.records.transaction_text import RECORD_CHARACTERS
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import Kind, TransactionState, Witness
from support.decisions.cluster import SETTINGS
from support.kube.changing import Changing, bare, elastic
from support.kube.custom_resources import (
    CRDS,
    FIRST_CRDS,
    migration_of,
    progress_of,
    restored_from,
    served,
    training_job_of,
    training_jobs_of,
)

JOB = "default/bert"
KINDS = (Kind.SCALE_OUT, Kind.SCALE_IN, Kind.PREEMPT)


def trained(**changed):
    """Return a manager whose job trains."""
    manager = Changing()
    manager.observe(elastic(**changed))
    manager.run_all()
    return manager


def changing(kind, until, *, resizing="live"):
    """Return a manager with a change of that kind in that state, and half of what it asks for done."""
    if kind is Kind.ADMIT:
        manager = Changing()
        manager.observe(elastic(resizing=resizing))
        change = manager.propose(kind)
        manager.starts(min(change.after))
        return manager
    manager = trained(resizing=resizing)
    change = manager.propose(kind)
    while manager.flying().state is not until:
        before = manager.flying()
        if before.state is TransactionState.CHECKPOINTING:
            manager.acknowledges(change)
        else:
            for name in [n for n in manager.pods if manager.state.replicas[n].leaving is not None]:
                manager.ends(name)
            if before.state is TransactionState.COMING:
                for name in [n for n in before.wanted if n not in manager.pods]:
                    manager.starts(name)
        assert manager.flying() != before, f"nothing makes it {until}"
    return manager


def again(manager, change=lambda items: None, progresses=None, schema=None):
    """Return what the next manager knows, of objects that are all up to date."""
    jobs = training_jobs_of(manager.state, now=manager.now)
    change(jobs)
    if progresses is None:
        progresses = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
    jobs = [served(schema, each) for each in jobs] if schema is not None else jobs
    return restored_from(progresses, [], SETTINGS, now=manager.now, jobs=jobs)


def seen(manager, restored):
    """Return the restored state once the nodes are told, as a backend begins."""
    return msgspec.structs.replace(restored.state, nodes=manager.state.nodes)


def core_of(replica):
    """Return what of a replica decides on what is ordered."""
    leaving = None if replica.leaving is None else replica.leaving.purpose
    return replica.phase, replica.node, replica.incarnation, replica.starts, leaving


def book_of(job):
    """Return what is known of a job beside its description."""
    # That its owner is to be told again is found out anew.
    return msgspec.structs.replace(job, spec=None, order=0, released=0, release_due=None)


CASES = [
    (Kind.ADMIT, TransactionState.COMING, "live"),
    *((kind, TransactionState.CHECKPOINTING, "live") for kind in KINDS),
    *((kind, TransactionState.LEAVING, "live") for kind in KINDS[1:]),
    *(
        (kind, state, "live")
        for kind in KINDS[:1]
        for state in (TransactionState.COMING, TransactionState.VERIFYING)
    ),
    *(
        (kind, state, "restart")
        for kind in KINDS[:2]
        for state in (TransactionState.LEAVING, TransactionState.COMING, TransactionState.VERIFYING)
    ),
]


@pytest.mark.parametrize("schema", [CRDS, FIRST_CRDS], ids=["present", "first"])
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("kind", "state", "resizing"), CASES)
def test_an_open_change_comes_back_as_it_was(kind, state, resizing, lost, schema):
    """Its record, its replicas, its job, and what it orders again; also without any TrainingProgress."""
    manager = changing(kind, state, resizing=resizing)
    restored = again(manager, progresses=[] if lost else None, schema=schema)
    assert not restored.problems
    assert restored.state.transactions == manager.state.transactions
    assert {name: core_of(each) for name, each in restored.state.replicas.items()} == {
        name: core_of(each) for name, each in manager.state.replicas.items()
    }
    assert book_of(restored.state.jobs[JOB]) == book_of(manager.state.jobs[JOB])
    assert restored.state.transaction_count == manager.state.transaction_count
    _, expected = step(manager.state, ev.ManagerStarted("again", SETTINGS), manager.now)
    _, ordered = step(seen(manager, restored), ev.ManagerStarted("again", SETTINGS), manager.now)
    assert [bare(order) for order in ordered] == [bare(order) for order in expected]


@pytest.mark.parametrize(("kind", "state", "resizing"), CASES)
def test_an_open_change_goes_on_where_its_training_progresses_are_old(kind, state, resizing):
    """They say that all of it trains: what was told to end is told again all the same."""
    manager = changing(kind, state, resizing=resizing)
    old = [progress_of(each, now=manager.now) for each in trained().state.replicas.values()]
    restored = again(manager, progresses=old)
    assert {name: core_of(each) for name, each in restored.state.replicas.items()} == {
        name: core_of(each) for name, each in manager.state.replicas.items()
    }


ACTS = ("admit", "scale-out", "scale-in", "preempt", "start", "end", "answer", "report", "tick", "wait")


@settings(max_examples=60, deadline=None)
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 5), st.booleans()), max_size=40))
def test_whatever_happened_comes_back(acts):
    """State, objects, state: jobs, changes, their history and every replica are as they were."""
    manager = Changing()
    manager.observe(elastic())
    manager.observe(elastic("other", resizing="restart", checkpointing="on-termination"))
    jobs = list(manager.state.jobs)
    for act, index, other in acts:
        job = jobs[other]
        happen(manager, act, index, job)
        manager.now += 1
    restored = again(manager)
    assert not restored.problems
    state = restored.state
    assert state.transactions.keys() == manager.state.transactions.keys()
    for name, change in manager.state.transactions.items():
        assert msgspec.structs.replace(state.transactions[name], deadline=change.deadline) == change
    for name, job in manager.state.jobs.items():
        assert book_of(state.jobs[name]) == book_of(job)
    assert [job.name for job in sorted(state.jobs.values(), key=lambda job: job.order)] == jobs
    assert {name: core_of(each) for name, each in state.replicas.items()} == {
        name: core_of(each) for name, each in manager.state.replicas.items()
    }
    # Who was told to end is of no interest any more.
    ended = [msgspec.structs.replace(over, ending={}) for over in manager.state.history]
    latest = [over for job in jobs for over in [each for each in ended if each.job == job][-REMEMBERED:]]
    assert sorted(state.history, key=str) == sorted(latest, key=str)
    assert state.transaction_count == manager.state.transaction_count


def happen(manager, act, index, job):
    """Let one thing happen to a job, where it can."""
    state, change = manager.state, manager.flying(job)
    names = state.jobs[job].spec.replicas
    name = names[index % len(names)]
    replica = state.replicas[name]
    workers = [n for n in state.jobs[job].spec.worker_names if state.replicas[n].phase is Phase.RUNNING]
    if act in {"admit", "scale-out", "scale-in", "preempt"}:
        trains = state.jobs[job].trains_since is not None and change is None
        waits = not state.jobs[job].admitted and change is None and not any(n in manager.pods for n in names)
        able = {"admit": waits, "scale-out": trains and len(workers) < 4, "scale-in": len(workers) > 1}
        if able.get(act, trains) and (act == "admit" or trains):
            manager.propose(Kind(act), job)
    elif act == "start" and replica.phase in {Phase.STARTING, Phase.AWAITED} and name not in manager.pods:
        manager.starts(name)
    elif act == "end" and name in manager.pods:
        manager.ends(name)
    elif act == "answer" and change is not None:
        manager.acknowledges(change, done=bool(index))
    elif act == "report" and name in manager.pods:
        manager.reports(name, 100 + index)
    elif act == "tick":
        manager.ticks()
    elif act == "wait":
        manager.ticks(1000.0)


def test_a_job_that_waits_is_not_taken_for_admitted_by_an_old_training_progress():
    """That says it trains; but it was preempted since, and written down before."""
    manager = changing(Kind.PREEMPT, TransactionState.LEAVING)
    old = [progress_of(each, now=manager.now) for each in trained().state.replicas.values()]
    manager.now += 5
    for name in list(manager.pods):
        manager.ends(name)
    assert not manager.state.transactions
    restored = again(manager, progresses=old)
    job = restored.state.jobs[JOB]
    assert (job.admitted, job.preemptions) == (False, 1)
    # So many within an hour are allowed, also across managers.
    assert job.preempted_at == pytest.approx(manager.state.jobs[JOB].preempted_at)
    assert len(job.preempted_at) == 1
    phases = [restored.state.replicas[name].phase for name in job.spec.replicas]
    assert phases == [Phase.PENDING, Phase.PENDING, Phase.PENDING, Phase.ABSENT, Phase.ABSENT]


def test_the_order_of_submission_comes_back():
    """Not that of the names, nor that in which the objects were made."""
    manager = Changing()
    for job in ("zebra", "ant", "mouse"):
        manager.observe(elastic(job))
        manager.now += 1
    restored = again(manager, progresses=[])
    ordered = sorted(restored.state.jobs.values(), key=lambda job: job.order)
    assert [job.name for job in ordered] == ["default/zebra", "default/ant", "default/mouse"]
    assert [job.submitted_at for job in ordered] == [job.submitted_at for job in manager.state.jobs.values()]


def test_a_deadline_that_passed_while_nobody_watched_ends_nothing_at_once():
    """What is ordered again gets its time first."""
    manager = changing(Kind.SCALE_OUT, TransactionState.COMING)
    jobs = training_jobs_of(manager.state, now=manager.now)
    later = manager.now + 100_000
    restored = restored_from([], [], SETTINGS, now=later, jobs=jobs)
    assert restored.state.whole_transaction_of(JOB).deadline > later
    state, actions = step(seen(manager, restored), ev.ManagerStarted("again", SETTINGS), later)
    assert state.whole_transaction_of(JOB).attempt == 1
    assert [type(action).__name__ for action in actions] == ["PlaceJob"]


def test_numbers_of_changes_go_on_behind_the_largest():
    """Also where the change with that number is known by its name alone."""
    manager = trained()
    assert again(manager).state.transaction_count == 1
    item = training_job_of(manager.state.jobs[JOB], manager.state, now=manager.now)
    del item["status"]["record"]
    item["status"]["lastChange"] = {"id": "change-41", "kind": "admit", "state": "Succeeded"}
    assert restored_from([], [], SETTINGS, now=manager.now, jobs=[item]).state.transaction_count == 41


# -- what makes no sense -------------------------------------------------------------------------


def edited(**fields):
    """Return a change of the record of the first TrainingJob's change."""

    def edit(items):
        record = json.loads(items[0]["status"]["record"])
        record["change"]["fields"].update(fields)
        items[0]["status"]["record"] = json.dumps(record)

    return edit


NONSENSE = [
    edited(state="Succeeded"),
    edited(state="Flying"),
    edited(attempt=3),
    edited(witnesses={"worker/77": {}}),
    edited(what="admit"),
    edited(witnesses={"worker/0": {}}, state="Checkpointing"),
    edited(witnesses={"worker/0": {"checkpoint": {"step": 3, "path": "/c"}}}),
    edited(ended={"worker/77": "uid"}),
    edited(proposed_at="yesterday"),
    lambda items: items[0]["status"].update(record="{"),
    lambda items: items[0]["status"].update(record="[" * 5000),
    lambda items: items[0]["status"].pop("record"),
    lambda items: items[0]["status"].update(
        record=items[0]["status"]["record"].replace("worker/0", "worker/9-0", 1)
    ),
    lambda items: items[0]["status"].update(
        record=items[0]["status"]["record"].replace('"members":[', '"members":[["Running","x"],', 1)
    ),
]


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_change_that_contradicts_itself_is_closed_and_nothing_is_ordered(nonsense):
    """It had been told to leave: Failed, with the reason; its job rests for a while."""
    manager = changing(Kind.SCALE_IN, TransactionState.LEAVING)
    restored = again(manager, nonsense)
    assert not restored.state.transactions
    (problem,) = [each for each in restored.problems if each.kind == "TrainingJob"]
    assert "it is closed as " in problem.text
    assert list(restored.whole.closed) == [JOB]
    (closed,) = restored.state.history[-1:]
    assert (closed.id, closed.note.partition(":")[0]) == ("scale-in-2", "closed after a restart")
    assert closed.state in {TransactionState.FAILED, TransactionState.ROLLED_BACK}
    job = restored.state.jobs[JOB]
    assert job.cooldown_until > manager.now
    _, actions = step(restored.state, ev.ManagerStarted("again", SETTINGS), manager.now)
    assert actions == []


def test_a_change_that_asked_for_a_checkpoint_only_is_rolled_back():
    """Nothing had come about."""
    manager = changing(Kind.PREEMPT, TransactionState.CHECKPOINTING)
    restored = again(manager, edited(witnesses={"worker/77": {"incarnation": "x"}}))
    assert restored.state.history[-1].state is TransactionState.ROLLED_BACK
    assert restored.state.jobs[JOB].admitted


def test_a_preemption_that_is_given_up_lets_the_job_wait_unless_it_runs():
    """Nobody can tell how far it came: what is not there is admitted anew, what runs goes on."""
    manager = changing(Kind.PREEMPT, TransactionState.LEAVING)
    state = again(manager, edited(attempt=3)).state
    assert not state.jobs[JOB].admitted
    manager.state = state
    for name, uid in manager.pods.items():
        manager.post(ev.ReplicaStarted(replica=name, incarnation=uid, node="node-0"))
    assert manager.state.jobs[JOB].admitted


def test_of_two_records_of_one_change_the_later_is_kept():
    """A copy of an object under another name is no other change."""
    manager = changing(Kind.SCALE_IN, TransactionState.LEAVING)
    manager.observe(elastic("other"))

    def copied(items):
        older, newer = sorted(items, key=lambda item: item["spec"]["job"])
        record = older["status"]["record"].replace(JOB, "default/other")
        newer["status"] = {**older["status"], "record": record, "updatedAt": "2100-01-01T00:00:00Z"}

    restored = again(manager, copied)
    assert [each.job for each in restored.state.transactions.values()] == ["default/other"]
    assert "scale-in-2" not in {over.id for over in restored.state.history}
    assert list(restored.whole.closed) == [JOB]
    assert "another TrainingJob records scale-in-2" in str(restored.problems[0])


def test_a_move_of_one_of_its_replicas_wins_over_a_change():
    """Both at once were never ordered."""
    manager = changing(Kind.SCALE_IN, TransactionState.LEAVING)
    replica = f"{JOB}/worker/0"
    other = trained(coupled=False)
    other.post(ev.MoveRequested(id="default/by-hand", replica=replica, target="node-3", reason="test"))
    known = other.state.transaction_of(replica)
    assert known is not None
    item = migration_of(known, manager.state.replicas[replica], now=manager.now)
    jobs = training_jobs_of(manager.state, now=manager.now)
    restored = restored_from([], [item], SETTINGS, now=manager.now, jobs=jobs)
    assert list(restored.state.transactions) == ["default/by-hand"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "phase",
    "position",
    "waitingFor",
    "since",
    "workers",
    "nodes",
    "notMoved",
    "notScaledOut",
    "preemptions",
    "change",
    "pins",
    "record",
    "lastChange",
    "manager",
    "updatedAt",
)


@settings(max_examples=150, deadline=None)
@given(field=st.sampled_from(FIELDS), value=JSON, inside=st.booleans())
def test_nonsense_in_any_field_is_named_and_stops_nobody(field, value, inside):
    """The rest is read, a state comes of it, and the next manager can begin with it."""
    manager = changing(Kind.SCALE_IN, TransactionState.LEAVING)
    items = training_jobs_of(manager.state, now=manager.now)
    status = items[0]["status"]
    if inside and isinstance(status.get(field), dict):
        status[field][next(iter(status[field]))] = value
    else:
        status[field] = value
    read, problems = read_training_job(items[0])
    assert read is not None
    assert all(problem.field.startswith("status.") for problem in problems)
    restored = restored_from([], [], SETTINGS, now=manager.now, jobs=items)
    state, _ = step(restored.state, ev.ManagerStarted("again", SETTINGS), manager.now)
    state, _ = step(state, ev.JobObserved(elastic()), manager.now)
    step(state, ev.Tick(), manager.now + 1)


@settings(max_examples=150, deadline=None)
@given(path=st.lists(st.integers(0, 20), min_size=1, max_size=4), value=JSON)
def test_nonsense_anywhere_in_the_record_stops_nobody(path, value):
    """It is read as a whole or not at all."""
    manager = changing(Kind.SCALE_IN, TransactionState.LEAVING)
    items = training_jobs_of(manager.state, now=manager.now)
    record = json.loads(items[0]["status"]["record"])
    inner = record
    for index in path[:-1]:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        child = inner[keys[index % len(keys)]] if keys else None
        if not isinstance(child, dict | list) or not child:
            break
        inner = child
    keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
    inner[keys[path[-1] % len(keys)]] = value
    items[0]["status"]["record"] = json.dumps(record)
    restored = restored_from([], [], SETTINGS, now=manager.now, jobs=items)
    state, _ = step(restored.state, ev.JobObserved(elastic()), manager.now)
    state, _ = step(state, ev.ManagerStarted("again", SETTINGS), manager.now)
    step(state, ev.Tick(), manager.now + 1)


@pytest.mark.parametrize("job", [None, 7, "bert", "default/bert/worker", "Default/bert", "elsewhere/bert"])
def test_an_object_that_is_no_jobs_is_passed_over(job):
    """It is named; nothing is made of it."""
    manager = trained()
    (item,) = training_jobs_of(manager.state, now=manager.now)
    item["spec"]["job"] = job
    read, (problem,) = read_training_job(item)
    assert read is None
    assert problem.field == "spec.job"


def test_a_thousand_workers_fit_and_too_many_are_refused():
    """The record is bounded; the change that ended last is left out first."""
    manager = Changing()
    manager.observe(elastic(workers=900, most=900))
    manager.run_all()
    manager.propose(Kind.PREEMPT)
    job, change = manager.state.jobs[JOB], manager.flying()
    replicas = {
        name: msgspec.structs.replace(each, incarnation=None if each.incarnation is None else "u" * 36)
        for name, each in manager.state.replicas.items()
    }
    last = manager.state.history[-1:]
    assert len(text_of(job, replicas, change, last)) <= RECORD_CHARACTERS
    leaving = msgspec.structs.replace(
        change,
        state=TransactionState.LEAVING,
        ending={name: replicas[name].incarnation or "" for name in change.before},
    )
    assert len(text_of(job, replicas, leaving, last)) <= RECORD_CHARACTERS
    long = {
        name: msgspec.structs.replace(each, incarnation=None if each.incarnation is None else "u" * 128)
        for name, each in replicas.items()
    }
    with pytest.raises(ValueError, match=r"its record has \d+ characters, more than 65536"):
        text_of(job, long, change, last)


def test_what_is_written_says_where_the_job_stands():
    """Phase, workers, nodes, pins while replicas are to come, and the change in words."""
    manager = changing(Kind.SCALE_OUT, TransactionState.COMING)
    (item,) = training_jobs_of(manager.state, now=manager.now)
    status = item["status"]
    assert item["spec"] == {"job": JOB, "queue": "research", "minWorkers": 1, "maxWorkers": 4}
    assert (status["phase"], status["workers"], status["nodes"]) == ("Changing", 2, "node-0, node-1, node-2")
    assert {pin["replica"]: pin["hostname"] for pin in status["pins"]} == dict(manager.flying().wanted)
    assert status["change"] == {
        "id": "scale-out-2",
        "kind": "scale-out",
        "state": "Coming",
        "reason": "it grows",
        "attempt": 1,
    }
    assert (status["lastChange"]["id"], status["lastChange"]["state"]) == ("admit-1", "Succeeded")


def test_the_last_of_what_ended_is_kept_with_its_true_costs():
    """Twenty of them, if there is room: when, why, how long nothing trained, what was trained again."""
    manager = trained()
    (first,) = manager.state.history
    witness = Witness(downtime=3.25, steps_lost=7)
    ended = tuple(
        msgspec.structs.replace(
            first,
            id=f"scale-in-{number}",
            kind=Kind.SCALE_IN,
            before=first.after,
            reason=f"reason {number}",
            witnesses={f"{JOB}/worker/0": witness},
            ended_at=manager.now + number,
        )
        for number in range(2, 30)
    )
    job = manager.state.jobs[JOB]
    record = text_of(job, {}, None, ended)
    assert len(read_text(record).history) == REMEMBERED - 1
    item = training_job_of(job, manager.state, now=manager.now, history=ended)
    for schema in (CRDS, FIRST_CRDS):
        read, problems = read_training_job(served(schema, item))
        assert not problems
        assert read.history == ended[-REMEMBERED:]
        assert (read.history[-1].downtime, read.history[-1].steps_lost) == (3.25, 7)
    told = served(CRDS, item)["status"]["lastChange"]
    assert (told["downtimeSeconds"], told["stepsLost"], told["reason"]) == (3.25, 7, "reason 29")


def test_independent_workers_each_come_back_with_their_checkpoint():
    """Whose checkpoints permit it, and who has answered."""
    manager = trained(coupled=False)
    change = manager.propose(Kind.PREEMPT)
    assert len(change.witnesses) == 2
    one = msgspec.structs.replace(change, witnesses=dict(list(change.witnesses.items())[:1]))
    manager.acknowledges(one)
    restored = again(manager, schema=FIRST_CRDS)
    assert restored.state.transactions == manager.state.transactions
    assert [each.answered for each in manager.flying().witnesses.values()] == [True, False]
    assert restored.state.jobs[JOB].spec.coupled is False


@pytest.mark.parametrize("schema", [CRDS, FIRST_CRDS], ids=["present", "first"])
def test_a_gang_that_is_put_back_is_told_as_a_preemption(schema):
    """The schemas know no other word; the record has the right one."""
    manager = trained()
    for name in list(manager.pods)[1:2]:
        manager.ends(name)
    manager.ticks(SETTINGS.deadlines.ready + 1)
    flying = manager.flying()
    assert flying.kind is Kind.PUT_BACK
    (item,) = training_jobs_of(manager.state, now=manager.now)
    assert item["status"]["change"]["kind"] == "preempt"
    restored = again(manager, schema=schema)
    assert restored.state.transactions == manager.state.transactions
