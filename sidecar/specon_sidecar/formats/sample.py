"""One observation of the evaluation function, as a log printed it."""

from typing import Final

import msgspec

_MOST: Final = 1e300


class Sample(msgspec.Struct, frozen=True, gc=False):
    """A value of the followed metric and where in the training it was taken.

    `name` is the metric's name as printed. `value` may be NaN or infinite: a diverging run prints that, and
    it is news. `step` counts as the log counts, so it may start again in each epoch. `epoch` may be
    fractional. `total_steps` is set where the log prints it (`12/400`). `time` is wall time in seconds
    since 1970 (UTC), only where the log prints it without ambiguity; a stamp without a time zone is not
    one. `total_epochs` is set where the log prints it (`Epoch 3/40`): with an epoch and no total of steps it
    still tells how much is left.
    """

    name: str
    value: float
    step: int | None = None
    epoch: float | None = None
    total_steps: int | None = None
    time: float | None = None
    total_epochs: int | None = None


def is_usable(value: float) -> bool:
    """Whether a value is finite, and so far from the largest number that sums of many of them are too.

    What prints the largest number (`nan_to_num`, `float_info.max`) means infinity by it.
    """
    return abs(value) <= _MOST
