"""A state directory that a stranger made beforehand, beside the job file, with commands in its journal."""

import os

import pytest

from specon_manager.backends.local.jobs import job_spec, read_job_file
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.events import JobSubmitted
from specon_manager.runtime.journal import NAME, Journal
from specon_manager.runtime.state_directory import StateDirectory
from specon_manager.runtime.tokens import Tokens
from support.local.stage import Stage

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away: run as root"),
]

STRANGER = 54321
JOB = """
jobs:
  - {name: job, command: "/usr/bin/touch TOUCHED"}
"""


def plant(stage: Stage, owner: int) -> None:
    """Write what an earlier manager would have left, with a job that betrays that it ran."""
    directory = stage.folder / "jobs.specon"
    directory.mkdir(mode=0o755)
    held = StateDirectory(directory)
    Tokens(directory)
    held.publish("127.0.0.1", 1)
    held.release()
    file = read_job_file(JOB.replace("TOUCHED", str(stage.folder / "by-the-stranger")))
    state, _ = step(State(settings=file.settings), JobSubmitted(job_spec(file.jobs[0])), 1.0)
    journal = Journal(directory / NAME, began_at=0.0, version="0.1.0")
    journal.begin(state)
    journal.close()
    for path in (directory, *directory.iterdir()):
        os.chown(path, owner, owner)


@pytest.fixture
def shared(stage: Stage) -> Stage:
    """Give a place in which everybody may write, as a shared disk, and a job file in it."""
    stage.folder.chmod(0o1777)
    stage.jobs.write_text(JOB.replace("TOUCHED", str(stage.folder / "by-us")))
    return stage


def test_what_a_stranger_planted_is_not_run(shared: Stage):
    """Neither the manager nor a client touches it, and the refusal names path, owner and mode."""
    plant(shared, STRANGER)
    for arguments in (["local", "jobs.yaml", "--plain"], ["submit", "--", "true"], ["top", "--once"]):
        refused = shared.run_specon(*arguments)
        assert refused.code == 2, refused.errors
        assert "Traceback" not in refused.errors
        assert f"jobs.specon (owner {STRANGER}, mode 0755): it does not belong to root (0)" in refused.errors
    assert not (shared.folder / "by-the-stranger").exists()
    assert not (shared.folder / "by-us").exists()


def test_what_we_left_there_is_run(shared: Stage):
    """What the test above refuses is neither the place nor the journal."""
    plant(shared, os.geteuid())
    done = shared.run_specon("local", "jobs.yaml", "--plain", "--nodes", "1")
    assert done.code == 0, done.errors
    assert (shared.folder / "by-the-stranger").exists()
