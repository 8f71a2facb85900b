"""Runs every detector over every recorded run, once per number of intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from curves import Run
from detectors import WITH_TOTAL, WITHOUT_TOTAL, Maker
from replay import replay
from scores import Verdicts
from truth import Truth, truth

from specon_sidecar.classify.horizon import outlook

INTERVALS: Final = (25, 50, 200)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """An estimate of the remaining time: how much of the run was done, and its error, as ratios."""

    done: float
    error: float
    """Of the estimate, relative to the time that was left."""
    inside: bool
    """Whether the truth was inside the interval of the estimate."""


def evaluate(runs: Sequence[Run], intervals: int) -> dict[str, list[Verdicts]]:
    """Return the verdicts of each detector on each run."""
    found: dict[str, list[Verdicts]] = {}
    truths = [truth(run) for run in runs]
    for run, hindsight in zip(runs, truths, strict=True):
        for makers, known in ((WITH_TOTAL, True), (WITHOUT_TOTAL, False)):
            for name, verdicts in _verdicts(run, hindsight, makers, intervals, total_known=known):
                found.setdefault(name, []).append(verdicts)
    return found


def _verdicts(
    run: Run, hindsight: Truth, makers: dict[str, Maker], intervals: int, *, total_known: bool
) -> Iterator[tuple[str, Verdicts]]:
    detectors = {name: make(run.goal) for name, make in makers.items()}
    said: dict[str, list[bool]] = {name: [] for name in makers}
    reports = []
    for view in replay(run, intervals, total_known=total_known):
        reports.append(view.report)
        for name, detector in detectors.items():
            said[name].append(detector(view))
    for name, converged in said.items():
        yield name, Verdicts(truth=hindsight, reports=tuple(reports), converged=tuple(converged))


def calibration(runs: Sequence[Run], intervals: int, limit: float) -> list[tuple[float, bool]]:
    """Return by interval the confidence that no more than `limit` is to come, and whether it was so."""
    pairs = []
    for run in runs:
        hindsight = truth(run)
        for view in replay(run, intervals, total_known=True):
            values = view.curve.values
            seen = outlook(values if run.goal == "min" else [-value for value in values], view.curve.done)
            if seen is not None:
                pairs.append((seen.confidence(limit), hindsight.converged(view.report, limit)))
    return pairs


def remaining(runs: Sequence[Run], intervals: int) -> list[list[Timed]]:
    """Return, by run, how good the estimates of the remaining time were."""
    return [_remaining(run, intervals) for run in runs if len(run.values) == run.total]


def _remaining(run: Run, intervals: int) -> list[Timed]:
    end, timed = run.seconds[-1], []
    for view in replay(run, intervals, total_known=True):
        estimate = view.curve.remaining_seconds()
        left = end - run.seconds[view.report]
        if estimate is not None and left > 0:
            error = abs(estimate.value - left)
            timed.append(Timed(done=view.now / end, error=error / left, inside=error <= estimate.uncertainty))
    return timed
