"""The training samples as real processes: log, checkpoints, signals, resume."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.processes, pytest.mark.long]

TRAINING = Path(__file__).parents[2] / "samples" / "training"
TINY = ("--hidden", "8", "--batch-size", "8", "--checkpoint-every", "0")
DEADLINE = 60.0
MODELS = ("vae", "gru", "bidirectional_rnn", "rnn", "dynamic_rnn")
STEP = re.compile(r"step=(\d+)/(\d+) loss=(\S+) lr=(\S+)")


def command(model, *arguments):
    return [sys.executable, str(TRAINING / f"{model}.py"), *map(str, arguments)]


def finish(model, *arguments, **options):
    """Run to the end."""
    return subprocess.run(
        command(model, *arguments), capture_output=True, text=True, timeout=DEADLINE, check=False, **options
    )


@contextmanager
def started(model, *arguments, **options) -> Iterator[subprocess.Popen]:
    """Run beside the test; whatever is left of it at the end is killed."""
    process = subprocess.Popen(command(model, *arguments), **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Poll until the condition holds; fail when the process ends before, or at the deadline."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None or condition(), f"ended with {process.returncode} before"
        assert time.monotonic() < end, "deadline"
        time.sleep(0.002)


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def logged(log: Path, text: str) -> Callable[[], bool]:
    """Return a condition: some line of the log contains the text."""
    return lambda: any(text in line for line in lines(log))


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def step_lines(log):
    return [line for line in lines(log) if line.startswith("step=")]


def same(one, other):
    """Whether two checkpoints hold the same bits."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("model", ["vae", "dynamic_rnn"])
def test_resume_equals_an_uninterrupted_run(tmp_path, model):
    """A run that was ended and resumed has the losses and final state of one that never was, bit for bit."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    common = (*TINY, "--steps", "500")
    assert finish(model, *common, "--log", f"{whole}.log", "--checkpoint-dir", whole).returncode == 0

    arguments = (*common, "--log", f"{parts}.log", "--checkpoint-dir", parts)
    log = Path(f"{parts}.log")
    with started(model, *arguments) as process:
        wait_until(logged(log, "step=20/500 "), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 128 + signal.SIGTERM
    stopped = int(re.fullmatch(r"stopped at step=(\d+)", lines(log)[-1])[1])
    assert 20 <= stopped < 500
    assert checkpoints(parts) == [f"step-{stopped:08d}.pt"]

    assert finish(model, *arguments).returncode == 0
    assert f"resumed from step={stopped} checkpoint=step-{stopped:08d}.pt" in lines(log)
    assert step_lines(log) == step_lines(Path(f"{whole}.log"))
    assert lines(log)[-1] == "finished step=500"
    final = [torch.load(folder / "step-00000500.pt", weights_only=True) for folder in (whole, parts)]
    assert same(*final)


@pytest.mark.parametrize("model", MODELS)
def test_log_format_and_learning(model):
    """Each model logs its start, one line per step and its end, and its loss falls by at least a tenth."""
    result = finish(model, "--hidden", 32, "--batch-size", 32, "--steps", 80, "--learning-rate", 0.005)
    assert result.returncode == 0, result.stderr
    first, *steps, last = result.stdout.splitlines()
    assert re.fullmatch(rf"started model={model} pid=\d+ steps=80", first)
    assert last == "finished step=80"
    matches = [STEP.fullmatch(line) for line in steps]
    assert [(match[1], match[2], match[4]) for match in matches] == [
        (str(step), "80", "0.005") for step in range(1, 81)
    ]
    losses = [float(match[3]) for match in matches]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_log_every_and_append(tmp_path):
    """`--log-every 10` logs the first step, each tenth and the last; a second run appends to the file."""
    log = tmp_path / "log"
    log.write_text("before\n")
    assert finish("rnn", *TINY, "--steps", 25, "--log-every", 10, "--log", log).returncode == 0
    assert lines(log)[0] == "before"
    assert [STEP.match(line)[1] for line in step_lines(log)] == ["1", "10", "20", "25"]


def test_sigusr1_saves_and_training_goes_on(tmp_path):
    """SIGUSR1 makes a checkpoint visible, no older than the last logged step, and further steps follow it."""
    log, folder = tmp_path / "log", tmp_path / "checkpoints"
    arguments = (*TINY, "--steps", 1_000_000, "--log", log, "--checkpoint-dir", folder)
    with started("rnn", *arguments) as process:
        wait_until(logged(log, "step=5/"), process)
        reached = int(step_lines(log)[-1].removeprefix("step=").partition("/")[0])
        process.send_signal(signal.SIGUSR1)
        wait_until(logged(log, "checkpoint saved"), process)
        (name,) = checkpoints(folder)
        step = int(re.fullmatch(r"step-(\d{8})\.pt", name)[1])
        assert step >= reached >= 5
        assert f"checkpoint saved step={step} name={name}" in lines(log)
        wait_until(logged(log, f"step={step + 5}/"), process)
        assert checkpoints(folder) == [name]


ANNOUNCE = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "torch":
            os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    ("name", "status", "saved", "last"),
    [
        ("SIGUSR1", 0, ["step-00000001.pt", "step-00000003.pt"], "finished step=3"),
        ("SIGTERM", 143, ["step-00000000.pt"], "stopped at step=0"),
    ],
)
def test_a_signal_before_the_import_of_torch_is_kept(tmp_path, name, status, saved, last):
    """A signal during the start is obeyed as soon as there is something to save."""
    (tmp_path / "sitecustomize.py").write_text(ANNOUNCE.replace("{signal}", name))
    folder = tmp_path / "checkpoints"
    arguments = (*TINY, "--steps", 3, "--checkpoint-dir", folder)
    result = finish("rnn", *arguments, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert result.returncode == status, result.stderr
    assert checkpoints(folder) == saved
    assert result.stdout.splitlines()[-1] == last


def test_keep(tmp_path):
    """Checkpoints are saved at the interval and at the end, and only the newest `--keep` stay."""
    arguments = (
        "--hidden",
        8,
        "--steps",
        25,
        "--checkpoint-every",
        5,
        "--keep",
        2,
        "--checkpoint-dir",
        tmp_path,
    )
    result = finish("gru", *arguments)
    saved = [line.split("=")[1].split()[0] for line in result.stdout.splitlines() if "saved" in line]
    assert saved == ["5", "10", "15", "20", "25"]
    assert checkpoints(tmp_path) == ["step-00000020.pt", "step-00000025.pt"]


def test_a_cut_off_checkpoint_is_passed_over(tmp_path):
    """A damaged newest checkpoint is logged and kept, the one before it used, leftovers are cleared."""
    arguments = ("--hidden", 8, "--checkpoint-every", 10, "--checkpoint-dir", tmp_path, "--keep", 2)
    assert finish("gru", *arguments, "--steps", 20).returncode == 0
    newest = tmp_path / "step-00000020.pt"
    newest.write_bytes(newest.read_bytes()[:-100])
    (tmp_path / ".step-00000021.pt.tmp").write_bytes(b"half")
    result = finish("gru", *arguments, "--steps", 15)
    assert result.stdout.splitlines()[:2] == [
        "checkpoint unreadable name=step-00000020.pt",
        "resumed from step=10 checkpoint=step-00000010.pt",
    ]
    assert result.stdout.splitlines()[-1] == "finished step=15"
    assert checkpoints(tmp_path) == ["step-00000010.pt", "step-00000015.pt", "step-00000020.pt"]


def test_a_checkpoint_of_another_size_is_refused(tmp_path):
    """A resume with another hidden size ends with status 2 and names both."""
    assert finish("gru", "--hidden", 8, "--steps", 1, "--checkpoint-dir", tmp_path).returncode == 0
    result = finish("gru", "--hidden", 9, "--steps", 2, "--checkpoint-dir", tmp_path)
    assert result.returncode == 2
    assert (
        "step-00000001.pt was saved by model=gru hidden=8, and this run is model=gru hidden=9"
        in result.stderr
    )
    assert checkpoints(tmp_path) == ["step-00000001.pt"]


def test_a_full_disk_is_survived(tmp_path):
    """When a checkpoint cannot be written, no part of it stays, the log says so, and training continues."""
    small, large = ("--hidden", 8), ("--hidden", 64)

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    arguments = ("--steps", 3, "--checkpoint-every", 2, "--checkpoint-dir", tmp_path)
    result = finish("gru", *large, *arguments, preexec_fn=full)
    assert result.returncode == 0, result.stderr
    output = result.stdout.splitlines()
    assert "checkpoint failed step=2 error=File too large" in output
    assert output[-2:] == ["checkpoint failed step=3 error=File too large", "finished step=3"]
    assert checkpoints(tmp_path) == []
    assert finish("gru", *small, *arguments, preexec_fn=full).returncode == 0
    assert checkpoints(tmp_path) == ["step-00000002.pt", "step-00000003.pt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--keep", "1"), "argument --keep: must be a whole number from 2 to 2147483647, not '1'"),
        (("--log", "/nowhere/log"), "argument --log: [Errno 2] No such file or directory: '/nowhere/log'"),
        (
            ("--checkpoint-dir", "/dev/null/x"),
            "argument --checkpoint-dir: [Errno 20] Not a directory: '/dev/null/x'",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    """A bad value ends the start with status 2 and a message that names argument and value."""
    result = finish("vae", "--steps", "1", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""
