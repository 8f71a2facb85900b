"""A job file that is edited after its run: nothing is passed over in silence, and `--fresh` runs it anew."""

import signal

import pytest

from specon_manager.runtime.journal import NAME, recover
from support.local.stage import MOVER, Stage

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

SECONDS = 60.0
LOCAL = ("local", "jobs.yaml", "--nodes", "1", "--plain")


def write(stage: Stage, words: str) -> None:
    stage.write_jobs({"name": "says", "command": ["{python}", "-c", f"print({words!r})"]})


def said(stage: Stage) -> str:
    stage.state = stage.folder / "jobs.specon"
    return stage.log("says")


def test_an_edited_job_is_named_and_run_anew_when_asked(stage: Stage):
    """The second run says what is not run again, the third runs it, and the first is still there."""
    write(stage, "first")
    assert stage.run_specon(*LOCAL).code == 0
    write(stage, "second")
    again = stage.specon(*LOCAL)
    assert again.wait(SECONDS) == 0
    assert "specon: job says: command changed since it was submitted: it has ended, and is not run again" in (
        again.errors
    )
    assert "to run them again: the same command with --fresh" in again.errors
    assert said(stage) == "first\n"
    fresh = stage.specon(*LOCAL, "--fresh")
    assert fresh.wait(SECONDS) == 0, fresh.errors
    assert "specon: the earlier run is put aside in jobs.specon.before-1" in fresh.errors
    assert said(stage) == "second\n"
    assert recover(stage.folder / "jobs.specon.before-1" / NAME) is not None


def test_what_still_trains_is_not_put_aside(stage: Stage):
    """It would go on in a directory that nobody looks at: the refusal names it, and how to end it."""
    stage.write_jobs(stage.job(MOVER, "--flat"))
    running = stage.specon(*LOCAL, "--leave-running")
    stage.eventually(lambda: f"{MOVER} started" in running.output, SECONDS)
    running.send(signal.SIGINT)
    assert running.wait(SECONDS) == 130
    refused = stage.specon(*LOCAL, "--fresh")
    assert refused.wait(SECONDS) == 2
    assert f"--fresh: an earlier run left jobs training: {MOVER}" in refused.errors
    assert stage.pods()
