"""Noise and running medians of a short series. Pure, and without numpy: a sidecar has to stay small."""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

_TO_SIGMA: Final = 1.4826  # from the median absolute deviation to the standard deviation of a normal one
_MEDIAN_ERROR: Final = 1.2533  # standard error of a median, in standard errors of a mean


def block_medians(values: Sequence[float], most: int) -> list[float]:
    """Return at most so many medians of equally long blocks; the rest that fills no block counts as one."""
    length = max(1, -(-len(values) // most))
    if length == 1:
        return list(values)
    return [median(values[start : start + length]) for start in range(0, len(values), length)]


def running_medians(values: Sequence[float], window: int) -> list[float]:
    """Return the medians of all windows of that (odd) length; empty where there is none."""
    if len(values) < window:
        return []
    ordered = sorted(values[:window])
    middle = window // 2
    medians = [ordered[middle]]
    for old, new in zip(values, values[window:], strict=False):
        del ordered[bisect_left(ordered, old)]
        insort(ordered, new)
        medians.append(ordered[middle])
    return medians


def noise(values: Sequence[float]) -> float:
    """Return the standard deviation of the noise on a series, from the differences of neighbours."""
    steps = [after - before for before, after in pairwise(values)]
    if not steps:
        return 0.0
    middle = median(steps)
    return _TO_SIGMA * median(abs(step - middle) for step in steps) / math.sqrt(2)


def median_error(deviation: float, window: int) -> float:
    """Return the standard error of a median of so many values with that standard deviation."""
    return _MEDIAN_ERROR * deviation / math.sqrt(window)
