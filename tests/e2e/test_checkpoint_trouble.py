"""Checkpoints that do not come, or are not what they seem: no eviction, and training goes on."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from specon_manager.model.transactions import Transaction, TransactionState
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes

# A sidecar gives up a tenth earlier than its manager, to say why: a busy machine has to fit in there.
PATIENCE = {"deadlines": {"checkpoint": 6, "verify": 20, "start": 10, "eviction_margin": 5}}


def rolled_back(stage: Stage) -> Transaction:
    """Run to the end; return the move, having seen that it left the training untouched."""
    ended = stage.manager().end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.ROLLED_BACK
    assert move.changing_at is None
    assert ended.replicas[move.replica].starts == 1
    assert stage.resumes(MOVER) == []
    assert stage.steps_lost(MOVER) == 0
    stage.check_trained(MOVER, NEIGHBOUR)
    return move


def test_a_request_that_the_trainer_ignores(stage: Stage):
    """A trainer that never saves is not evicted; the note says what was waited for."""
    stage.write_move("--ignore-checkpoint-requests", settings=PATIENCE)
    assert "no new checkpoint within " in rolled_back(stage).note


def test_a_checkpoint_that_is_cut_off(stage: Stage):
    """Half an archive is never taken for a checkpoint, though it lies under its final name."""
    stage.write_move("--cut-checkpoints", settings=PATIENCE)
    move = rolled_back(stage)
    assert "damaged zip archive" in move.note
    assert move.checkpoint is None
    assert list((stage.directory(MOVER) / "checkpoints").glob("step-*.zip"))


def test_a_job_without_checkpoints_is_refused_and_never_asked(stage: Stage):
    """A job that declares no way to a checkpoint is not moved, and `explain` says why."""
    stage.write_move(checkpoint="none")
    manager = stage.manager(hurry=False)
    reason = "its trainer writes no checkpoints"
    stage.eventually(lambda: reason in stage.run_specon("explain", "--state", "state", MOVER).output)
    stage.hurry.touch()
    ended = manager.end
    check_succeeded(ended)
    assert ended.history == ()
    stage.check_trained(MOVER, NEIGHBOUR)


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[bool]:
    """Mount a tiny disk and fill it; False where that is not permitted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "specon-test", str(folder)]
    permitted = (
        shutil.which("mount") and not subprocess.run(mount, check=False, capture_output=True).returncode
    )
    if not permitted:
        yield False
        return
    try:
        with contextlib.suppress(OSError), (folder / ".filling").open("wb", buffering=0) as file:
            while file.write(b"x" * 512):
                pass
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(stage: Stage):
    """Where no checkpoint can be written the move is rolled back with a reason, and training goes on."""
    with full_disk(stage.folder / "disk") as mounted:
        if mounted:
            stage.write_move(checkpoint_path=str(stage.folder / "disk"), settings=PATIENCE)
        else:
            stage.write_move("--full-disk", settings=PATIENCE)
        assert "no new checkpoint within " in rolled_back(stage).note
        assert "No space left" in stage.log(MOVER) if mounted else "too large" in stage.log(MOVER)
        stage.close()


def test_a_trainer_that_ignores_its_eviction(stage: Stage):
    """A trainer that does not end when told to is killed after its grace, and goes on from its checkpoint."""
    stage.write_move("--ignore-sigterm", grace_seconds=0.3)
    ended = stage.manager().end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED
    assert move.checkpoint is not None
    assert stage.resumes(MOVER) == [move.checkpoint.step]
    assert ended.replicas[move.replica].crashes == 0
    stage.check_trained(MOVER, NEIGHBOUR)
