"""What the other tests of this folder rely on can fail: the trainer notices what must never happen."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.local import trainer
from support.local.stage import MOVER, Stage

pytestmark = pytest.mark.processes


def train(folder: Path, *flags: str) -> subprocess.Popen[bytes]:
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    paths = (
        "--directory",
        str(folder),
        "--log",
        str(folder / "train.log"),
        "--checkpoint-dir",
        str(checkpoints),
    )
    return subprocess.Popen([sys.executable, "-I", "-S", trainer.__file__, *paths, *flags])


def test_two_live_incarnations_are_noticed(stage: Stage):
    """A second trainer in the same place leaves a note of it."""
    folder = stage.directory(MOVER)
    both = [train(folder, "--steps", "100000")]
    stage.eventually(lambda: stage.steps_done(MOVER) > 0)
    both.append(train(folder, "--steps", "1", "--step-seconds", "0"))
    assert both[1].wait(10) == 0
    both[0].kill()
    both[0].wait()
    assert (folder / trainer.VIOLATIONS).exists()
    with pytest.raises(AssertionError):
        stage.check_trained(MOVER, steps=1)


def test_steps_that_are_trained_again_are_counted(stage: Stage):
    """A trainer that goes on from an older state trains again, and its parameters come out the same."""
    folder = stage.directory(MOVER)
    assert train(folder, "--every", "40", "--crash-at", "50", "--step-seconds", "0").wait(10) == -6
    assert train(folder, "--steps", "100", "--step-seconds", "0").wait(10) == 0
    assert stage.steps_lost(MOVER) == 10
    stage.check_trained(MOVER, steps=100)


def test_a_lost_step_is_noticed(stage: Stage):
    """Parameters to which a step is missing, or in which one counts twice, are not the expected ones."""
    folder = stage.directory(MOVER)
    assert train(folder, "--every", "40", "--crash-at", "50", "--step-seconds", "0").wait(10) == -6
    saved = folder / "checkpoints" / "step-00000040.ckpt"
    saved.write_text(saved.read_text().replace('"step": 40', '"step": 41'))
    assert train(folder, "--steps", "100", "--step-seconds", "0").wait(10) == 0
    with pytest.raises(AssertionError):
        stage.check_trained(MOVER, steps=100)
