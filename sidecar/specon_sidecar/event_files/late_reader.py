"""Reader of a log that may still turn out to be text or event files. Pure."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from specon_sidecar.event_files.event_line import BEGIN
from specon_sidecar.event_files.event_reader import EventReader
from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.metric_names import Goal
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.reader import Validating
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.surroundings import Total
from specon_sidecar.formats.table import Reader, make_reader


class LateReader:
    """Takes the first line for what it is, and is from then on the reader of that."""

    def __init__(self, name: str, options: FormatOptions) -> None:
        """Raise ValueError as `make_reader` does."""
        self._options: Final = options
        self._reader: Reader = make_reader(name, options)
        self._begun = False

    @property
    def chosen(self) -> str | None:
        """The format in use, or None as long as it is not decided."""
        return self._reader.chosen if self._begun else None

    @property
    def goal(self) -> Goal | None:
        """Whether less or more of the metric is better, or None where nothing says it."""
        return self._reader.goal

    @property
    def unclassifiable(self) -> str | None:
        """Why the log cannot be judged, or None where it can."""
        return self._reader.unclassifiable

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the likeliest formats found, best first."""
        return self._reader.evidence

    @property
    def restarts(self) -> int:
        """How often the step went back: resumes and new runs."""
        return self._reader.restarts

    @property
    def total(self) -> Total | None:
        """How long the training is, as far as the log says it."""
        return self._reader.total

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples that these lines complete."""
        rest: Iterator[bytes] = iter(lines)
        if not self._begun:
            first = next(rest, None)
            if first is None:
                return []
            self._begun = True
            if first.startswith(BEGIN):
                self._reader = EventReader(self._options)
            rest = chain((first,), rest)
        return self._reader.read(rest)

    def finish(self) -> list[Sample]:
        """Return the samples held back."""
        return self._reader.finish()

    def validation(self) -> list[Sample]:
        """Return the values of validation since the last call."""
        reader = self._reader
        return reader.validation() if isinstance(reader, Validating) else []
