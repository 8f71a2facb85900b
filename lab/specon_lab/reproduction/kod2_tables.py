"""KOD2's figures from the measurements: each table of requests beside its baseline, then over the tables."""

import math
from collections.abc import Callable, Sequence

from specon_lab.reproduction.experiment import Collected, Measures
from specon_lab.reproduction.kod2_runs import GRID, MOMENTS, BatchCell
from specon_lab.results.statistics import Interval, interval

BatchComparison = Callable[[Measures, Measures], float | None]
"""Of a run of KOD2 and the baseline's of the same seed; None where it has no meaning."""


def reduction(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent the average completion time is shorter."""
    return 100 * (1 - run["jct"] / baseline["jct"]) if baseline["jct"] else None


def reduction_of_killed(run: Measures, baseline: Measures) -> float | None:
    """Return the same where a job of the baseline counts until it was put back for the first time only."""
    return 100 * (1 - run["jct"] / baseline["killed jct"]) if baseline["killed jct"] else None


def minutes_later(run: Measures, baseline: Measures) -> float | None:
    """Return how many minutes after KOD2 the baseline is through."""
    return (baseline["makespan"] - run["makespan"]) / 60


def held_increase(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent more cores are held by what trains, until KOD2 is through."""
    return _increase(run, baseline, "held")


def used_increase(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent more processor time is used until KOD2 is through."""
    return _increase(run, baseline, "used")


def computed_increase(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent more the workers compute until KOD2 is through."""
    return _increase(run, baseline, "computed")


def _increase(run: Measures, baseline: Measures, what: str) -> float | None:
    until = run["makespan"]
    ours, theirs = _until(run, what, until), _until(baseline, what, until)
    return 100 * (ours / theirs - 1) if ours is not None and theirs else None


def _until(run: Measures, what: str, seconds: float) -> float | None:
    """Return the core seconds up to a moment, linearly between those that were kept; None beyond the last."""
    place = min(seconds, run["makespan"]) / GRID
    below, above = math.floor(place), math.ceil(place)
    if above > MOMENTS or (above and f"{what} {above}" not in run):
        return None
    before, after = run.get(f"{what} {below}", 0.0), run.get(f"{what} {above}", 0.0)
    return before + (place - below) * (after - before)


def mean_over_seeds(
    collected: Collected,
    cell: BatchCell,
    operator: str,
    figure: BatchComparison,
    baseline: str = "tf-operator",
) -> Interval | None:
    """Return a figure's mean over the seeds with its interval; None where runs of it are missing."""
    pairs = zip(
        collected.get(cell.key(operator), ()),
        collected.get(cell.key(baseline), ()),
        strict=False,  # a set of runs that was cut short
    )
    values = (figure(run, other) for run, other in pairs)
    return interval([value for value in values if value is not None])


def average(collected: Collected, cell: BatchCell, operator: str, name: str) -> Interval | None:
    """Return a measure's mean over the seeds with its interval; None where there is no run."""
    return interval([run[name] for run in collected.get(cell.key(operator), ())])


def mean_of(figure: Interval | None) -> float | None:
    """Return the mean, None where there is none."""
    return None if figure is None else figure.mean


def spread_of(figure: Interval | None) -> float | None:
    """Return half the width of the interval, None where one run shows no spread."""
    return None if figure is None else figure.half_width


def largest(figures: Sequence[Interval | None]) -> Interval | None:
    """Return the figure with the largest mean, None where all are missing."""
    return max((figure for figure in figures if figure is not None), key=lambda f: f.mean, default=None)
