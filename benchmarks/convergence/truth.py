"""The truth, by hindsight: how much of the whole gain was still to come at each report of a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from curves import Run

_SMOOTHED = 20  # the smoothing window is this part of the run
_LEARNT = 5.0  # in standard errors of a smoothed value: less gain than this is chance
_LOST = 0.5  # a run that ends with so much of its gain lost has diverged


class Kind(StrEnum):
    """What a finished run turned out to be."""

    LEARNS = "learns"
    NEVER_LEARNS = "never learns"
    DIVERGES = "diverges"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Hindsight of one run."""

    kind: Kind
    to_come: tuple[float, ...]
    """By report: the share of the whole gain that was still to come; 1 where nothing was ever learnt."""

    def converged(self, report: int, delta: float) -> bool:
        """Whether all but `delta` of the gain was made at that report."""
        return self.kind is Kind.LEARNS and self.to_come[report] <= delta


def truth(run: Run) -> Truth:
    """Return the hindsight of a run: its best so far, of medians over a twentieth of the run."""
    values = [value if run.goal == "min" else -value for value in run.values]
    count = len(values)
    if not all(math.isfinite(value) for value in values[-3:]):
        return Truth(kind=Kind.DIVERGES, to_come=(1.0,) * count)
    values = [value if math.isfinite(value) else max(filter(math.isfinite, values)) for value in values]
    window = max(3, count // _SMOOTHED)
    smooth = [median(values[max(0, i - window // 2) : i + window // 2 + 1]) for i in range(count)]
    best, low = [], math.inf
    for value in smooth:
        low = min(low, value)
        best.append(low)
    gain = smooth[0] - low
    if gain <= _LEARNT * 1.25 * _noise(values) / math.sqrt(window):
        rising = smooth[-1] - low > abs(smooth[0]) * _LOST
        return Truth(kind=Kind.DIVERGES if rising else Kind.NEVER_LEARNS, to_come=(1.0,) * count)
    kind = Kind.DIVERGES if smooth[-1] - low > _LOST * gain else Kind.LEARNS
    return Truth(kind=kind, to_come=tuple((value - low) / gain for value in best))


def _noise(values: Sequence[float]) -> float:
    """Return the standard deviation of the noise in the last third, from differences of neighbours."""
    last = values[-max(10, len(values) // 3) :]
    steps = [after - before for before, after in pairwise(last)]
    middle = median(steps)
    return 1.4826 * median(abs(step - middle) for step in steps) / math.sqrt(2)
