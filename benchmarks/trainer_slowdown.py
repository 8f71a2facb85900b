"""How much a sidecar on the same CPU slows its trainer down.

`python benchmarks/trainer_slowdown.py [--json FILE]`. The sample `rnn.py` trains the same steps, pinned to
one CPU, without a sidecar (A), with one pinned to that CPU (B), and with one and a log line for each tenth
step instead of each (C), in turn. The start of a sidecar is left out: it happens once. Where other work on
the machine disturbs the clock by more than the bound (A against A), the clock proves nothing, and what counts
is what the sidecar takes from the trainer: its processor time meanwhile, as a share of the trainer's.
"""

import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import child
import figure
from figure import Figure

BOUND = 0.5  # percent
WARM, STEPS = 150, 700  # measured are the steps in between
ORDER = "ABCCBA"
LOG_EVERY = {"A": 1, "B": 1, "C": 10}

# Trains when told to; from step WARM on it counts the seconds, by the clock and of processor time.
TRAIN = """
import sys, time
from signals import REQUESTS
import loop, rnn
inner, step, since = loop.Loop.run, loop.Loop._step, []
def run(self, requests):
    print("ready", flush=True)
    sys.stdin.readline()
    status = inner(self, requests)
    print(time.perf_counter() - since[0], time.process_time() - since[1], flush=True)
    return status
def counted(self):
    step(self)
    if self._training.step == %d:
        print("warm", flush=True)
        since[:] = time.perf_counter(), time.process_time()
loop.Loop.run, loop.Loop._step = run, counted
loop.main("rnn", rnn.Lstm, rnn.DEFAULTS, REQUESTS)
"""


class Run(NamedTuple):
    """What one training run took, seconds."""

    passed: float
    trainer: float
    """Processor time of the trainer."""
    sidecar: float
    """Processor time of the sidecar meanwhile."""


def train(folder: Path, port: int, kind: str, warm: int, steps: int) -> Run:
    """Train once; `kind` is A, B or C as above."""
    cpu = child.last_cpu()
    log, checkpoints = folder / "train.log", folder / "checkpoints"
    options = (f"--steps={steps}", f"--log-every={LOG_EVERY[kind]}", f"--log={log}")
    with child.python("-c", TRAIN % warm, *options, f"--checkpoint-dir={checkpoints}", cpu=cpu) as trainer:
        child.line(trainer)
        if kind == "A":
            _warm(trainer)
            return Run(*_trained(trainer), 0.0)
        further = (f"--checkpoint-path={checkpoints}", f"--trainer-pid={trainer.pid}")
        with child.python(*child.sidecar_arguments(log, port, *further), cpu=cpu, quiet=True) as sidecar:
            _until_idle(sidecar)
            _warm(trainer)
            before = child.cpu_seconds(sidecar.pid)
            trained = _trained(trainer)
            return Run(*trained, child.cpu_seconds(sidecar.pid) - before)


def _warm(trainer: child.Child) -> None:
    """Let it train; return when what happens once has happened, in the sidecar too."""
    child.tell(trainer, "go")
    child.line(trainer)


def _trained(trainer: child.Child) -> tuple[float, float]:
    passed, used = map(float, child.line(trainer).split())
    return passed, used


def _until_idle(process: child.Child) -> None:
    """Wait until a process that starts has nothing to do any more."""
    used = -1.0
    deadline = time.monotonic() + 20
    while (now := child.cpu_seconds(process.pid)) > used + 0.02 or now < 0.1:
        if time.monotonic() > deadline:
            raise RuntimeError("the sidecar does not come to rest")
        used = now
        time.sleep(0.5)


def measure(order: str = ORDER, warm: int = WARM, steps: int = STEPS) -> list[Figure]:
    """Train in turn, and compare each run with its neighbour."""
    runs: dict[str, list[Run]] = {"A": [], "B": [], "C": []}
    with tempfile.TemporaryDirectory() as root, child.python(str(child.HERE / "stub_manager.py")) as manager:
        port = int(child.line(manager))
        for number, kind in enumerate(order):
            folder = Path(root) / str(number)
            folder.mkdir()
            runs[kind].append(train(folder, port, kind, warm, steps))
    alone, beside, seldom = runs["A"], runs["B"], runs["C"]
    pairs = list(zip(alone, beside, strict=False))
    clock = [100 * (b.passed / a.passed - 1) for a, b in pairs]
    noise = max(abs(100 * (b.passed / a.passed - 1)) for a, b in itertools.pairwise(alone))
    rate = (steps - warm) / median(run.passed for run in beside)
    return [
        Figure(what="noise by the clock: A against A", value=noise, unit="%"),
        Figure(
            what="slow-down by the clock, median",
            value=median(clock),
            unit="%",
            at_most=BOUND if noise < BOUND else None,
            note=_spread(clock) + ("" if noise < BOUND else "; the noise is larger than the bound"),
        ),
        _processor("noise by the trainer's processor time: A against A", alone[:1], alone[1:]),
        _processor("more processor time of the trainer, a line for each step", alone, beside),
        _processor("more processor time of the trainer, for each tenth step", alone, seldom),
        _share(beside, f"a line for each step ({rate:.0f}/s)"),
        _share(seldom, f"for each tenth step ({rate / 10:.0f}/s)"),
        Figure(what="one run", value=median(run.passed for run in alone), unit="s"),
    ]


def _processor(what: str, alone: Sequence[Run], others: Sequence[Run]) -> Figure:
    """Return by how much the processor time of the trainer itself differs."""
    more = [100 * (b.trainer / a.trainer - 1) for a, b in zip(alone, others, strict=False)]
    return Figure(what=what, value=median(more), unit="%", note=_spread(more))


def _share(runs: Sequence[Run], log: str) -> Figure:
    """Return what sidecars took of what their trainers did."""
    shares = [100 * run.sidecar / run.trainer for run in runs]
    return Figure(
        what=f"the sidecar's processor time of the trainer's, {log}",
        value=median(shares),
        unit="%",
        at_most=BOUND,
        note=_spread(shares),
    )


def _spread(values: Sequence[float]) -> str:
    return f"from {min(values):.2f} to {max(values):.2f}"


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure("ABCA", warm=2, steps=6)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
