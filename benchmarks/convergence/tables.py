"""The results as Markdown tables."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from statistics import median
from typing import Final

from curves import Run
from evaluation import INTERVALS, calibration, evaluate, remaining
from schedules import WORLDS, compare
from scores import DELTAS, score
from truth import Kind, truth

_COLUMNS: Final = (
    "detector",
    "precision",
    "recall",
    "first right",
    "runs",
    "right in time",
    "to come (p90)",
    "lead",
    "flips",
    "false",
)
_HEAD: Final = (f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|")
_BINS: Final = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_THIRD: Final = 1 / 3
_NEAR: Final = 0.2


def tables(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the lines of all tables about these runs."""
    kinds = [truth(run).kind for run in runs]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in Kind if kind in kinds)
    yield f"{len(runs)} runs of {len({run.family for run in runs})} families: {counted}."
    for intervals in INTERVALS:
        found = evaluate(runs, intervals)
        for delta in DELTAS:
            yield from ("", f"### {intervals} intervals, converged within {delta:.0%}", "", *_HEAD)
            for name, verdicts in found.items():
                row = score(verdicts, delta)
                yield (
                    f"| {name} | {row.precision:.2f} | {row.recall:.2f} | {row.first_right:.2f} | {row.runs}"
                    f" | {row.first_right_of_useful:.2f} | {row.to_come:.3f} ({row.to_come_p90:.3f})"
                    f" | {row.lead:.2f} | {row.flips:.2f} | {row.false_alarms} |"
                )
    yield from _calibration(runs)
    yield from _remaining(runs)
    yield from _schedules(runs)


def _schedules(runs: Sequence[Run]) -> Iterator[str]:
    yield from ("", f"### Order of twelve jobs on two processors, mean of {WORLDS} worlds", "")
    yield from ("| order | time to 98 % of the gain | completion | worst job |", "|---|---|---|---|")
    for name, converged, completed, worst in compare(runs):
        yield f"| {name} | {converged:+.1%} | {completed:+.1%} | {worst:+.0%} |"


def _calibration(runs: Sequence[Run]) -> Iterator[str]:
    pairs = calibration(runs, 50, DELTAS[0])
    yield from ("", "### Confidence of `horizon`, total known, 50 intervals, 2 %", "")
    yield from ("| confidence | intervals | of them converged |", "|---|---|---|")
    for low, high in pairwise(_BINS):
        inside = [was for said, was in pairs if low <= said < high or said == high == _BINS[-1]]
        share = f"{sum(inside) / len(inside):.2f}" if inside else "-"
        yield f"| {low:.1f} to {high:.1f} | {len(inside)} | {share} |"


def _remaining(runs: Sequence[Run]) -> Iterator[str]:
    yield from ("", "### Remaining time, total known", "")
    yield (
        "| intervals | median error | within 20 % from a third on | runs with nine of ten so"
        " | truth in the interval |"
    )
    yield "|---|---|---|---|---|"
    for intervals in INTERVALS:
        by_run = remaining(runs, intervals)
        everything = list(chain.from_iterable(by_run))
        late = [[one.error <= _NEAR for one in run if one.done >= _THIRD] for run in by_run]
        near = list(chain.from_iterable(late))
        steady = [sum(run) >= 0.9 * len(run) for run in late if run]
        yield (
            f"| {intervals} | {median(one.error for one in everything):.3f} | {sum(near) / len(near):.2f}"
            f" | {sum(steady) / len(steady):.2f}"
            f" | {sum(one.inside for one in everything) / len(everything):.2f} |"
        )
