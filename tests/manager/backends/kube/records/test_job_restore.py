"""Jobs and changes that a new manager makes of the TrainingJobs."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.records.job_record import read_training_job
from specon_manager.backends.kube.records.job_text import RECORD_CHARACTERS, text_of
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.changes import ChangeKind, ChangeState
from specon_manager.model.cluster import Phase
from support.changing import Changing, bare, elastic
from support.cluster import SETTINGS
from support.custom_resources import (
    migration_of,
    progress_of,
    restored_from,
    training_job_of,
    training_jobs_of,
)

JOB = "default/bert"
KINDS = (ChangeKind.SCALE_OUT, ChangeKind.SCALE_IN, ChangeKind.PREEMPT)


def trained(**changed):
    """Return a manager whose job trains."""
    manager = Changing()
    manager.observe(elastic(**changed))
    manager.run_all()
    return manager


def changing(kind, until, *, resizing="live"):
    """Return a manager with a change of that kind in that state, and half of what it asks for done."""
    if kind is ChangeKind.ADMIT:
        manager = Changing()
        manager.observe(elastic(resizing=resizing))
        change = manager.propose(kind)
        manager.starts(min(change.after))
        return manager
    manager = trained(resizing=resizing)
    change = manager.propose(kind)
    while manager.state.changes[JOB].state is not until:
        before = manager.state.changes[JOB]
        if before.state is ChangeState.CHECKPOINTING:
            manager.acknowledges(change)
        else:
            for name in [n for n in manager.pods if manager.state.replicas[n].leaving is not None]:
                manager.ends(name)
            if before.state is ChangeState.COMING:
                for name in [n for n in before.wanted if n not in manager.pods]:
                    manager.starts(name)
        assert manager.state.changes[JOB] != before, f"nothing makes it {until}"
    return manager


def again(manager, change=lambda items: None, progresses=None):
    """Return what the next manager knows, of objects that are all up to date."""
    jobs = training_jobs_of(manager.state, now=manager.now)
    change(jobs)
    if progresses is None:
        progresses = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
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
    return msgspec.structs.replace(job, spec=None, order=0)


CASES = [
    (ChangeKind.ADMIT, ChangeState.COMING, "live"),
    *((kind, ChangeState.CHECKPOINTING, "live") for kind in KINDS),
    *((kind, ChangeState.LEAVING, "live") for kind in KINDS[1:]),
    *((kind, state, "live") for kind in KINDS[:1] for state in (ChangeState.COMING, ChangeState.VERIFYING)),
    *(
        (kind, state, "restart")
        for kind in KINDS[:2]
        for state in (ChangeState.LEAVING, ChangeState.COMING, ChangeState.VERIFYING)
    ),
]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("kind", "state", "resizing"), CASES)
def test_an_open_change_comes_back_as_it_was(kind, state, resizing, lost):
    """Its record, its replicas, its job, and what it orders again; also without any TrainingProgress."""
    manager = changing(kind, state, resizing=resizing)
    restored = again(manager, progresses=[] if lost else None)
    assert not restored.problems
    assert restored.state.changes == manager.state.changes
    assert {name: core_of(each) for name, each in restored.state.replicas.items()} == {
        name: core_of(each) for name, each in manager.state.replicas.items()
    }
    assert book_of(restored.state.jobs[JOB]) == book_of(manager.state.jobs[JOB])
    assert restored.state.change_count == manager.state.change_count
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
    assert {name: each.id for name, each in state.changes.items()} == {
        name: each.id for name, each in manager.state.changes.items()
    }
    for name, change in manager.state.changes.items():
        assert msgspec.structs.replace(state.changes[name], deadline=change.deadline) == change
    for name, job in manager.state.jobs.items():
        assert book_of(state.jobs[name]) == book_of(job)
    assert [job.name for job in sorted(state.jobs.values(), key=lambda job: job.order)] == jobs
    assert {name: core_of(each) for name, each in state.replicas.items()} == {
        name: core_of(each) for name, each in manager.state.replicas.items()
    }
    latest = {change.job: change for change in manager.state.change_history}
    assert {change.job: change for change in state.change_history} == latest
    assert state.change_count == manager.state.change_count


def happen(manager, act, index, job):
    """Let one thing happen to a job, where it can."""
    state, change = manager.state, manager.state.changes.get(job)
    names = state.jobs[job].spec.replicas
    name = names[index % len(names)]
    replica = state.replicas[name]
    workers = [n for n in state.jobs[job].spec.worker_names if state.replicas[n].phase is Phase.RUNNING]
    if act in {kind.value for kind in ChangeKind}:
        trains = state.jobs[job].trains_since is not None and change is None
        waits = not state.jobs[job].admitted and change is None and not any(n in manager.pods for n in names)
        able = {"admit": waits, "scale-out": trains and len(workers) < 4, "scale-in": len(workers) > 1}
        if able.get(act, trains) and (act == "admit" or trains):
            manager.propose(ChangeKind(act), job)
    elif act == "start" and replica.phase in {Phase.STARTING, Phase.AWAITED} and name not in manager.pods:
        manager.starts(name)
    elif act == "end" and name in manager.pods:
        manager.ends(name)
    elif act == "answer" and change is not None and change.incarnation is not None:
        manager.acknowledges(change, done=bool(index))
    elif act == "report" and name in manager.pods:
        manager.reports(name, 100 + index)
    elif act == "tick":
        manager.ticks()
    elif act == "wait":
        manager.ticks(1000.0)


def test_a_job_that_waits_is_not_taken_for_admitted_by_an_old_training_progress():
    """That says it trains; but it was preempted since, and written down before."""
    manager = changing(ChangeKind.PREEMPT, ChangeState.LEAVING)
    old = [progress_of(each, now=manager.now) for each in trained().state.replicas.values()]
    manager.now += 5
    for name in list(manager.pods):
        manager.ends(name)
    assert not manager.state.changes
    restored = again(manager, progresses=old)
    job = restored.state.jobs[JOB]
    assert (job.admitted, job.preemptions) == (False, 1)
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
    manager = changing(ChangeKind.SCALE_OUT, ChangeState.COMING)
    jobs = training_jobs_of(manager.state, now=manager.now)
    later = manager.now + 100_000
    restored = restored_from([], [], SETTINGS, now=later, jobs=jobs)
    assert restored.state.changes[JOB].deadline > later
    state, actions = step(seen(manager, restored), ev.ManagerStarted("again", SETTINGS), later)
    assert state.changes[JOB].attempt == 1
    assert [type(action).__name__ for action in actions] == ["PlaceJob"]


def test_numbers_of_changes_go_on_behind_the_largest():
    """Also where the change with that number is known by its name alone."""
    manager = trained()
    assert again(manager).state.change_count == 1
    item = training_job_of(manager.state.jobs[JOB], manager.state, now=manager.now)
    del item["status"]["record"]
    item["status"]["lastChange"] = {"id": "change-41", "kind": "admit", "state": "Succeeded"}
    assert restored_from([], [], SETTINGS, now=manager.now, jobs=[item]).state.change_count == 41


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
    edited(lead="default/other/worker/0"),
    edited(kind="admit"),
    edited(incarnation=None, state="Checkpointing"),
    edited(checkpoint={"step": 3, "path": "/c"}),
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
    manager = changing(ChangeKind.SCALE_IN, ChangeState.LEAVING)
    restored = again(manager, nonsense)
    assert not restored.state.changes
    (problem,) = [each for each in restored.problems if each.kind == "TrainingJob"]
    assert "it is closed as " in problem.text
    assert list(restored.jobs.closed) == [JOB]
    (closed,) = restored.state.change_history[-1:]
    assert (closed.id, closed.note.partition(":")[0]) == ("change-2", "closed after a restart")
    assert closed.state in {ChangeState.FAILED, ChangeState.ROLLED_BACK}
    job = restored.state.jobs[JOB]
    assert job.cooldown_until > manager.now
    _, actions = step(restored.state, ev.ManagerStarted("again", SETTINGS), manager.now)
    assert actions == []


def test_a_change_that_asked_for_a_checkpoint_only_is_rolled_back():
    """Nothing had come about."""
    manager = changing(ChangeKind.PREEMPT, ChangeState.CHECKPOINTING)
    restored = again(manager, edited(lead="default/bert/worker/77"))
    assert restored.state.change_history[-1].state is ChangeState.ROLLED_BACK
    assert restored.state.jobs[JOB].admitted


def test_a_preemption_that_is_given_up_lets_the_job_wait_unless_it_runs():
    """Nobody can tell how far it came: what is not there is admitted anew, what runs goes on."""
    manager = changing(ChangeKind.PREEMPT, ChangeState.LEAVING)
    state = again(manager, edited(attempt=3)).state
    assert not state.jobs[JOB].admitted
    manager.state = state
    for name, uid in manager.pods.items():
        manager.post(ev.ReplicaStarted(replica=name, incarnation=uid, node="node-0"))
    assert manager.state.jobs[JOB].admitted


def test_of_two_records_of_one_change_the_later_is_kept():
    """A copy of an object under another name is no other change."""
    manager = changing(ChangeKind.SCALE_IN, ChangeState.LEAVING)
    manager.observe(elastic("other"))

    def copied(items):
        older, newer = sorted(items, key=lambda item: item["spec"]["job"])
        record = older["status"]["record"].replace(JOB, "default/other")
        newer["status"] = {**older["status"], "record": record, "updatedAt": "2100-01-01T00:00:00Z"}

    restored = again(manager, copied)
    assert list(restored.state.changes) == ["default/other"]
    assert "change-2" not in {change.id for change in restored.state.change_history}
    assert list(restored.jobs.closed) == [JOB]
    assert "another TrainingJob records change-2" in str(restored.problems[0])


def test_a_move_of_one_of_its_replicas_wins_over_a_change():
    """Both at once were never ordered."""
    manager = changing(ChangeKind.SCALE_IN, ChangeState.LEAVING)
    replica = f"{JOB}/worker/0"
    other = trained()
    other.post(ev.MoveRequested(id="default/by-hand", replica=replica, target="node-3", reason="test"))
    known = other.state.moves.get(replica)
    assert known is not None
    item = migration_of(known, manager.state.replicas[replica], now=manager.now)
    jobs = training_jobs_of(manager.state, now=manager.now)
    restored = restored_from([], [item], SETTINGS, now=manager.now, jobs=jobs)
    assert (list(restored.state.changes), list(restored.state.moves)) == ([], [replica])


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
    manager = changing(ChangeKind.SCALE_IN, ChangeState.LEAVING)
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
    manager = changing(ChangeKind.SCALE_IN, ChangeState.LEAVING)
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
    manager.propose(ChangeKind.PREEMPT)
    job, change = manager.state.jobs[JOB], manager.state.changes[JOB]
    replicas = {
        name: msgspec.structs.replace(each, incarnation=None if each.incarnation is None else "u" * 36)
        for name, each in manager.state.replicas.items()
    }
    last = manager.state.change_history[-1]
    assert len(text_of(job, replicas, change, last)) <= RECORD_CHARACTERS
    long = {
        name: msgspec.structs.replace(each, incarnation=None if each.incarnation is None else "u" * 128)
        for name, each in replicas.items()
    }
    with pytest.raises(ValueError, match=r"its record has \d+ characters, more than 65536"):
        text_of(job, long, change, last)


def test_what_is_written_says_where_the_job_stands():
    """Phase, workers, nodes, pins while replicas are to come, and the change in words."""
    manager = changing(ChangeKind.SCALE_OUT, ChangeState.COMING)
    (item,) = training_jobs_of(manager.state, now=manager.now)
    status = item["status"]
    assert item["spec"] == {"job": JOB, "queue": "research", "minWorkers": 1, "maxWorkers": 4}
    assert (status["phase"], status["workers"], status["nodes"]) == ("Changing", 2, "node-0, node-1, node-2")
    assert {pin["replica"]: pin["hostname"] for pin in status["pins"]} == dict(
        manager.state.changes[JOB].wanted
    )
    assert status["change"] == {
        "id": "change-2",
        "kind": "scale-out",
        "state": "Coming",
        "reason": "it grows",
        "attempt": 1,
    }
    assert (status["lastChange"]["id"], status["lastChange"]["state"]) == ("change-1", "Succeeded")
