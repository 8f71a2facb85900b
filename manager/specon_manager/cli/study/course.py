"""How a job's category went with its curve: samples in, one judgement per interval. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Final

from msgspec import Struct

from specon_sidecar.classify import Category, ClassifierSettings, Judgement
from specon_sidecar.counts import format_count
from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.metric_names import Goal
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.surroundings import Total
from specon_sidecar.observing.observer import Observer

MOST_SAMPLES: Final = 16_384
_MOST_POINTS: Final = 4096
_MOST_INTERVALS: Final = 1_000_000


class Mark(Struct, frozen=True):
    """A place of the run and the verdict on the job there."""

    step: int | None
    epoch: float | None
    value: float | None
    """None where it is not finite."""
    category: Category


class KeptSamples:
    """All samples of a log in bounded memory, in order: neighbours are merged when there are too many."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._most = most
        self._kept: list[Sample] = []
        self._pending: list[Sample] = []
        self._stride = 1
        self.count = 0
        self.first: Sample | None = None
        self.last: Sample | None = None
        self.timed = True
        """Whether each sample had its time, and none went back."""

    def extend(self, samples: Sequence[Sample]) -> None:
        """Take the next samples."""
        if not samples:
            return
        self.count += len(samples)
        self.first = self.first or samples[0]
        if self.timed:
            before = self.last or samples[0]
            for sample in samples:
                if sample.time is None or before.time is None or sample.time < before.time:
                    self.timed = False
                    break
                before = sample
        self.last = samples[-1]
        if self._stride == 1 and len(self._kept) + len(samples) < self._most:
            self._kept += samples
            return
        for sample in samples:
            self._keep(sample)

    def all(self) -> list[Sample]:
        """Return the kept samples."""
        return [*self._kept, *([_merge(self._pending)] if self._pending else [])]

    def _keep(self, sample: Sample) -> None:
        if self._stride == 1:
            self._kept.append(sample)
        else:
            self._pending.append(sample)
            if len(self._pending) < self._stride:
                return
            self._kept.append(_merge(self._pending))
            self._pending.clear()
        if len(self._kept) >= self._most:
            self._kept = [_merge(self._kept[at : at + 2]) for at in range(0, len(self._kept), 2)]
            self._stride *= 2


class Course:
    """Judges interval by interval as a sidecar does, and remembers when the category changed."""

    def __init__(self, settings: ClassifierSettings, format_name: str | None) -> None:
        self._settings = settings
        self._feed = _Feed(format_name, settings.goal)
        self._observer = Observer(settings, self._feed, 0.0)
        self._now = 0.0
        self._last: Sample | None = None
        self.points: list[Mark] = []
        """One per interval that had a sample; of a very long run every second, fourth ... of them."""
        self._skip = 1
        self.intervals = 0
        self.first: Mark | None = None
        self.last: Mark | None = None
        self.watching_at: Mark | None = None
        self.converged_at: Mark | None = None
        self.reopened = 0
        """How often a converged job was found to grow again."""
        self.changes: list[Mark] = []
        """The first and the last of the changes of category, in order."""

    @property
    def judgement(self) -> Judgement:
        """The judgement after the last interval."""
        return self._observer.judgement

    def close_interval(self, samples: Sequence[Sample]) -> Judgement:
        """Judge an interval in which these samples came, evenly spread."""
        before = self.judgement.category
        for number, sample in enumerate(samples, 1):
            self._feed.samples = [sample]
            at = self._now + self._settings.interval * number / len(samples)
            self._observer.take((b".",), at)
        self._now += self._settings.interval
        self.intervals += 1
        judgement = self._observer.tick(self._now)
        self._last = samples[-1] if samples else self._last
        if self._last is None:
            return judgement
        values = [sample.value for sample in samples if math.isfinite(sample.value)]
        mark = Mark(self._last.step, self._last.epoch, fmean(values) if values else None, judgement.category)
        if samples:
            self._keep(mark)
        self._note(mark, before)
        return judgement

    def _keep(self, mark: Mark) -> None:
        self.first = self.first or mark
        self.last = mark
        if self.intervals % self._skip == 0 or not self.points:
            self.points.append(mark)
        if len(self.points) >= _MOST_POINTS:
            self.points = self.points[::2]
            self._skip *= 2

    def _note(self, mark: Mark, before: Category) -> None:
        if mark.category is before:
            return
        if len(self.changes) < _MOST_POINTS:
            self.changes.append(mark)
        else:
            self.changes[-1] = mark
        if mark.category is Category.WATCHING:
            self.watching_at = self.watching_at or mark
        elif mark.category is Category.CONVERGED:
            self.converged_at = self.converged_at or mark
        if before is Category.CONVERGED and mark.category is Category.PROGRESSING:
            self.reopened += 1


def divide_by_count(samples: Sequence[Sample], intervals: int) -> Iterator[Sequence[Sample]]:
    """Divide samples evenly into so many intervals, or fewer where there are fewer samples."""
    parts = min(intervals, len(samples))
    for number in range(parts):
        yield samples[len(samples) * number // parts : len(samples) * (number + 1) // parts]


def divide_by_time(samples: Sequence[Sample], interval: float) -> Iterator[Sequence[Sample]]:
    """Divide samples by their printed times; raises ValueError where that gives too many intervals."""
    times = [sample.time for sample in samples if sample.time is not None]
    if not times:
        return
    count = (times[-1] - times[0]) / interval
    if count > _MOST_INTERVALS:
        many = format_count(math.floor(count), "interval")
        raise ValueError(f"{interval:g} s makes {many}; the most is {_MOST_INTERVALS}")
    end, group = times[0] + interval, list[Sample]()
    for sample, time in zip(samples, times, strict=False):
        while time >= end:
            yield group
            group, end = [], end + interval
        group.append(sample)
    yield group


def place(mark: Mark | Sample) -> str:
    """Return where in the run something is, for people."""
    parts = [] if mark.step is None else [f"step {mark.step}"]
    parts += [] if mark.epoch is None else [f"epoch {mark.epoch:g}"]
    return ", ".join(parts) or "no step printed"


class _Feed:
    """The reader of an observer that is fed samples instead of lines."""

    unclassifiable: str | None = None
    evidence: tuple[Evidence, ...] = ()
    restarts: int = 0
    total: Total | None = None

    def __init__(self, format_name: str | None, goal: Goal | None) -> None:
        self.chosen = format_name
        self.goal = goal
        self.samples: list[Sample] = []

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        del lines
        samples, self.samples = self.samples, []
        return samples

    def finish(self) -> list[Sample]:
        return []


def _merge(samples: Sequence[Sample]) -> Sample:
    last = samples[-1]
    mean = sum([sample.value for sample in samples]) / len(samples)
    if not math.isfinite(mean):
        values = [sample.value for sample in samples if math.isfinite(sample.value)]
        if not values:
            return last
        mean = fmean(values)
    return Sample(last.name, mean, last.step, last.epoch, last.total_steps, last.time, last.total_epochs)
