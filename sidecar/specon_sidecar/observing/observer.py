"""The heart of the sidecar: lines in, interval by interval a judgement, and the report.

Pure: the caller reads the log, tells the time and closes the intervals.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

import msgspec

from specon_sidecar.classify import Category, ClassifierSettings, Interval, Judgement
from specon_sidecar.classify.curve import Curve
from specon_sidecar.classify.horizon import judge_by_horizon
from specon_sidecar.classify.judgement import ASSUMED, begin, enter
from specon_sidecar.classify.overfitting import Validation, extend, overfits
from specon_sidecar.classify.specon import judge
from specon_sidecar.counts import format_count
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.metric_names import Goal
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.reader import Validating
from specon_sidecar.formats.sample import Sample, is_usable
from specon_sidecar.formats.table import Reader
from specon_sidecar.hook.messages import Progress
from specon_sidecar.observing.bounds import (
    MAX_TEXT,
    bound_amount,
    bound_estimate,
    bound_observation,
    bound_share,
    bound_step,
    whole_epoch,
)
from specon_sidecar.observing.reported import ReportReader
from specon_sidecar.observing.state import Kept, State
from specon_sidecar.observing.step_times import StepTimes
from specon_sidecar.wire import Checkpoint, Hang, Observation, Report, Share

_HOPELESS_LINES: Final = 1000  # so many lines without a single sample: nothing can be judged from this log
_HISTORY_SAMPLES: Final = 16  # the last ones of the history make its last value
_EXAMPLES: Final = 3
_START_SECONDS: Final = 10.0  # from the start of a process to its observer, at most
_EXAMPLE_BYTES: Final = 200
_UNDECIDED: Final = "undecided"  # of a log, in a state that has another reason to be kept
_NOWHERE: Final = FilePosition(0, 0, 0)  # of event files, whose positions are kept by themselves


class Observer:
    """Observes one replica."""

    def __init__(
        self,
        settings: ClassifierSettings,
        reader: Reader,
        now: float,
        *,
        state: State | None = None,
        options: FormatOptions = FormatOptions(),  # noqa: B008 - frozen
    ) -> None:
        """Begin with nothing known, or where `state` left off; `now` is seconds on a steady clock.

        `options` are those of the reader, for what the trainer says by itself.
        """
        self._settings = settings
        self._options = options
        self._reader = reader
        self._reported = reader if isinstance(reader, ReportReader) else ReportReader(options)
        self._place: Sample | None = None
        self._validating: Validating | None = reader if isinstance(reader, Validating) else None
        self._history: deque[float] = deque(maxlen=_HISTORY_SAMPLES)
        self._first: tuple[Sample, float] | None = None
        self._last: tuple[Sample, float] | None = None
        self._former: tuple[Sample, float] | None = None
        self._parts_of_epochs = False
        self._began_at = now
        self._wall: float | None = None
        self._begin: bytes | None = None
        self._examples: deque[bytes] = deque(maxlen=_EXAMPLES)
        self.kept: tuple[Kept, ...] = () if state is None else state.kept
        """The last checkpoints that the trainer announced, oldest first."""
        self.brought_back = state is not None
        """Whether an earlier incarnation left this state."""
        self.trouble: str | None = None
        """Why this incarnation has no sample so far, where somebody looked into it: see `trouble`."""
        self.remark = ""
        """The remark beside the reason of every verdict."""
        self.curve = Curve(None if state is None else state.curve, last_value=settings.literal)
        self.judgement = begin(now, settings)
        self.steps = StepTimes()
        """When the steps of this incarnation came."""
        self.validation = Validation()
        self.lines = 0
        self.samples = 0
        self._named: Goal | None = None if state is None else state.goal
        # A verdict on the way to less says nothing about the way to more; the curve is the same.
        other_goal = state is not None and state.goal is not None and state.goal != self.goal
        self._taken_up = state is not None and state.judgement.value is not None and not other_goal
        if state is not None and not other_goal:
            self.validation = state.validation
            since = now - max(0.0, state.judgement.since)
            self.judgement = msgspec.structs.replace(state.judgement, since=since)
        self.overfitting = overfits(self.validation, more_is_better=self.goal == "max")

    def go_on(self, state: State, now: float) -> None:
        """Take up the counters and the first sample of the same incarnation's earlier sidecar.

        The trainer trained on in between: what it gained there is spread over the intervals that it took.
        """
        self.brought_back = False
        self.lines, self.samples = state.lines, state.samples
        away = 0.0 if state.at is None else max(0.0, now - state.at)
        missed = 0 if self._settings.literal else round(away / self._settings.interval)
        self.judgement = msgspec.structs.replace(
            self.judgement,
            since=self.judgement.since - away,
            idle_intervals=self.judgement.idle_intervals + missed,
        )
        self._first = _see(state.first, now - away)
        self._former = _see(state.former, now - away)
        self.steps.go_on(state.gaps, now if state.gaps else None)

    @property
    def format(self) -> str | None:
        """The format that is read, or None as long as it is not decided."""
        return self._reader.chosen

    @property
    def evidence(self) -> Evidence | None:
        """What the format that is read found in the first lines, or None as long as it is not decided."""
        return next((one for one in self._reader.evidence if one.format == self.format), None)

    @property
    def likeliest(self) -> Evidence | None:
        """What the likeliest format has found, be it too little to decide; None where none found anything."""
        return next(iter(self._reader.evidence), None)

    @property
    def unclassifiable(self) -> str | None:
        """Why no curve of the log says anything about convergence, or None where one does."""
        return self._reader.unclassifiable

    @property
    def metric(self) -> str | None:
        """The name of the metric that is followed, or None before its first sample."""
        return None if self._last is None else self._last[0].name

    @property
    def goal(self) -> Goal:
        """Whether less or more is better: as it was set, else as the metric's name says, else less."""
        return self._settings.goal or self._named or "min"

    @property
    def _assumed(self) -> bool:
        """Whether nothing says that less is better."""
        return self._settings.goal is None and self._named is None

    @property
    def goal_from(self) -> str:
        """What says so, for people."""
        if self._settings.goal is not None:
            return "as --goal says"
        return "as its name says" if self._named is not None else ASSUMED

    @property
    def classifier(self) -> str:
        """Which classifier judges."""
        return "specon" if self._settings.literal else self._settings.classifier

    @property
    def unparsed(self) -> int:
        """Lines that held no sample; those that a detection holds back count until it decides."""
        return max(0, self.lines - self.samples)

    @property
    def examples(self) -> tuple[str, ...]:
        """The last lines that came when none held a sample, shortened."""
        return tuple(_example(line) for line in self._examples)

    @property
    def ends(self) -> tuple[str, ...]:
        """The first and the last line that came when none held a sample, shortened."""
        ends = () if self._begin is None else (self._begin, *list(self._examples)[-1:])
        return tuple(_example(line) for line in ends)

    @property
    def first_seen(self) -> bool:
        """Whether this incarnation has had a sample: the proof that it trains."""
        return self._first is not None

    @property
    def by_epochs(self) -> bool:
        """Whether the log names whole epochs and never a step: then each epoch counts as one."""
        return self.curve.step is None and self.curve.epoch is not None and not self._parts_of_epochs

    @property
    def step(self) -> int | None:
        """The trainer's last step in the log."""
        return whole_epoch(self.curve.epoch) if self.by_epochs else self.curve.step

    @property
    def total_steps(self) -> int | None:
        """How many steps the whole run has, as its log tells."""
        return self.curve.total_epochs if self.by_epochs else self.curve.total_steps

    @property
    def last(self) -> Sample | None:
        """The last sample of this incarnation."""
        return None if self._last is None else self._last[0]

    def take(self, lines: Sequence[bytes], now: float, wall: float | None = None) -> None:
        """Take lines that this incarnation wrote; `wall` is now in seconds since 1970, where it is known."""
        self._wall = wall
        self.lines += len(lines)
        samples = self._reader.read(lines)
        if self._place is not None:
            place = self._place
            samples = [_put_at(sample, place) for sample in samples]
        self._add(samples, now)
        self._validate()
        if not self.samples:
            self._examples.extend(lines[-_EXAMPLES:])
            if self._begin is None and lines:
                self._begin = lines[0]

    def hear(self, progress: Progress, now: float) -> None:
        """Take what the trainer says of itself: from its first value on its log is not read any more.

        Until then its word counts for the steps, and the log for values.
        """
        sample = self._reported.take(progress)
        if sample.name:
            if self._reader is not self._reported:
                self._believe(self._reported, now)
            self._add([sample], now)
        else:
            self._move(sample, now)
        self._validate()

    def finish(self, now: float) -> None:
        """Take what the reader still held back: the log has ended."""
        self._add(self._reader.finish(), now)
        self._validate()

    def prime(self, lines: Sequence[bytes]) -> None:
        """Show the reader the head of a log that was read before: its header, and which metrics there are."""
        self._note_epochs(self._reader.read(lines))
        if self._validating is not None:
            self._validating.validation()  # it is in the state already

    def take_history(self, lines: Sequence[bytes], now: float) -> None:
        """Take lines of an earlier incarnation: they give the scale, and no proof of a resume."""
        self._recall(self._reader.read(lines), now)
        self._validate()

    def end_history(self, now: float) -> None:
        """End the history: its old samples are one interval, whose value is that of the last ones."""
        self._recall(self._reader.finish(), now)
        self._validate()
        interval = self.curve.close_interval(now)
        # How an earlier incarnation ended, and that it did, is not how this one trains.
        self.curve.nonfinite_run = 0
        # A judgement that was taken up goes on with the first interval of this incarnation.
        if self._history and not self._taken_up:
            value = self._history[-1] if self._settings.literal else fmean(self._history)
            self._judge(msgspec.structs.replace(interval, value=value, nonfinite_run=0, silence=0.0), now)
        self._history.clear()

    def end_former(self, now: float, age: float) -> None:
        """Take note of how far the incarnation before came, whose last line is `age` seconds old."""
        if self.step is not None:
            self._former = Sample("", math.nan, self.step), now - age

    def tick(self, now: float, paused: float = 0.0) -> Judgement:
        """Close the interval at `now` and return the judgement after it.

        For `paused` seconds of it the trainer was kept from training: that is no silence of its own.
        """
        if paused > 0 and self.curve.rest(now, paused):
            return self.judgement
        self._judge(self.curve.close_interval(now), now)
        self.overfitting = overfits(self.validation, more_is_better=self.goal == "max")
        hopeless = self._reader.chosen is None and self.lines >= _HOPELESS_LINES and not self.samples
        if hopeless and self.judgement.category is Category.UNKNOWN:
            self.judgement = msgspec.structs.replace(
                self.judgement,
                category=Category.NOT_CLASSIFIABLE,
                since=now,
                reason=f"no sample in {format_count(self.lines, 'line')}",
            )
        return self.judgement

    def report(
        self,
        now: float,
        *,
        replica: str,
        incarnation: str,
        session: str,
        checkpoint: Checkpoint | None = None,
        cpu_seconds: float | None = None,
        memory_bytes: int | None = None,
        stopped_seconds: float | None = None,
        hang: Hang | None = None,
        share: Share | None = None,
        ended: bool = False,
    ) -> Report:
        """Return the report of now, within the bounds of the wire; the outbox numbers it."""
        judgement = self.judgement
        gain = bound_amount(judgement.gain)
        return Report(
            schema=1,
            replica=replica,
            incarnation=incarnation,
            session=session,
            sequence=0,
            category=judgement.category,
            category_age=max(0.0, now - judgement.since),
            reason=(self.trouble or "; ".join(filter(None, (judgement.reason, self.remark))))[:MAX_TEXT],
            first=bound_observation(self._first, now, by_epochs=self.by_epochs),
            last=bound_observation(self._last, now, by_epochs=self.by_epochs),
            former=bound_observation(self._former, now),
            gain=gain,
            total_steps=bound_step(self.total_steps),
            expected_gain=bound_estimate(self.curve.expected_gain(gain, self._settings.interval)),
            remaining_seconds=bound_estimate(self.curve.remaining_seconds()),
            confidence=judgement.confidence,
            remaining_gain=bound_share(judgement),
            until_converged=judgement.until_converged,
            overfitting=self.overfitting,
            lines=self.lines,
            samples=self.samples,
            unparsed=self.unparsed,
            checkpoint=checkpoint,
            cpu_seconds=cpu_seconds,
            memory_bytes=memory_bytes,
            stopped_seconds=bound_amount(stopped_seconds),
            format=self.format,
            hang=hang,
            share=share,
            ended=ended,
        )

    def state(
        self,
        now: float,
        incarnation: str,
        position: FilePosition | None,
        event_files: Mapping[str, FilePosition] | None = None,
    ) -> State | None:
        """Return what a successor goes on with, or None while the format is not decided.

        The log was read to `position`, or event files to theirs.
        """
        if self.format is None and self._place is None:
            return None
        age = max(0.0, now - self.judgement.since)
        return State(
            incarnation=incarnation,
            format=self.format or _UNDECIDED,
            place=position or _NOWHERE,
            event_files=dict(event_files or {}),
            curve=self.curve.state,
            judgement=msgspec.structs.replace(self.judgement, since=age),
            goal=self.goal,
            first=bound_observation(self._first, now, by_epochs=self.by_epochs),
            former=bound_observation(self._former, now),
            validation=self.validation,
            lines=self.lines,
            samples=self.samples,
            gaps=self.steps.gaps,
            at=now,
            kept=self.kept,
        )

    def _judge(self, interval: Interval, now: float) -> None:
        if self.unclassifiable is not None:
            self.judgement = _refuse(self.judgement, now, self.unclassifiable)
            return
        settings = msgspec.structs.replace(self._settings, goal=self.goal)
        if self.classifier == "specon":
            self.judgement = judge(self.judgement, interval, now, settings)
        else:
            self.judgement = judge_by_horizon(
                self.judgement, interval, self.curve.values, self.curve.done, now=now, settings=settings
            )
        if self.judgement.category is Category.DIVERGING and self._assumed and not interval.nonfinite_run:
            reason = f"{self.judgement.reason}; but that less is better was assumed, and may be wrong"
            self.judgement = enter(self.judgement, Category.UNKNOWN, now, reason=reason)

    def _validate(self) -> None:
        for sample in () if self._validating is None else self._validating.validation():
            if is_usable(sample.value):
                self.validation = extend(self.validation, sample.name, sample.value)

    def _add(self, samples: list[Sample], now: float) -> None:
        if not samples:
            return
        self.samples += len(samples)
        self._note_epochs(samples)
        self.steps.saw(now)
        self.trouble = None
        samples = self._of_the_goal(samples, now)
        runs = self.curve.runs
        self.curve.extend(samples, now)
        if self.curve.runs != runs:  # another training in the same log: nothing of the one before counts
            self.judgement = begin(now, self._settings)
            self.validation = Validation()
        if self._first is None:
            self._first = samples[0], self._came(samples[0], now)
        self._last = samples[-1], now

    def _note_epochs(self, samples: Sequence[Sample]) -> None:
        """Note whether the log names parts of epochs: these are no place that can be counted."""
        self._parts_of_epochs |= any(
            sample.epoch is not None and whole_epoch(sample.epoch) is None for sample in samples
        )

    def _came(self, sample: Sample, now: float) -> float:
        """Return when a sample came that is read now: by its own time, but not before this sidecar did."""
        if sample.time is None or self._wall is None:
            return now
        return min(now, max(self._began_at - _START_SECONDS, now - (self._wall - sample.time)))

    def _believe(self, reader: ReportReader, now: float) -> None:
        """Read no log any more; what it showed of this incarnation is forgotten, for it would count twice."""
        self._reader, self._validating = reader, reader
        if self.samples:
            self._begin_anew(now)
        self._last = None
        if self._place is None:  # else it is the trainer's own word
            self._first = None

    def _move(self, place: Sample, now: float) -> None:
        """Note how far the training is where nothing is said of its metric."""
        self.trouble = None
        if self._place is None:
            self._first = None  # what the log showed may count otherwise
        self._place = place
        self.curve.move(place, now)
        self.steps.saw(now)
        at = place if self._last is None else _put_at(self._last[0], place)
        self._last = at, now
        if self._first is None:
            self._first = at, now

    def _begin_anew(self, now: float) -> None:
        self.curve = Curve(last_value=self._settings.literal)
        self.judgement = begin(now, self._settings)
        self.validation = Validation()
        self._history.clear()
        self._taken_up = False

    def _of_the_goal(self, samples: list[Sample], now: float) -> list[Sample]:
        """Return the samples to judge by, having begun again where the metric now has the opposite goal.

        A loss that appears takes over from the accuracy before it: one curve of both would mean nothing.
        """
        before, self._named = self.goal, self._reader.goal
        if self.goal == before:
            return samples
        if self.curve.count:
            self._begin_anew(now)
        return [sample for sample in samples if sample.name == samples[-1].name]

    def _recall(self, samples: list[Sample], now: float) -> None:
        self._note_epochs(samples)
        for sample in self._of_the_goal(samples, now) if samples else ():
            self.curve.add(sample, now)
            if not is_usable(sample.value):
                continue
            if self.judgement.first is None:
                self._judge(self.curve.close_interval(now), now)
            self._history.append(sample.value)


def _put_at(sample: Sample, place: Sample) -> Sample:
    """Return the sample at another place."""
    return msgspec.structs.replace(
        sample, step=place.step, epoch=place.epoch, total_steps=place.total_steps, total_epochs=None
    )


def _see(observation: Observation | None, now: float) -> tuple[Sample, float] | None:
    """Return a sample of a state with its time; `now` is when the state was taken."""
    if observation is None:
        return None
    value = math.nan if observation.value is None else observation.value
    return Sample(observation.name, value, observation.step), now - observation.age


def _example(line: bytes) -> str:
    return line[:_EXAMPLE_BYTES].decode("utf-8", "replace")


def _refuse(judgement: Judgement, now: float, why: str) -> Judgement:
    return enter(
        judgement,
        Category.NOT_CLASSIFIABLE,
        now,
        reason=f"{why}; name a metric to have it judged by that",
        confidence=None,
        share=None,
        share_error=None,
        confirmed=0,
        verdict_best=None,
    )
