"""How much wider an interval is told than the worlds make it, so that it holds as often as it says. Pure.

Split conformal prediction: on cases that nothing is judged on, each needs some factor to contain its truth,
and that which 90 of 100 need no more than is the factor of new ones (Romano, Patterson and Candes, 2019,
Conformalized Quantile Regression). One factor for both ends, of the time from a Tick before the present
on: so an interval that is a moment becomes one too, as the Ticks of a world fall at other moments than the
manager's.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from specon_lab.forecasts.starts import Start

IN_ORDER: Final = 1.0
"""The factor where jobs start in the order of their submission, from `benchmarks/starts.py` with
`CALIBRATE=1 POLICY=fifo`."""
TURNED: Final = 1.0
"""The factor where later jobs may go first, from the same with `POLICY=progress`."""
SHARE: Final = 0.9
"""Intervals that are to contain the truth."""
FEWEST_CASES: Final = 9
"""Below that no factor of theirs holds 90 of 100 new ones."""
SAME: Final = 1.0
"""What lies no more apart than this, seconds, is the same time."""


class Case(Struct, frozen=True, kw_only=True, gc=False):
    """An interval beside what became of it, seconds from the moment at which it was told."""

    earliest: float
    latest: float
    truth: float
    tick: float
    """Of the manager."""

    @property
    def inside(self) -> bool:
        """Whether the interval contains the truth."""
        return self.earliest - SAME <= self.truth <= self.latest + SAME

    @property
    def needed(self) -> float:
        """The least factor with which it does; below 1 where a narrower one would."""
        early = (self.earliest + self.tick) / (self.truth + SAME + self.tick)
        late = (self.truth - SAME + self.tick) / (self.latest + self.tick)
        return max(early, late)


def calibrate(cases: Sequence[Case]) -> float:
    """Return the factor with which intervals like those of the cases contain 90 of 100 truths.

    At least 1, as worlds that err less than they say may do so by luck. Raises ValueError for fewer than
    `FEWEST_CASES`.
    """
    if len(cases) < FEWEST_CASES:
        message = f"cases: {len(cases)} are too few, at least {FEWEST_CASES} are needed"
        raise ValueError(message)
    rank = math.ceil(SHARE * (len(cases) + 1))
    return max(1.0, sorted(case.needed for case in cases)[rank - 1])


def widen(start: Start, factor: float, tick: float) -> Start:
    """Return the start with its ends farther apart by `factor`, at least 1; the median stays where it is."""
    return msgspec.structs.replace(
        start,
        earliest=max(0.0, (start.earliest + tick) / factor - tick),
        latest=(start.latest + tick) * factor - tick,
        surely_after=max(0.0, (start.surely_after + tick) / factor - tick),
    )
