"""The samples of one metric as a bounded curve: interval values, step rate, remaining gain.

Pure: the caller passes the time. Memory does not grow with the length of the run.
"""

from collections.abc import Iterable
from statistics import fmean
from typing import Final

from msgspec import Struct

from specon_sidecar.classify.judgement import Interval
from specon_sidecar.classify.remaining import Estimate as Estimate  # noqa: PLC0414 - part of what a curve tells
from specon_sidecar.classify.remaining import Pace
from specon_sidecar.formats.sample import Sample, is_usable

_POINTS: Final = 256  # kept points of the whole run; neighbours are merged when there are twice as many


class Point(Struct, frozen=True):
    """One kept point: the step (or the count of samples where no step is printed) and the mean value."""

    step: float
    value: float


class CurveState(Struct, frozen=True, kw_only=True):
    """What a sidecar writes down so that its successor continues with the same curve."""

    points: tuple[Point, ...] = ()
    stride: int = 1
    count: int = 0
    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    total_epochs: int | None = None


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
        self._pace = Pace()
        self._in_epochs = False
        self.count = state.count
        self.step = state.step
        self.total_steps = state.total_steps
        self.epoch = state.epoch
        self.total_epochs = state.total_epochs
        self._first: Sample | None = None
        self.runs = 1
        """How many trainings the log holds, as far as was seen; the curve is that of the last one."""
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
        self._place(sample)
        value = sample.value
        if not is_usable(value):
            self.nonfinite_run += 1
            return
        self.nonfinite_run = 0
        self._sum = value if self._last_value else self._sum + value
        self._finite = 1 if self._last_value else self._finite + 1
        self._keep(Point(self.count if sample.step is None else sample.step, value))

    def move(self, sample: Sample, now: float) -> None:
        """Take the place of a sample without a value: the training is further, and nothing else is known."""
        if self.last_at is not None:
            self.longest_gap = max(self.longest_gap, now - self.last_at)
        self.last_at = now
        self._place(sample)

    def extend(self, samples: Iterable[Sample], now: float) -> None:
        """Take several samples that arrived together."""
        for sample in samples:
            self.add(sample, now)

    def rest(self, now: float, seconds: float) -> bool:
        """Leave so many seconds before `now` out of every reckoning, in which nobody could train.

        Returns whether the interval shows nothing else.
        """
        if self.last_at is not None and self.last_at <= now - seconds:
            self.last_at += seconds
            self._pace.rest(seconds)
        return not self._samples

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
        position, _ = self._position()
        if position is not None and self.last_at is not None:
            self._pace.mark(self.last_at, position)
        return interval

    def remaining_seconds(self) -> Estimate | None:
        """Return how long the job runs on at its recent speed; None where no total or speed is known."""
        position, total = self._position()
        return None if position is None or total is None else self._pace.remaining(position, total)

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
    def done(self) -> float | None:
        """The part of the run that is done, 0 to 1; None where the log prints no total."""
        position, total = self._position()
        return None if position is None or not total else min(1.0, max(0.0, position / total))

    @property
    def values(self) -> list[float]:
        """The values of the whole run, oldest first, in at most a few hundred equally long parts."""
        values = [point.value for point in self._points]
        # A last part that is not full yet counts once it is half full: it is news.
        if self._pending and 2 * len(self._pending) >= self._stride:
            values.append(fmean(point.value for point in self._pending))
        return values

    @property
    def points(self) -> tuple[Point, ...]:
        """The whole run in at most a few hundred points, oldest first."""
        return tuple(self._points)

    @property
    def state(self) -> CurveState:
        """What a successor needs to continue."""
        return CurveState(
            points=self.points,
            stride=self._stride,
            count=self.count,
            step=self.step,
            total_steps=self.total_steps,
            epoch=self.epoch,
            total_epochs=self.total_epochs,
        )

    def _place(self, sample: Sample) -> None:
        """Note where in the run the sample stands."""
        self._take_place(sample)
        if self._in_epochs != self._counts_epochs:
            self._pace = Pace()  # a pace in epochs is none in steps
            self._in_epochs = self._counts_epochs

    def _take_place(self, sample: Sample) -> None:
        """Take the place; a run that went back loses what it will do again."""
        if sample.total_steps is not None:
            self.total_steps = sample.total_steps
        if sample.total_epochs is not None:
            self.total_epochs = sample.total_epochs
        if self._begins_anew(sample):
            self._points.clear()
            self._pending.clear()
            self.step, self._first = None, None
            self.runs += 1
        if self._first is None:
            self._first = sample
        if sample.epoch is not None:
            self.epoch = sample.epoch
        if sample.step is None:
            return
        if sample.total_steps is None and self.total_steps is not None and sample.step > self.total_steps:
            self.total_steps = None  # it was that of an epoch
        # Without a total, steps may count within an epoch and go back each time.
        if self.step is not None and sample.step < self.step and self.total_steps is not None:
            self._points = [point for point in self._points if point.step < sample.step]
            self._pending.clear()
        self.step = sample.step

    def _begins_anew(self, sample: Sample) -> bool:
        """Whether another run begins in the same log: back to the first place, and the value to the first."""
        first = self._first
        if first is None or not self._points or self.last is None or not is_usable(sample.value):
            return False
        if sample.step is not None and first.step is not None:
            back = self.step is not None and first.step >= sample.step < self.step
            if sample.epoch is not None and first.epoch is not None:
                back = back and sample.epoch <= first.epoch
        elif sample.epoch is not None and first.epoch is not None:
            back = self.epoch is not None and first.epoch >= sample.epoch < self.epoch
        else:
            return False
        begun, ended = self._points[0].value, self._points[-1].value
        return back and abs(sample.value - begun) < abs(sample.value - ended)

    def _position(self) -> tuple[float | None, float | None]:
        """Return how far the run is and its end, in steps or else in epochs."""
        return (self.epoch, self.total_epochs) if self._counts_epochs else (self.step, self.total_steps)

    @property
    def _counts_epochs(self) -> bool:
        return self.total_steps is None and self.total_epochs is not None and self.epoch is not None

    def _keep(self, point: Point) -> None:
        self._pending.append(point)
        if len(self._pending) < self._stride:
            return
        self._points.append(_merge(self._pending))
        self._pending.clear()
        if len(self._points) >= 2 * _POINTS:
            self._points = [_merge(self._points[i : i + 2]) for i in range(0, len(self._points), 2)]
            self._stride *= 2


def _merge(points: list[Point]) -> Point:
    return Point(points[-1].step, fmean(point.value for point in points))
