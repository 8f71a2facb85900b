"""The scalars of TensorBoard events -> samples of the one to follow. Pure.

A tag is named with its split: `train/epoch_loss` is the tag `epoch_loss` of the directory `train`. Any other
directory is a run of its own, and the run that began last is followed.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from specon_sidecar.event_files.event_line import EventLine, decode
from specon_sidecar.formats.detect import ENOUGH, Evidence
from specon_sidecar.formats.metric_choice import MetricCandidate, MetricChoice
from specon_sidecar.formats.metric_names import Goal
from specon_sidecar.formats.name_words import VALIDATION, words
from specon_sidecar.formats.number import to_float
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.series import Series
from specon_sidecar.formats.surroundings import Total
from specon_sidecar.formats.wall_time import wall_time

FORMAT: Final = "event-files"
# As in the detection of text, a tag is chosen when one has `ENOUGH` samples at so many steps.
_PLACES: Final = 2
_HELD: Final = 4096  # scalars kept until then
_COUNTED_STEPS: Final = 10_000
_LIKELIEST: Final = 3
_REMEMBERED: Final = 4096  # tags, which come from the files, so the memory of them must be bounded
_SPLITS: Final = VALIDATION | {"train", "training"}

_Scalar = tuple[int, MetricCandidate, Sample]


class _Seen:
    """Observations of one tag."""

    def __init__(self, first: Sample) -> None:
        self.samples = 0
        self.steps: set[int] = set()
        self._first = self._last = first

    def add(self, sample: Sample) -> None:
        self.samples += 1
        self._last = sample
        if sample.step is not None and len(self.steps) < _COUNTED_STEPS:
            self.steps.add(sample.step)

    def report(self, events: int) -> Evidence:
        share = min(1.0, self.samples / max(1, events))
        return Evidence(FORMAT, self.samples, len(self.steps), self._first, self._last, share)


class EventReader:
    """Reader (`formats.table.Reader`) of the lines of `event_line`.

    The tag is chosen by name, as in text logs (`MetricChoice`), among all that came until one had `ENOUGH`
    samples. A configured metric is compared with the whole name, then with the tag alone, where the split of
    the training wins.
    """

    def __init__(self, options: FormatOptions) -> None:
        """Raise ValueError for an unusable metric."""
        self._choice: Final = MetricChoice(options.metric)
        self._options: Final = options
        self._series = Series()
        self._runs: dict[str, int] = {}
        self._run = 0
        self._tags: dict[tuple[str, str], tuple[str, MetricCandidate | None]] = {}
        self._held: list[_Scalar] = []
        self._seen: dict[str, _Seen] = {}
        self._decided = False
        self._events = 0

    @property
    def chosen(self) -> str | None:
        """The format, as soon as a tag was chosen."""
        return FORMAT if self._decided else None

    @property
    def goal(self) -> Goal | None:
        """Whether less or more is better, as far as the tag says it."""
        return self._options.goal or self._choice.goal

    @property
    def unclassifiable(self) -> str | None:
        """Why the events cannot be judged, or None where they can."""
        return self._choice.verdict

    @property
    def restarts(self) -> int:
        """How often the step went back: resumes and new runs."""
        return self._series.restarts

    @property
    def tags(self) -> list[str]:
        """The names of all scalars, in the order in which they were seen."""
        return list(dict.fromkeys(name for name, _ in self._tags.values()))

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The tags found that may be the metric, those with the most samples first."""
        seen = sorted(self._seen.values(), key=lambda one: -one.samples)
        return tuple(one.report(self._events) for one in seen[:_LIKELIEST])

    @property
    def total(self) -> Total | None:
        """How long the training is: event files do not say it."""
        return None

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples of these events. No bytes whatever make it raise."""
        scalars = [scalar for line in lines for scalar in self._scalars(line)]
        for _, candidate, sample in scalars:
            seen = self._seen.get(candidate.name)
            if seen is None and len(self._seen) < _REMEMBERED:
                seen = self._seen[candidate.name] = _Seen(sample)
            if seen is not None:
                seen.add(sample)
        if self._decided:
            return self._pick(scalars)
        self._held += scalars[: _HELD - len(self._held)]
        if any(one.samples >= ENOUGH and len(one.steps) >= _PLACES for one in self._seen.values()):
            return self._decide()
        return []

    def finish(self) -> list[Sample]:
        """Decide with what there is, for no more comes."""
        self._series.forget_place()
        if self._decided or not any(one.samples >= ENOUGH for one in self._seen.values()):
            return []
        return self._decide()

    def _decide(self) -> list[Sample]:
        self._decided = True
        held, self._held = self._held, []
        # First all that there is to choose from: events hold one scalar each, the best not always first.
        self._choice.pick(list({one.name: (one, 0.0) for _, one, _ in held}.values()))
        return self._pick(held)

    def _pick(self, scalars: list[_Scalar]) -> list[Sample]:
        samples = []
        for group in _by_step(scalars):
            run = max(run for run, _, _ in group)
            if run < self._run:
                continue
            self._run = run
            newest = [(candidate, sample) for its, candidate, sample in group if its == run]
            picked = self._choice.pick([(candidate, sample.value) for candidate, sample in newest])
            if picked is None:
                continue
            last = [sample for _, sample in newest if sample.name == picked[0]][-1]
            if self._series.admit(last):
                samples.append(last)
        return samples

    def _scalars(self, line: bytes) -> Iterator[_Scalar]:
        event = decode(line)
        if event is None:
            return
        self._events += 1
        for tag, raw in event.values.items():
            value = to_float(raw)
            known = self._tags.get((event.run, tag)) or self._know(event, tag)
            if value is None or known[1] is None:
                continue
            step = event.step if event.step >= 0 else None
            sample = Sample(name=known[1].name, value=value, step=step, time=wall_time(event.time))
            yield self._runs.get(run_of(event.run, tag), 0), known[1], sample

    def _know(self, event: EventLine, tag: str) -> tuple[str, MetricCandidate | None]:
        run = run_of(event.run, tag)
        name = f"{event.run.removeprefix(run).strip('/')}/{tag}".lstrip("/")
        known = name, self._candidate(f"{run}/{name}", name, tag)
        if len(self._runs) < _REMEMBERED:
            self._runs.setdefault(run, len(self._runs))
        if len(self._tags) < _REMEMBERED:
            self._tags[event.run, tag] = known
        return known

    def _candidate(self, whole: str, name: str, tag: str) -> MetricCandidate | None:
        validation = not VALIDATION.isdisjoint(words(name))
        for loose, text in enumerate(dict.fromkeys((name, whole, tag))):
            if loose and self._options.metric is None:
                break
            found = self._choice.candidate(text)
            if found is not None:
                rank = found.rank + (1 + validation if loose else 0)
                return MetricCandidate(rank, name, found.sides)
        return None


def run_of(directory: str, tag: str = "") -> str:
    """Return the directory without a last part that only says which split of the data it is."""
    above, _, last = directory.rpartition("/")
    left = {word for word in words(last) if not word.isdigit()} - set(words(tag))
    return above if left and left <= _SPLITS else directory


def _by_step(scalars: list[_Scalar]) -> Iterator[list[_Scalar]]:
    """Yield what belongs to one step: a scalar of it that is not followed is no missed one."""
    group: list[_Scalar] = []
    for scalar in scalars:
        if group and (scalar[2].step != group[-1][2].step or scalar[0] != group[-1][0]):
            yield group
            group = []
        group.append(scalar)
    if group:
        yield group
