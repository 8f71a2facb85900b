"""Does a job overfit? Its values of validation say so. Pure.

A flag beside the category, which it never changes: the training itself may gain for long.
"""

from itertools import pairwise
from statistics import fmean
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_sidecar.classify.smoothing import median_error, noise, running_medians

_KEPT: Final = 128  # values of the whole run; neighbours are merged when there are more
_LEAST: Final = 6  # fewer say nothing about a trend
_SMOOTHED: Final = 8  # windows are about this part of the history, and three values at least
_RISEN: Final = 0.1  # of the gain: less is no loss
_CHANCE: Final = 5.0  # standard errors of a smoothed value: less is chance


class Validation(Struct, frozen=True, kw_only=True):
    """The values of validation so far, as a sidecar writes them down for its successor."""

    name: str | None = None
    """The name that they were printed under; another one begins again."""
    values: tuple[float, ...] = ()
    """Oldest first, each the mean of `stride` values."""
    stride: Annotated[int, Meta(ge=1)] = 1
    pending: tuple[float, ...] = ()
    """The last values, fewer than `stride`."""


def extend(known: Validation, name: str, value: float) -> Validation:
    """Return the record after one more finite value of that name."""
    if known.name != name:
        known = Validation(name=name)
    pending = (*known.pending, value)
    if len(pending) < known.stride:
        return msgspec.structs.replace(known, pending=pending)
    values, stride = (*known.values, fmean(pending)), known.stride
    if len(values) >= _KEPT:
        values = tuple(fmean(pair) for pair in list(pairwise(values))[::2])
        stride *= 2
    return Validation(name=name, values=values, stride=stride)


def overfits(known: Validation, *, more_is_better: bool) -> bool:
    """Whether the best smoothed value is older than half of the run, and lost again since then.

    Lost are more than 10 % of the gain, from the first value to the best one, and more than noise explains.
    The run is counted in values of validation, which come at equal distances.
    """
    values = [-value for value in known.values] if more_is_better else list(known.values)
    if len(values) < _LEAST:
        return False
    window = max(3, len(values) // _SMOOTHED // 2 * 2 + 1)
    smooth = running_medians(values, window)
    best = min(smooth)
    # Of equal ones the last.
    age = smooth[::-1].index(best) + window // 2
    gain, lost = values[0] - best, smooth[-1] - best
    if gain <= 0 or 2 * age <= len(values) - 1:
        return False
    error = median_error(noise(values), window)
    return lost > max(_RISEN * gain, _CHANCE * error)
