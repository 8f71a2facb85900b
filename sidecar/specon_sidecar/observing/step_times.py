"""When steps came: how far apart they usually are, and for how long there was none. Pure."""

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Final

_REMEMBERED: Final = 64
_FEWEST: Final = 5  # gaps; the first steps of a run are slow (compilation, caches) and not typical of it
_TOGETHER: Final = 0.5  # seconds: what comes in one go, a flushed buffer for instance, is one arrival


class StepTimes:
    """The latest gaps between steps that the log names, in time that the trainer could train."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=_REMEMBERED)
        self.last_at: float | None = None
        """When the latest step came; what the trainer was kept from training since then is not counted."""
        self._counted_from: float | None = None

    @property
    def gaps(self) -> tuple[float, ...]:
        """The latest gaps, seconds, oldest first: what a successor goes on with."""
        return tuple(self._gaps)

    @property
    def usual(self) -> float | None:
        """The usual time between two steps, seconds: their median; None while too few are known."""
        return median(self._gaps) if len(self._gaps) >= _FEWEST else None

    @property
    def longest(self) -> float:
        """The longest of the latest gaps, seconds: what an evaluation or a checkpoint takes, perhaps."""
        return max(self._gaps, default=0.0)

    def saw(self, now: float) -> None:
        """Take note of steps that came at `now`, seconds on a clock that never goes back."""
        if self._counted_from is None:
            self._counted_from = now
        elif now - self._counted_from >= _TOGETHER:
            self._gaps.append(now - self._counted_from)
            self._counted_from = now
        self.last_at = now

    def rest(self, now: float, seconds: float) -> None:
        """Leave so many seconds before `now` out, in which nobody could train."""
        if self.last_at is not None:
            self.last_at = min(now, self.last_at + seconds)
        if self._counted_from is not None:
            self._counted_from = min(now, self._counted_from + seconds)

    def go_on(self, gaps: Iterable[float], last_at: float | None) -> None:
        """Take up what a predecessor in the same incarnation knew."""
        self._gaps.extend(gaps)
        self.last_at = self._counted_from = last_at
