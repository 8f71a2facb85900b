"""How long a job still runs: the remaining steps by the pace of late. Pure."""

import math
from collections import deque
from itertools import pairwise
from typing import Annotated, Final

from msgspec import Meta, Struct

_MARKS: Final = 31  # ends of the intervals over which the pace is measured
_LEAST_SPREAD: Final = 0.04  # of the remaining time: no clock and no pace is steadier
_SIGMAS: Final = (
    4.0  # half-width of an interval, in standard errors: the errors of neighbouring parts go together
)


class Estimate(Struct, frozen=True, kw_only=True):
    """A value that was estimated on the way, with the half-width of its uncertainty, in the same unit."""

    value: Annotated[float, Meta(ge=0)]
    uncertainty: Annotated[float, Meta(ge=0)]


class Pace:
    """How fast a position in the run (steps or epochs) moved over the last intervals."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque(maxlen=_MARKS)

    def mark(self, now: float, position: float) -> None:
        """Note the position at the last sample of an interval; one that did not move is not noted."""
        if self._marks:
            before, last = self._marks[-1]
            if position < last:
                self._marks.clear()  # a run that went back: its pace across the gap means nothing
            elif now <= before or position == last:
                return
        self._marks.append((now, position))

    def rest(self, seconds: float) -> None:
        """Leave out so many seconds after all that was noted."""
        self._marks = deque(((at + seconds, position) for at, position in self._marks), maxlen=_MARKS)

    def remaining(self, position: float, total: float) -> Estimate | None:
        """Return the seconds from `position` to `total`; None while there is no pace."""
        if len(self._marks) < 2:  # noqa: PLR2004 - a pace is between two marks
            return None
        (begin, first), (end, last) = self._marks[0], self._marks[-1]
        seconds = (end - begin) / (last - first)
        left = max(0.0, total - position)
        # Parts with many steps tell more of the pace, and neighbouring parts are slow or fast together.
        squares = sum(
            (after - before - seconds * (there - here)) ** 2
            for (before, here), (after, there) in pairwise(self._marks)
        )
        count = len(self._marks) - 1
        deviation = math.sqrt(squares / count) * count / (last - first)
        spread = max(_LEAST_SPREAD, _SIGMAS * deviation / seconds / math.sqrt(count))
        return Estimate(value=left * seconds, uncertainty=left * seconds * min(1.0, spread))
