"""The samples of one metric as a bounded curve: interval values, step rate, what is left to come.

Pure: the caller passes the time. Memory does not grow with the length of the run.
"""

import math
from collections.abc import Iterable
from statistics import fmean, pstdev
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_sidecar.classify import Interval
from specon_sidecar.sample import Sample

_POINTS: Final = 256  # kept points of the whole run; neighbours are merged when there are twice as many
_RATES: Final = 30  # intervals over which the step rate is measured


class Estimate(Struct, frozen=True, kw_only=True):
    """A value that was estimated on the way, with the half-width of its uncertainty, in the same unit."""

    value: Annotated[float, Meta(ge=0)]
    uncertainty: Annotated[float, Meta(ge=0)]


class Point(Struct, frozen=True):
    """One kept point: the step (or the count of samples where no step is printed) and the mean value."""

    step: float
    value: float


class CurveState(Struct, frozen=True, kw_only=True):
    """What a sidecar writes down so that its successor goes on with the same curve."""

    points: tuple[Point, ...] = ()
    stride: int = 1
    count: int = 0
    step: int | None = None
    total_steps: int | None = None


class Curve:
    """A bounded curve that is fed samples and asked, once per interval, what the interval showed."""

    def __init__(self, state: CurveState | None = None, *, last_value: bool = False) -> None:
        """Begin empty or where `state` left off; `last_value` judges by last samples, not means."""
        state = state or CurveState()
        self._last_value = last_value
        self._points = list(state.points)
        self._stride = state.stride
        self._pending: list[Point] = []
        self._sum = 0.0
        self._finite = 0
        self._samples = 0
        self._rates: list[float] = []
        self._interval_from: tuple[float, int] | None = None
        self.count = state.count
        self.step = state.step
        self.total_steps = state.total_steps
        self.last: Sample | None = None
        self.last_at: float | None = None
        self.nonfinite_run = 0
        self.longest_gap = 0.0

    def add(self, sample: Sample, now: float) -> None:
        """Take one sample that arrived at `now`, seconds on a clock that never goes back."""
        self.count += 1
        self._samples += 1
        if self.last_at is not None:
            self.longest_gap = max(self.longest_gap, now - self.last_at)
        self.last, self.last_at = sample, now
        if sample.step is not None:
            self.step = sample.step
        if sample.total_steps is not None:
            self.total_steps = sample.total_steps
        value = sample.value
        if not math.isfinite(value):
            self.nonfinite_run += 1
            return
        self.nonfinite_run = 0
        self._sum = value if self._last_value else self._sum + value
        self._finite = 1 if self._last_value else self._finite + 1
        self._keep(Point(self.count if sample.step is None else sample.step, value))

    def extend(self, samples: Iterable[Sample], now: float) -> None:
        """Take several samples that arrived together."""
        for sample in samples:
            self.add(sample, now)

    def close_interval(self, now: float) -> Interval:
        """End the current interval at `now` and return what it showed."""
        interval = Interval(
            value=self._sum / self._finite if self._finite else None,
            samples=self._samples,
            nonfinite_run=self.nonfinite_run,
            silence=0.0 if self.last_at is None else now - self.last_at,
            longest_gap=self.longest_gap,
        )
        self._sum, self._finite, self._samples = 0.0, 0, 0
        self._measure_rate()
        return interval

    def remaining_seconds(self) -> Estimate | None:
        """Return how long the job runs on at its recent speed; None where no total or speed is known."""
        if self.step is None or self.total_steps is None or not self._rates:
            return None
        rate = fmean(self._rates)
        left = max(0, self.total_steps - self.step) / rate
        return Estimate(value=left, uncertainty=left * min(1.0, pstdev(self._rates) / rate))

    def expected_gain(self, gain: float | None, interval: float) -> Estimate | None:
        """Return the gain that the rest of the run may still bring, in the unit of `gain`.

        `gain` is the gain of the last interval and `interval` its length in seconds. A curve that flattens
        brings less than `gain` in each interval left (the upper end) and may bring nothing (the lower end).
        """
        remaining = self.remaining_seconds()
        if gain is None or remaining is None:
            return None
        half = gain * remaining.value / interval / 2
        return Estimate(value=half, uncertainty=half)

    @property
    def points(self) -> tuple[Point, ...]:
        """The whole run in at most a few hundred points, oldest first."""
        return tuple(self._points)

    @property
    def state(self) -> CurveState:
        """What a successor needs to go on."""
        return CurveState(
            points=self.points,
            stride=self._stride,
            count=self.count,
            step=self.step,
            total_steps=self.total_steps,
        )

    def _keep(self, point: Point) -> None:
        self._pending.append(point)
        if len(self._pending) < self._stride:
            return
        self._points.append(_merge(self._pending))
        self._pending.clear()
        if len(self._points) >= 2 * _POINTS:
            self._points = [_merge(self._points[i : i + 2]) for i in range(0, len(self._points), 2)]
            self._stride *= 2

    def _measure_rate(self) -> None:
        """Add the steps per second between the last samples of two intervals, unless the steps went back."""
        if self.last_at is None or self.step is None:
            return
        before, self._interval_from = self._interval_from, (self.last_at, self.step)
        if before is not None and self.step > before[1] and self.last_at > before[0]:
            self._rates.append((self.step - before[1]) / (self.last_at - before[0]))
            del self._rates[:-_RATES]


def _merge(points: list[Point]) -> Point:
    return Point(points[-1].step, fmean(point.value for point in points))
