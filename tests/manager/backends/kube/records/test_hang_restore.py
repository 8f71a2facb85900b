"""A hang, and the restart of what hangs, come back as they were from the objects that tell of them."""

import json

import msgspec
import pytest

from specon_manager.backends.kube.reporting.news import words_of
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Hang, Report
from support.decisions.cluster import DIGEST, SETTINGS
from support.kube.changing import Changing, bare
from support.kube.custom_resources import (
    CRDS,
    FIRST_CRDS,
    progress_of,
    restored_from,
    served,
    training_jobs_of,
)
from support.kube.gangs import JOB, goes_on, trains

HANG = Hang(age=2.0, silent=60.0, usual=1.5, processes="3 processes (3 S)", lines=("password: hunter2",))
STATES = (TransactionState.LEAVING, TransactionState.COMING, TransactionState.VERIFYING)


def hangs(manager):
    """Let every replica of the job hang since a minute, with a verified checkpoint."""
    manager.now += 60
    for name in manager.state.jobs[JOB].spec.replicas:
        manager.sequences[name] = manager.sequences.get(name, 0) + 1
        manager.post(
            ev.ReportReceived(
                Report(
                    schema=1,
                    replica=name,
                    incarnation=manager.pods[name],
                    session=f"session-{manager.pods[name]}",
                    sequence=manager.sequences[name],
                    category=Category.PROGRESSING,
                    hang=HANG,
                    checkpoint=Checkpoint(step=90, path="/c", digest=DIGEST),
                )
            )
        )
    return manager


def restarting(until, workers):
    """Return a manager with a job that is restarted, in that state."""
    manager = hangs(trains(Changing(), workers=workers, on_hang="restart"))
    manager.ticks()
    for _ in range(10):
        if manager.flying().state is until:
            return manager
        goes_on(manager)
    raise AssertionError(f"never {until}: {manager.flying()}")


@pytest.mark.parametrize("schema", [CRDS, FIRST_CRDS], ids=["present", "first"])
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("state", STATES)
def test_a_restart_comes_back_as_it_was(state, workers, schema):
    """From its TrainingJob, also of one pod, and is ordered again."""
    manager = restarting(state, workers)
    assert manager.flying().kind is Kind.RESTART
    jobs = training_jobs_of(manager.state, now=manager.now, first_schema=schema is FIRST_CRDS)
    progresses = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
    restored = restored_from(
        progresses, [], SETTINGS, now=manager.now, jobs=[served(schema, each) for each in jobs]
    )
    assert not restored.problems
    assert restored.state.transactions == manager.state.transactions
    assert restored.state.jobs[JOB].hang_restarts == 1
    begun = msgspec.structs.replace(restored.state, nodes=manager.state.nodes)
    begun, _ = step(begun, ev.JobObserved(manager.state.jobs[JOB].spec), manager.now)
    _, expected = step(manager.state, ev.ManagerStarted("again", SETTINGS), manager.now)
    _, ordered = step(begun, ev.ManagerStarted("again", SETTINGS), manager.now)
    assert [bare(order) for order in ordered] == [bare(order) for order in expected]


def test_it_goes_through_and_is_told_in_events():
    """To its owner: that it hangs, that it is restarted, and from where it goes on."""
    manager = trains(Changing(), on_hang="restart")
    before = manager.state
    hangs(manager)
    manager.ticks()
    for _ in range(3):
        goes_on(manager)
    (over,) = [each for each in manager.state.history if each.kind is Kind.RESTART]
    assert over.state is TransactionState.SUCCEEDED
    notes = {note.reason: note.text for note in words_of(before, manager.state)}
    assert "resumed" in notes["RestartedHung"]


def test_a_hang_is_in_the_object_of_its_replica_without_the_lines_of_its_log():
    """Who reads objects may not be allowed to read logs."""
    manager = trains(Changing())
    before = manager.state
    hangs(manager)
    notes = [note for note in words_of(before, manager.state) if note.reason == "Hung"]
    assert [note.warning for note in notes] == [True] * 4
    assert "no step for" in notes[0].text
    objects = [progress_of(each, now=manager.now) for each in manager.state.replicas.values()]
    assert "hunter2" not in json.dumps([objects, [note.text for note in notes]])
    assert objects[0]["status"]["processes"] == "3 processes (3 S)"
    restored = restored_from([served(CRDS, each) for each in objects], [], SETTINGS, now=manager.now)
    found = next(iter(restored.state.replicas.values())).progress
    assert found.hang is not None
    assert (found.hang.usual, found.hang.lines) == (1.5, ())
    assert found.hung_since == pytest.approx(manager.now - 2.0, abs=1.0)


def test_what_its_owner_cannot_end_is_not_restarted():
    """For instance a bare pod that nobody would create anew."""
    manager = hangs(trains(Changing(), on_hang="restart", immovable="nobody would create it anew"))
    manager.ticks()
    assert not manager.state.transactions
