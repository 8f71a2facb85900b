"""What turns are worth to two jobs on one GPU, where each alone would keep it busy.

`python benchmarks/gpu_turns.py [--quick] [--json FILE]`. First two trainers without a manager: each alone,
both at once as the driver shares the GPU, and both in turns, stopped and continued as a sidecar does it.
Then two jobs under a local manager on one node of the GPU, one of a third of the work of the other:
with the policy's weights, and without. Without a GPU only the smallest form runs, on a processor.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Final, NamedTuple

import child
import figure
from figure import Figure
from local_session import session_of
from specon_manager.backends.local.jobs import LocalJob
from specon_manager.cli.run.result import summarize
from specon_manager.cli.run.running import nodes_of_this_machine
from specon_manager.model.settings import Settings
from specon_sidecar.slices.freezing import Frozen
from specon_sidecar.slices.guardian import spawn_guardian

_TRAINER: Final = Path(__file__).with_name("gpu_trainer.py")
_PATIENCE: Final = 120.0
_POLL: Final = 0.05
_LONGER: Final = 3
"""How much more work the longer job has."""
_FAST: Final = 1.2
"""A step that takes at most so many times what it takes alone is one of a trainer that has the GPU."""
_AHEAD: Final = 20
"""Steps that a trainer queues before it waits for them."""
_MIB: Final = 2**20


class Size(NamedTuple):
    """How much is measured."""

    width: int
    """Of the network's layers."""
    window: float
    """Seconds for which trainers are watched."""
    turn: float
    """Seconds of a turn."""
    turns: int
    seconds: float
    """Of the shorter job, had it the GPU alone."""
    nodes: str
    """As for `--nodes`."""


_WHOLE: Final = Size(width=8192, window=8.0, turn=1.0, turns=20, seconds=20.0, nodes="gpu")
_QUICK: Final = Size(width=8192, window=3.0, turn=0.5, turns=10, seconds=10.0, nodes="gpu")
_SMALLEST: Final = Size(width=64, window=0.3, turn=0.1, turns=2, seconds=0.3, nodes="1")


class Trainer:
    """One that runs, and what it noted."""

    def __init__(self, pid: int, times: Path) -> None:
        self.times = times
        self._frozen = Frozen(lambda: [pid], spawn_guardian)

    def stop(self) -> None:
        """Stop it as its sidecar would."""
        if not self._frozen.stop():
            raise RuntimeError("the trainer could not be stopped")

    def go(self) -> None:
        """Continue it."""
        self._frozen.go()

    def end(self) -> None:
        """Leave no guardian behind."""
        self._frozen.end()

    def steps(self, begin: float = 0.0, end: float = float("inf")) -> list[float]:
        """Return when it had made each step in a time, on the monotonic clock."""
        return [at for at, _ in self._noted() if begin <= at < end]

    def free(self) -> float:
        """Return how much memory of the GPU it saw free last, bytes."""
        return self._noted()[-1][1]

    def _noted(self) -> list[tuple[float, float]]:
        if not self.times.exists():
            return []
        lines = self.times.read_text(encoding="ascii").splitlines()
        return [(float(at), float(free)) for at, free in (line.split() for line in lines)]


@contextlib.contextmanager
def trainer(folder: Path, name: str, size: Size, ahead: int = 1) -> Iterator[Trainer]:
    """Start one, wait for its first steps, and end it at last."""
    times = folder / name
    flags = [f"--times={times}", f"--width={size.width}", f"--ahead={ahead}"]
    with child.python(str(_TRAINER), *flags, quiet=True, alone=True) as process:
        one = Trainer(process.pid, times)
        deadline = time.monotonic() + _PATIENCE
        while len(one.steps()) < 5:  # the first ones take longer
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the trainer made no step")
            time.sleep(_POLL)
        try:
            yield one
        finally:
            one.end()


def rate(one: Trainer, seconds: float) -> float:
    """Watch it for some time, and return its notes a second."""
    begin = time.monotonic()
    time.sleep(seconds)
    return len(one.steps(begin, begin + seconds)) / seconds


class Turns(NamedTuple):
    """What came of trainers that took turns."""

    together: float
    """Their notes a second."""
    handovers: list[float]
    """Seconds from each stop until the other was as fast as alone."""
    stray: int
    """Notes of trainers that were stopped."""
    drift: float
    """By how much the free memory of the GPU changed meanwhile, at most, bytes."""


def take_turns(running: Trainer, stopped: Trainer, alone: float, size: Size) -> Turns:
    """Let two trainers take turns; `alone`: what a note takes one of them that is alone, seconds."""
    one, other = running, stopped
    stopped.stop()
    time.sleep(size.turn)
    free, drift = running.free(), 0.0
    handovers: list[float] = []
    stray = 0
    begin = time.monotonic()
    for _ in range(size.turns):
        at = time.monotonic()
        running.stop()
        stopped.go()
        running, stopped = stopped, running
        time.sleep(size.turn)
        handovers.append(_until_fast(running, at, alone))
        stray += len(stopped.steps(at + 2 * alone))
        drift = max(drift, abs(running.free() - free))
    passed = time.monotonic() - begin
    made = len(one.steps(begin)) + len(other.steps(begin))
    stopped.go()
    return Turns(made / passed, handovers, stray, drift)


def _until_fast(one: Trainer, begin: float, alone: float) -> float:
    """Return after how many seconds the first step began that took as long as alone; all where none did."""
    now = time.monotonic()
    fast = (at - begin for at, later in pairwise(one.steps(begin)) if later - at <= _FAST * alone)
    return next(fast, now - begin)


def compare_by_hand(size: Size) -> list[Figure]:
    """Measure two trainers without a manager."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        with trainer(folder, "one", size) as one:
            alone = rate(one, size.window)
            with trainer(folder, "other", size) as other:
                both = rate(one, size.window) + rate(other, size.window)
                turns = take_turns(one, other, 1 / alone, size)
            with trainer(folder, "ahead", size, _AHEAD) as ahead:
                queued = [_leave(ahead, one, 1 / alone, size.turn) for _ in range(size.turns // 2)]
    return [
        Figure(what="a step of a trainer that is alone", value=1000 / alone, unit="ms"),
        Figure(what="two at once, together, of one alone", value=both / alone, unit="of it"),
        Figure(
            what=f"two in turns of {size.turn:g} s, together, of one alone",
            value=turns.together / alone,
            unit="of it",
            at_least=0.95,
        ),
        _in_ms("from a stop until the other is as fast as alone", turns.handovers),
        _in_ms(f"the same where {_AHEAD} steps of the stopped one are queued", queued),
        Figure(what="steps that a stopped trainer made", value=turns.stray, unit="steps", at_most=0),
        Figure(
            what="change of the GPU's free memory in turns, at most", value=turns.drift / _MIB, unit="MiB"
        ),
    ]


def _leave(leaving: Trainer, other: Trainer, alone: float, seconds: float) -> float:
    """Stop one of two that run, and return how soon the other is as fast as alone; the first runs on then."""
    time.sleep(seconds)
    at = time.monotonic()
    leaving.stop()
    time.sleep(seconds)
    found = _until_fast(other, at, alone)
    leaving.go()
    return found


def _in_ms(what: str, seconds: list[float]) -> Figure:
    note = f"at most {1000 * max(seconds):.0f} ms, {len(seconds)} stops"
    return Figure(what=f"{what}, median", value=1000 * median(seconds), unit="ms", note=note)


async def complete(folder: Path, size: Size, step: float, *, weights: bool) -> list[float]:
    """Run both jobs to their end, and return the completion time of each, the shorter one first, seconds."""
    steps = max(20, round(size.seconds / step))
    jobs = [
        LocalJob(
            name=name,
            command=(
                f"{{python}} {_TRAINER} --width {size.width} --steps {count} --times {folder / name}.times"
            ),
            interval=1.0,
            heartbeat=0.5,
        )
        for name, count in (("longer", _LONGER * steps), ("shorter", steps))
    ]
    nodes = nodes_of_this_machine(size.nodes)
    settings = Settings(policy="progress", reweight=weights, tick=0.5)
    async with session_of(jobs, folder / "state", nodes, settings) as session:
        await session.wait_until_finished()
        result = summarize(session.controller.state, began=session.began_at)
    seconds = {job.name.rpartition("/")[2]: job.completion_seconds for job in result.jobs}
    shorter, longer = seconds["shorter"], seconds["longer"]
    if shorter is None or longer is None:
        raise RuntimeError("a job did not succeed")
    return [shorter, longer]


def compare_jobs(size: Size, step: float) -> list[Figure]:
    """Measure the jobs under a manager, with weights and without."""
    found = {}
    for weights in (False, True):
        with tempfile.TemporaryDirectory() as root:
            found[weights] = asyncio.run(complete(Path(root), size, step, weights=weights))
    return [
        *(
            Figure(what=f"the {name} job {words}", value=found[weights][at], unit="s")
            for weights, words in ((False, "where both run at once"), (True, "with the policy's weights"))
            for at, name in enumerate(("shorter", "longer"))
        ),
        Figure(
            what="mean completion with weights, of that without",
            value=mean(found[True]) / mean(found[False]),
            unit="of it",
            at_most=0.9,
        ),
    ]


def measure(size: Size = _WHOLE) -> list[Figure]:
    """Measure both."""
    by_hand = compare_by_hand(size)
    return [*by_hand, *compare_jobs(size, by_hand[0].value / 1000)]


def quick() -> list[Figure]:
    """Measure for a shorter time."""
    return measure(_QUICK)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing, on a processor where there is no GPU."""
    return measure(_SMALLEST)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest, quick=quick)
