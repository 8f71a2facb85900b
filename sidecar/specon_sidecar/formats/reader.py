"""Readers: lines of a log in, samples of one series out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, runtime_checkable

from specon_sidecar.formats.detect import ENOUGH_WITHOUT_PLACE, HEAD, Detection, Evidence, TriedFormat
from specon_sidecar.formats.metric_names import Goal, goal_of
from specon_sidecar.formats.parser import Format, FormatOptions
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.surroundings import Surroundings, Total
from specon_sidecar.formats.wrappers import Unwrapping


class Reader(Protocol):
    """Reads the lines of one log in their order."""

    @property
    def chosen(self) -> str | None:
        """The format in use, or None as long as it is not decided."""
        ...

    @property
    def goal(self) -> Goal | None:
        """Whether less or more of the metric is better, or None where nothing says it."""
        ...

    @property
    def unclassifiable(self) -> str | None:
        """Why the log cannot be judged (a GAN, reinforcement learning), or None where it can."""
        ...

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the likeliest formats found, best first."""
        ...

    @property
    def restarts(self) -> int:
        """How often the step went back: resumes and new runs."""
        ...

    @property
    def total(self) -> Total | None:
        """How long the training is and what says so, as far as the log says it."""
        ...

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples that these lines complete. No bytes whatever make it raise."""
        ...

    def finish(self) -> list[Sample]:
        """Return the samples held back, for the log has ended, or that of this incarnation."""
        ...


@runtime_checkable
class Validating(Protocol):
    """What a reader may give beside its samples."""

    def validation(self) -> list[Sample]:
        """Return the values of the metric's counterpart of validation since the last call: a bounded few."""
        ...


class _LogReader(ABC):
    """What both readers share: unwrapping, and the facts about the series."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._unwrapping = Unwrapping()
        self._last: Sample | None = None

    @property
    @abstractmethod
    def _current(self) -> TriedFormat | None: ...

    @property
    def goal(self) -> Goal | None:
        """Whether less or more of the metric is better, or None where nothing says it."""
        options, current = self._options, self._current
        if options.goal is not None or current is None or not current.format.goal_known:
            return options.goal
        return current.parser.choice.goal or (None if options.metric is None else goal_of(options.metric))

    @property
    def unclassifiable(self) -> str | None:
        """Why the log cannot be judged (a GAN, reinforcement learning), or None where it can."""
        return None if self._current is None else self._current.parser.choice.verdict

    @property
    def restarts(self) -> int:
        """How often the step went back: resumes and new runs."""
        return 0 if self._current is None else self._current.series.restarts

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples that these lines complete. No bytes whatever make it raise."""
        rest = iter(lines)
        samples: list[Sample] = []
        unwrapping = self._unwrapping
        while unwrapping.needed:
            line = next(rest, None)
            if line is None:
                return self._note(samples)
            for text, time in unwrapping.unwrap(line):
                samples += self._read_line(text, time)
        samples += self._read(rest)
        return self._note(samples)

    def _flush(self) -> list[Sample]:
        """Return the samples of the lines held back, for the log has ended."""
        return [sample for text, time in self._unwrapping.finish() for sample in self._read_line(text, time)]

    def _note(self, samples: list[Sample]) -> list[Sample]:
        self._last = samples[-1] if samples else self._last
        return samples

    @property
    def total(self) -> Total | None:
        """How long the training is and what says so, as far as the log says it."""
        return self._surroundings.total(self._last)

    @property
    @abstractmethod
    def _surroundings(self) -> Surroundings: ...

    def validation(self) -> list[Sample]:
        """Return the values of the metric's counterpart of validation since the last call: a bounded few."""
        current = self._current
        return [] if current is None else current.parser.choice.validation.drain()

    @abstractmethod
    def _read(self, lines: Iterable[bytes]) -> list[Sample]: ...

    @abstractmethod
    def _read_line(self, line: bytes, time: float | None) -> Iterable[Sample]: ...


class FixedReader(_LogReader):
    """Reader of a format that was named.

    Scores are held back until there are `ENOUGH_WITHOUT_PLACE` of them, for a loss may follow: an evaluation
    often stands before the first step of a training.
    """

    def __init__(self, format_: Format, options: FormatOptions) -> None:
        super().__init__(options)
        self.chosen: Final = format_.name
        self._around = Surroundings()
        self._candidate = TriedFormat(format_, options, self._around)
        self._held: list[Sample] | None = []
        self._lines = 0

    @property
    def _current(self) -> TriedFormat:
        return self._candidate

    @property
    def _surroundings(self) -> Surroundings:
        return self._around

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the format found in the first lines."""
        return (self._candidate.report(self._lines),) if self._candidate.found else ()

    def finish(self) -> list[Sample]:
        """Return the samples held back, for the log has ended, or that of this incarnation."""
        flushed = self._flush()
        rest = self._candidate.rest()
        self._candidate.series.forget_place()
        held, self._held = self._held, None
        return self._note([*(held or []), *flushed, *rest])

    def _read(self, lines: Iterable[bytes]) -> list[Sample]:
        samples: list[Sample] = []
        rest = iter(lines)
        candidate = self._candidate
        if self._held is not None or self._lines < HEAD:
            for line in rest:
                samples += self._read_line(line, None)
                if self._held is None and self._lines >= HEAD:
                    break
        parse, take = candidate.parse, self._around.take
        for line in rest:
            sample = parse(line)
            if sample is None:
                take(line)
            else:
                samples.append(sample)
        return samples

    def _read_line(self, line: bytes, time: float | None) -> Iterable[Sample]:
        self._lines += 1
        if self._candidate.feed(line, time, self._lines):
            return self._release()
        self._around.take(line)
        return ()

    def _release(self) -> list[Sample]:
        samples = self._candidate.take_all()
        if self._held is None:
            return samples
        if not self._candidate.parser.choice.is_score:
            self._held = None  # a loss: the scores before it were another series
            return samples
        self._held += samples
        if len(self._held) < ENOUGH_WITHOUT_PLACE:
            return []
        samples, self._held = self._held, None
        return samples


class DetectingReader(_LogReader):
    """Reader that finds the format out."""

    def __init__(self, formats: Mapping[str, Format], options: FormatOptions) -> None:
        super().__init__(options)
        self._detection = Detection(formats, options)

    @property
    def chosen(self) -> str | None:
        """The format in use, or None as long as it is not decided."""
        return self._detection.chosen

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the likeliest formats found, best first."""
        return self._detection.evidence

    @property
    def _current(self) -> TriedFormat | None:
        return self._detection.current

    @property
    def _surroundings(self) -> Surroundings:
        return self._detection.around

    def validation(self) -> list[Sample]:
        """Return the same; nothing as long as the format is not decided."""
        return [] if self.chosen is None else super().validation()

    def finish(self) -> list[Sample]:
        """Decide with what there is, for the log has ended; return the samples not delivered yet."""
        flushed = self._flush()
        return self._note([*flushed, *self._detection.finish()])

    def _read(self, lines: Iterable[bytes]) -> list[Sample]:
        return self._detection.read(lines)

    def _read_line(self, line: bytes, time: float | None) -> Iterable[Sample]:
        return self._detection.feed(line, time)
