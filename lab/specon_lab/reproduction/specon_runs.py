"""The runs of SpeCon's experiments: cells, modes, seeds, and the measurements of each.

Mao et al., arXiv 2010.11307, sections VI-B to VI-D.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_lab.engine.outcome import Outcome
from specon_lab.engine.run import settings_for
from specon_lab.reproduction.experiment import UNBOUNDED_MOVES, Run
from specon_lab.workloads.specon import MIXED_SECONDS, UNDISTURBED
from specon_lab.workloads.table import workload_named
from specon_manager.model.settings import Gate
from specon_sidecar.classify import ClassifierSettings

JOB: Final = "job "
"""Before the name of a job: the measure is its completion time, seconds."""
SEEDS: Final = range(20)
_FEWER: Final = range(10)
_QUICK: Final = range(2)


class Mode(Struct, frozen=True, kw_only=True):
    """How SpeCon is run; the baseline has none."""

    name: str
    literal: bool = False
    """Whether Algorithms 1 to 3 run as printed."""
    budgets: bool = True
    """Whether moves are bounded as the manager bounds them by default; the paper bounds nothing."""
    gate: bool = False
    classifier: str = "specon"


LITERAL: Final = Mode(name="literal", literal=True, budgets=False)
DEFAULT: Final = Mode(name="default")
"""The repaired algorithms within the manager's budgets."""
UNBOUNDED: Final = Mode(name="unbounded", budgets=False)
"""The repaired algorithms, and as many moves as they like."""
GATED: Final = Mode(name="gate", gate=True)
"""The same, and the manager's gate asks each move what it gains."""
HORIZON: Final = Mode(name="horizon", classifier="horizon")
"""The repaired Algorithms 2 and 3 with the sidecar's other classifier in place of Algorithm 1."""


class Cell(Struct, frozen=True, kw_only=True):
    """One experiment of the paper; cells of one workload share the runs of the baseline."""

    name: str
    workload: str
    baseline: str
    """The name of the cell whose runs without moves it is compared with."""
    alpha: float = 0.01

    def key(self, mode: Mode) -> str:
        """Return the key of its runs with SpeCon."""
        return f"{self.name}/specon/{mode.name}"

    @property
    def baseline_key(self) -> str:
        """The key of the runs that it is compared with."""
        return f"{self.baseline}/round-robin"


def _cell(name: str, extra: str = "", suffix: str = "") -> Cell:
    workload = f"specon-{name}{extra}"
    return Cell(name=name + suffix, workload=workload, baseline=name + suffix)


def _list(seconds: Sequence[float]) -> str:
    return "/".join(f"{each:g}" for each in seconds)


EXPERIMENTS: Final = tuple(_cell(name) for name in ("fixed", "random", "mixed-20", "mixed-30", "mixed-50"))
"""`random` is the cell of Table III with alpha 0.01 and an interval of 30 s."""

TABLE_3: Final = tuple(
    Cell(
        name="random" if (alpha, interval) == (0.01, 30) else f"random-{alpha:g}-{interval}",
        workload=f"specon-random:report_seconds={interval}",
        baseline="random",
        alpha=alpha,
    )
    for alpha, interval in ((0.05, 20), (0.05, 25), (0.05, 30), (0.01, 30), (0.1, 30))
)

NO_CONTENTION: Final = tuple(
    _cell(
        cell.name,
        f":contention=0,seconds={_list(UNDISTURBED if 'mixed' in cell.name else UNDISTURBED[:2])}",
        "-contention-0",
    )
    for cell in EXPERIMENTS
)
"""The same experiments where jobs do not disturb each other, with durations fitted to that."""

LONGER: Final = _cell(
    "mixed-50", f":seconds={_list([1.25 * seconds for seconds in MIXED_SECONDS])}", "-1.25-times-as-long"
)
"""Figure 12 with longer jobs, so that the baseline's average is near the paper's: what load changes."""


def runs(quick: bool) -> Sequence[Run]:  # noqa: FBT001  (the signature of Reproduction.runs)
    """Return the runs: 20 seeds of the paper's experiments, 10 of our own; with `quick` 2 of some."""
    return tuple(_quick_runs() if quick else _full_runs())


def _full_runs() -> Iterator[Run]:
    for cell in EXPERIMENTS:
        yield from _baseline(cell, SEEDS)
        for mode in (LITERAL, DEFAULT):
            yield from _specon(cell, mode, SEEDS)
        for mode in (UNBOUNDED, GATED, HORIZON):
            yield from _specon(cell, mode, _FEWER)
    for cell in TABLE_3:
        if cell.name != "random":
            for mode in (LITERAL, DEFAULT):
                yield from _specon(cell, mode, SEEDS)
    for cell in (*NO_CONTENTION, LONGER):
        yield from _baseline(cell, _FEWER)
        for mode in (LITERAL, DEFAULT):
            yield from _specon(cell, mode, _FEWER)


def _quick_runs() -> Iterator[Run]:
    for cell in EXPERIMENTS[:3]:
        yield from _baseline(cell, _QUICK)
        for mode in (LITERAL, DEFAULT):
            yield from _specon(cell, mode, _QUICK)
    yield from _specon(EXPERIMENTS[0], GATED, _QUICK)
    yield from _baseline(NO_CONTENTION[0], _QUICK)
    for mode in (LITERAL, DEFAULT):
        yield from _specon(NO_CONTENTION[0], mode, _QUICK)


def _baseline(cell: Cell, seeds: Sequence[int]) -> Iterator[Run]:
    """Yield the paper's DS: the same placement, and nothing is ever moved."""
    for seed in seeds:
        yield Run(
            key=cell.baseline_key,
            workload=cell.workload,
            seed=seed,
            policy="round-robin",
            measure=measure,
            classifier=ClassifierSettings(classifier="specon"),
        )


def _specon(cell: Cell, mode: Mode, seeds: Sequence[int]) -> Iterator[Run]:
    parameters: Mapping[str, Any] = {"literal": True} if mode.literal else {}
    classifier = msgspec.convert(
        {"classifier": mode.classifier, "alpha": cell.alpha, "literal": mode.literal}, ClassifierSettings
    )
    for seed in seeds:
        settings = settings_for(workload_named(cell.workload, seed))
        settings = msgspec.structs.replace(
            settings,
            gate=Gate(enabled=mode.gate),
            budgets=settings.budgets if mode.budgets else UNBOUNDED_MOVES,
        )
        yield Run(
            key=cell.key(mode),
            workload=cell.workload,
            seed=seed,
            policy="specon",
            measure=measure,
            parameters=parameters,
            settings=settings,
            classifier=classifier,
        )


def measure(outcome: Outcome) -> Mapping[str, float]:
    """Return the seed, the makespan, moves, pauses and each job's completion time, seconds.

    `paused` is without the first start of each job, so that divided by `moves` it is what a move costs.
    A job that did not complete is missing, and counted in `incomplete`.
    """
    completions = {
        f"{JOB}{job.name}": job.completion_seconds
        for job in outcome.jobs
        if job.completion_seconds is not None
    }
    starts = sum((job.started_at or 0.0) - job.submitted_at for job in outcome.jobs if job.moves)
    return {
        "seed": float(outcome.seed),
        "makespan": outcome.makespan,
        "moves": float(sum(job.moves for job in outcome.jobs)),
        "paused": sum(job.paused_seconds for job in outcome.jobs if job.moves) - starts,
        "incomplete": float(len(outcome.jobs) - len(completions)),
        **completions,
    }
