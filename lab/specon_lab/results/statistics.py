"""Means, percentiles and intervals of confidence: what a simulation's figures are condensed with."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

CONFIDENCE: Final = 0.95


class Interval(Struct, frozen=True, kw_only=True):
    """A mean over runs, and between which bounds the mean of very many such runs is expected."""

    mean: float
    low: float | None
    """None where a single run shows no spread."""
    high: float | None
    runs: int

    @property
    def half_width(self) -> float | None:
        """Half of high - low: the number behind the sign plus or minus."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


class Difference(Struct, frozen=True, kw_only=True):
    """How a figure differs from that of a baseline with the same seed; negative: it is smaller."""

    difference: Interval
    """In the figure's own unit."""
    percent: Interval | None
    """Of the baseline's figure; None where that is 0 in some run."""


def mean(values: Sequence[float]) -> float | None:
    """Return the arithmetic mean, None of nothing."""
    return math.fsum(values) / len(values) if values else None


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return a percentile (0 to 100) of values in ascending order, None of nothing.

    Between two values it interpolates linearly (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical
    Packages", The American Statistician 1996), as numpy does by default.
    """
    if not 0 <= percent <= 100:  # noqa: PLR2004  (the range of percent)
        raise ValueError(f"percent: {percent!r} is not between 0 and 100")
    if not ordered:
        return None
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    first, second = ordered[below], ordered[above]
    # Not first + (second - first) * share: that may pass `second` by a rounding error.
    share = place - below
    return first if first == second else first * (1 - share) + second * share


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the mean of independent runs with its interval by Student's t, None of no run.

    Raises ValueError for a confidence outside of 0 to 1, and ModuleNotFoundError where several runs ask for
    scipy and it is not installed.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence!r} is not between 0 and 1")
    average = mean(values)
    if average is None:
        return None
    count = len(values)
    if count == 1:
        return Interval(mean=average, low=None, high=None, runs=1)
    variance = math.fsum((value - average) ** 2 for value in values) / (count - 1)
    half = (
        student_quantile(count - 1, (1 + confidence) / 2) * math.sqrt(variance / count) if variance else 0.0
    )
    return Interval(mean=average, low=average - half, high=average + half, runs=count)


def change(
    values: Sequence[float], baseline: Sequence[float], confidence: float = CONFIDENCE
) -> Difference | None:
    """Return how the values differ from those of the baseline, pair by pair; None of no pair.

    What the runs of a pair have in common, their seed, drops out, so that few runs show small differences.
    Raises ValueError where the numbers of values differ, and what `interval` raises.
    """
    if len(values) != len(baseline):
        raise ValueError(f"baseline: {len(baseline)} values for {len(values)} runs")
    difference = interval([one - other for one, other in zip(values, baseline, strict=True)], confidence)
    if difference is None:
        return None
    percent = None
    if all(baseline):
        percents = [100 * (one - other) / other for one, other in zip(values, baseline, strict=True)]
        percent = interval(percents, confidence)
    return Difference(difference=difference, percent=percent)


def student_quantile(freedom: int, probability: float) -> float:
    """Return the quantile of Student's t distribution with so many degrees of freedom.

    Raises ModuleNotFoundError where scipy is not installed.
    """
    try:
        from scipy.special import stdtrit  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "intervals over several seeds need scipy: pip install 'specon[simulate]'"
        ) from error
    return float(stdtrit(freedom, probability))
