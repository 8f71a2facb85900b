"""Faults, each with its evidence, the likeliest first."""

import msgspec
import pytest

from specon_manager.core.state import Pause
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from specon_manager.views.findings import findings
from specon_manager.views.transactions import rows_of
from specon_manager.views.view import View
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Hang

JOB = "default/mnist"
NOW = 2000.0


def view_of(scene, **fields):
    values = {"state": scene.state, "now": NOW, "transactions": rows_of(scene.state), **fields}
    return View(**values)


def kinds(view, job=JOB, versions=None):
    return [each.kind for each in findings(view, job=job, versions=versions or {}, here="0.2.0")]


def found(view, kind, job=JOB):
    return next(each for each in findings(view, job=job, versions={}, here="0.2.0") if each.kind == kind)


@pytest.fixture
def healthy(scene):
    """Have a job train, report and save."""
    name = scene.job()
    scene.running(
        name,
        step=7,
        value=0.5,
        reported_at=NOW - 5,
        category_since=NOW - 100,
        checkpoint=Checkpoint(step=5, path="/x", digest="0" * 64),
    )
    return scene


def progress(scene, **fields):
    [name] = scene.state.replicas
    told = msgspec.structs.replace(scene.state.replicas[name].progress, **fields)
    scene.replica(name, progress=told)
    return view_of(scene)


def test_a_converged_job_without_a_checkpoint_is_named_at_once(healthy):
    """It could be moved now, and cannot: nobody should wait ten minutes to hear that."""
    healthy.state = msgspec.structs.replace(
        healthy.state,
        jobs={n: msgspec.structs.replace(j, submitted_at=NOW - 30) for n, j in healthy.state.jobs.items()},
    )
    assert "no-checkpoint" not in kinds(progress(healthy, checkpoint=None))
    assert "no-checkpoint" in kinds(progress(healthy, category=Category.CONVERGED))


def test_a_move_that_waits_for_the_first_checkpoint_names_the_folder_after_half_a_minute(healthy):
    """A script that saves elsewhere was moved back after two minutes, and until then nothing was wrong."""
    healthy.state = msgspec.structs.replace(
        healthy.state,
        jobs={n: msgspec.structs.replace(j, submitted_at=NOW - 30) for n, j in healthy.state.jobs.items()},
    )
    [name] = healthy.state.replicas
    healthy.move(name, TransactionState.CHECKPOINTING, at=NOW - healthy.began - 40)
    assert "no-checkpoint" not in kinds(view_of(healthy))
    healthy.move(name, TransactionState.CHECKPOINTING, at=NOW - healthy.began - 20)
    assert "no-checkpoint" not in kinds(progress(healthy, checkpoint=None))
    healthy.move(name, TransactionState.CHECKPOINTING, at=NOW - healthy.began - 40)
    one = found(progress(healthy, checkpoint=None), "no-checkpoint")
    assert one.wrong
    assert "checkpoint_path" in one.advice


def test_a_job_that_trains_reports_and_saves_has_nothing_wrong(healthy):
    """No finding about it, and the manager's list says why nothing moves."""
    assert kinds(view_of(healthy)) == []
    [only] = findings(view_of(healthy), job=None, versions={"manager": "0.2.0"}, here="0.2.0")
    assert (only.kind, only.wrong) == ("nothing-moves", False)
    assert "no job has converged yet" in only.what


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"reported_at": None, "metric": None, "step": None}, "no-sidecar", "no sidecar has reported"),
        ({"reported_at": NOW - 400}, "silent", "said nothing for 6m40s"),
        ({"metric": None, "step": None, "reason": "no log at /a"}, "log-not-read", "its log is not read"),
        ({"metric": None, "step": None, "reason": "the log /a is empty"}, "log-not-read", "not read"),
        (
            {"metric": None, "step": None, "reason": "no line of /a is understood: 'x'"},
            "format-unknown",
            "nothing in its log is understood",
        ),
        (
            {"metric": None, "step": None, "reason": "the trainer's helper never reported: no framework"},
            "helper-silent",
            "never reported through the helper",
        ),
        ({"reason": "ok; the trainer's helper never reported: ssh"}, "helper-silent", "never reported"),
        ({"category": Category.NOT_CLASSIFIABLE, "reason": "two"}, "format-unknown", "cannot be judged"),
        ({"category": Category.UNKNOWN, "category_since": NOW - 400}, "stays-unknown", "unknown for 6m40s"),
        (
            {"category": Category.WATCHING, "category_since": NOW - 4000},
            "stays-watching",
            "watching for 1h06m",
        ),
        ({"checkpoint": None}, "no-checkpoint", "no checkpoint of it has been seen"),
        ({"step": None}, "no-steps", "a resume could not be proven"),
        (
            {"hang": Hang(age=5, silent=90, usual=1, lines=("[b]x",)), "hung_since": 1},
            "hangs",
            "steps have stopped",
        ),
    ],
)
def test_each_trouble_of_a_job_is_named_with_its_evidence(healthy, fields, kind, words):
    """One finding for each, what its sidecar says is the evidence, and there is something to do."""
    view = progress(healthy, **fields)
    one = found(view, kind)
    assert kinds(view) == [kind]
    assert words in one.what
    assert one.about == "mnist"
    assert one.evidence
    assert one.advice
    assert one.wrong is (kind != "stays-watching")
    if fields.get("reason"):
        assert fields["reason"] in one.evidence


def test_what_ended_badly_and_what_is_stuck_is_named(healthy):
    """The last move counts; one that succeeded later makes it good."""
    [name] = healthy.state.replicas
    healthy.move(name, TransactionState.FAILED, at=1, note="no room", ended_at=healthy.began + 2)
    assert found(view_of(healthy), "move-failed").evidence == ("no room",)
    healthy.move(name, TransactionState.SUCCEEDED, id="move-2", at=5, ended_at=healthy.began + 9)
    assert "move-failed" not in kinds(view_of(healthy))
    healthy.move(name, TransactionState.LEAVING, id="move-3", at=20, stuck="it does not end")
    assert found(view_of(healthy), "stuck").evidence == ("it does not end",)


def test_a_crash_has_the_last_lines_of_its_log_as_evidence(healthy):
    """Unless it trains again: that is good to know, and its log ends with what it trains now."""
    [name] = healthy.state.replicas
    healthy.replica(name, crashes=1, note="exit code 1")
    logs = {name: ("/x/train.log", "out of memory\x1b[0m")}
    [again] = findings(view_of(healthy), job=JOB, versions={}, here="0.2.0", logs=logs)
    assert again.what == "it crashed once, and runs again"
    assert again.evidence == ("exit code 1", "/x/train.log")
    assert (again.kind, again.wrong) == ("crashed", False)
    healthy.end(name, at=5, phase=Phase.FAILED)
    one = next(
        each
        for each in findings(view_of(healthy), job=JOB, versions={}, here="0.2.0", logs=logs)
        if each.kind == "crashed"
    )
    assert one.evidence[-2:] == ("/x/train.log", "out of memory [0m")
    assert one.wrong


def test_the_owner_and_the_trainer_may_rule_a_move_out(healthy):
    """What policies ask is asked here; it explains, and is no fault."""
    job = healthy.state.jobs[JOB]
    spec = msgspec.structs.replace(job.spec, checkpointing="none")
    healthy._set(jobs={JOB: msgspec.structs.replace(job, spec=spec)})
    one = found(view_of(healthy), "not-moved")
    assert one.evidence == ("no-checkpoint: its trainer writes no checkpoints",)
    assert not one.wrong


def test_what_is_wrong_with_the_manager_comes_first(healthy):
    """No leader, a pause, other versions; then the jobs."""
    healthy._set(pause=Pause(since=NOW - 60, reason="storage"))
    view = progress(healthy, checkpoint=None)
    view = msgspec.structs.replace(view, answers=False, caveats=("nobody leads",))
    assert kinds(view, versions={"pod x": "0.1.0"}) == ["no-manager", "paused", "versions", "no-checkpoint"]
    pause = found(view, "paused")
    assert (pause.what, pause.evidence) == (
        "the manager is paused: nothing new is ordered, for 1m00s",
        ("reason: storage",),
    )


def test_of_a_gang_only_the_first_worker_has_to_log(scene):
    """The others print nothing, and that is no trouble."""
    first = scene.job(replicas=2)
    fields = {"reported_at": NOW - 1, "checkpoint": Checkpoint(step=1, path="/x"), "value": 1.0, "step": 3}
    scene.running(first, **fields)
    scene.running(f"{JOB}/worker/1", node="node-1", **{**fields, "metric": None, "step": None, "value": None})
    assert "format-unknown" not in kinds(view_of(scene))
