"""The parts of the training samples that need no process of their own."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

TRAINING = Path(__file__).parents[2] / "samples" / "training"


def load(name):
    """Import one of the modules without putting their folder on the path."""
    spec = importlib.util.spec_from_file_location(f"samples_training_{name}", TRAINING / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checkpoints = load("checkpoints")


def state(step):
    random = torch.get_rng_state()
    return {
        "run": {"model": "m", "hidden": 1},
        "step": step,
        "model": {"weight": torch.arange(50.0)},
        "optimizer": {"steps": step, "means": [], "squares": []},
        "torch_random": random,
        "batch_random": random,
    }


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_a_damaged_checkpoint_is_never_taken(tmp_path_factory, data):
    """A checkpoint that is cut off or has one changed byte is refused with a ValueError that names it."""
    folder = tmp_path_factory.getbasetemp() / "damaged"
    path = checkpoints.CheckpointDirectory(folder, 2).save(state(7))
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1), label="at")
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    path.write_bytes(data.draw(st.sampled_from([content[:at], changed])))
    with pytest.raises(ValueError, match=r"checkpoint step-00000007\.pt: cut off or damaged"):
        checkpoints.read(path)


def test_a_checkpoint_comes_back(tmp_path):
    """What was saved is read back, by the module and by `torch.load`."""
    path = checkpoints.CheckpointDirectory(tmp_path, 2).save(state(7))
    for read in (checkpoints.read(path), torch.load(path, weights_only=True)):
        assert read["step"] == 7
        assert torch.equal(read["model"]["weight"], torch.arange(50.0))


def test_a_foreign_checkpoint_is_refused(tmp_path):
    """A whole file that lacks what a resume needs is refused with ValueError."""
    path = checkpoints.CheckpointDirectory(tmp_path, 2).save({"step": 3})
    with pytest.raises(ValueError, match="not one of a training sample"):
        checkpoints.read(path)


def test_a_full_disk_leaves_the_earlier_checkpoints(tmp_path, monkeypatch):
    """When the disk is full at the flush, the temporary file goes and every earlier checkpoint stays."""
    directory = checkpoints.CheckpointDirectory(tmp_path, 2)
    for step in (1, 2):
        directory.save(state(step))

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        directory.save(state(3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001.pt", "step-00000002.pt"]


def test_damaged_checkpoints_do_not_count_as_kept(tmp_path):
    """An unreadable checkpoint never takes the place of a good one among those that stay."""
    directory = checkpoints.CheckpointDirectory(tmp_path, 2)
    directory.save(state(10))
    (tmp_path / "step-00000015.pt").write_bytes(b"damaged")
    reported = []
    path, found = directory.newest(reported.append)
    assert (path.name, found["step"], [bad.name for bad in reported]) == (
        "step-00000010.pt",
        10,
        ["step-00000015.pt"],
    )
    directory.save(state(20))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000010.pt",
        "step-00000015.pt",
        "step-00000020.pt",
    ]


def test_adam_is_the_adam_of_pytorch():
    """Fifty steps on a least squares problem end where `torch.optim.Adam` ends."""
    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(64, 5, generator=generator), torch.randn(64, 3, generator=generator)
    ours, theirs = torch.zeros(5, 3, requires_grad=True), torch.zeros(5, 3, requires_grad=True)
    for weight, optimizer in (
        (ours, load("adam").Adam([ours], 0.05)),
        (theirs, torch.optim.Adam([theirs], 0.05)),
    ):
        for _ in range(50):
            optimizer.zero_grad()
            (inputs @ weight - targets).square().mean().backward()
            optimizer.step()
    assert ours.abs().sum() > 0.5
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_digits_are_those_of_scikit_learn():
    """Images and labels equal `sklearn.datasets.load_digits`, and scikit-learn itself is not imported."""
    known = "sklearn" in sys.modules
    images, labels = load("digits").load()
    assert known or "sklearn" not in sys.modules
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow, and what the module avoids

    expected = load_digits()
    assert torch.equal(images * 16, torch.tensor(expected.images, dtype=torch.float32))
    assert torch.equal(labels, torch.tensor(expected.target))


def test_a_torn_log_line_is_closed_before_the_next(tmp_path, monkeypatch):
    """After a line that was cut off by a full disk, the next one begins on a line of its own."""
    log_module = load("log")
    log = log_module.Log(tmp_path / "log")
    write = log_module.os.write
    monkeypatch.setattr(log_module.os, "write", lambda descriptor, data: write(descriptor, data[:4]))
    log.write("step=1/2 loss=1.5")
    monkeypatch.undo()
    log.write("step=2/2 loss=0.5")
    assert (tmp_path / "log").read_text() == "step\nstep=2/2 loss=0.5\n"


@pytest.mark.parametrize(
    ("argument", "value", "problem"),
    [
        ("--steps", "0", "must be a whole number from 1 to 2147483647"),
        ("--steps", "1.5", "must be a whole number from 1 to 2147483647"),
        ("--batch-size", "9" * 5000, "must be a whole number from 1 to 65536"),
        ("--hidden", "99999", "must be a whole number from 1 to 16384"),
        ("--learning-rate", "nan", "must be a finite number above 0"),
        ("--learning-rate", "0", "must be a finite number above 0"),
        ("--seed", "x", "must be a whole number from 0 to 2147483647"),
        ("--log-every", "0", "must be a whole number from 1 to 2147483647"),
        ("--checkpoint-every", "²", "must be a whole number from 0 to 2147483647"),
        ("--keep", "1", "must be a whole number from 2 to 2147483647"),
    ],
)
def test_bad_values_are_named(argument, value, problem, capsys):
    """A bad value ends the start with status 2 and a message that names argument and value."""
    arguments = load("arguments")
    defaults = arguments.Defaults(steps=1, batch_size=1, hidden=1, learning_rate=1.0)
    with pytest.raises(SystemExit) as ended:
        arguments.parse("vae", defaults, [argument, value])
    assert ended.value.code == 2
    assert f"argument {argument}: {problem}, not {value!r}" in capsys.readouterr().err
