"""What was written down of a job, and the owner that has its name when the next manager comes."""

import msgspec

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.resources import Resources
from support.decisions.cluster import SETTINGS
from support.kube.changing import Changing, elastic
from support.kube.custom_resources import restored_from, training_job_of

JOB = "default/bert"
OPTIONS = Options(inject=True, queue="research")


def owner(uid):
    return OwnerInfo(
        kind="Job",
        namespace="default",
        name="bert",
        uid=uid,
        job="bert",
        options=OPTIONS,
        suspended=True,
        workers=2,
        asked=2,
        indexed=True,
        worker_requests=Resources(cpu=3.0),
    )


def begun(uid, *, record=True):
    """Return what is told when the next manager finds an owner with that UID, and the state after it."""
    manager = Changing()
    manager.observe(elastic(ps=0, requests=Resources(cpu=3.5), priority=1000))
    manager.run_all()
    item = training_job_of(
        manager.state.jobs[JOB], manager.state, now=manager.now, owner=("Job", "uid-of-the-first")
    )
    if not record:
        del item["status"]["record"]
    state = restored_from([], [], SETTINGS, now=manager.now, jobs=[item]).state
    ledger = Ledger(remark=lambda *_: None)
    ledger.owner_changed(None, owner(uid))
    ledger.remember(state)
    events = ledger.take_events()
    for event in events:
        state, _ = step(state, event, manager.now)
    return events, state


def test_the_same_owner_has_the_same_job():
    """It stays admitted, and what its pods had told of it is known, though none is there."""
    events, state = begun("uid-of-the-first")
    assert not [event for event in events if isinstance(event, ev.JobGone)]
    job = state.jobs[JOB]
    assert job.admitted
    assert (job.spec.requests.cpu, job.spec.priority) == (3.5, 1000)


def test_another_owner_of_that_name_has_another_job():
    """It was made while nobody watched: it waits to be admitted like any other."""
    events, state = begun("uid-of-the-second")
    assert isinstance(events[0], ev.JobGone)
    job = state.jobs[JOB]
    assert (job.admitted, job.spec.requests.cpu) == (False, 3.0)


def test_without_a_record_the_owner_alone_says_what_its_pods_will_ask_for():
    """Nothing at all would be admitted anywhere."""
    _, state = begun("uid-of-the-first", record=False)
    assert state.jobs[JOB].spec == msgspec.structs.replace(state.jobs[JOB].spec, requests=Resources(cpu=3.0))
