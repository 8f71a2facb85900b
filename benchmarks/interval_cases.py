"""Intervals beside what became of them, and by how much they are too narrow.

Split conformal prediction: on cases that nothing is judged on, each needs some factor to contain its truth,
and that which 90 of 100 need no more than is the factor of new ones (Romano, Patterson and Candes, 2019,
Conformalized Quantile Regression). It stretches both ends, of the time from a Tick before the present on: so
an interval that is a moment becomes longer too, as the Ticks of a world fall at other moments than the
manager's.
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

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

    At most 1 where they do so as they are. Raises ValueError for fewer than `FEWEST_CASES`.
    """
    if len(cases) < FEWEST_CASES:
        message = f"cases: {len(cases)} are too few, at least {FEWEST_CASES} are needed"
        raise ValueError(message)
    rank = math.ceil(SHARE * (len(cases) + 1))
    return sorted(case.needed for case in cases)[rank - 1]
