"""A list of records of JSON with each key on a line of its own, as `json.dump(..., indent=4)` writes it.

A record within another is read into it (`{"train": {"loss": 2.31}}` is `train/loss`); those of a list stand
by themselves. Such files are written again as a whole, so their earlier records come again;
`Format.rewritten` makes them count once. Records that are printed one after another are no list.
"""

import re
from typing import Final

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample

_KEY: Final = re.compile(rb'\s*"([\w./ -]{1,200})": (?:"([^"]{0,100})"|([\w.+-]{1,100})),?\s*$')
_INNER: Final = re.compile(rb'\s*"([\w./ -]{1,200})": \{\s*$')
_ENDS: Final = (b"[", b"{")
_LONGEST_RECORD: Final = 1000
_DEEPEST: Final = 8
_OPENINGS: Final = (b"{", b"[{", b"}, {", b"},{")
_LIST: Final = re.compile(rb'\s*(?:"[\w./ -]{1,200}": )?\[\{?\s*$')


class JsonList:
    """Tells whether lines are those of a list with a record or a value on each."""

    def __init__(self) -> None:
        self._depth = 0

    def has(self, line: bytes) -> bool:
        """Take note of the next line; return whether it is within a list."""
        if self._depth and line.lstrip()[:1] == b"]":
            self._depth -= 1
        elif line.rstrip()[-1:] in _ENDS and _LIST.match(line) is not None:
            self._depth += 1
        return self._depth > 0


def is_member(line: bytes) -> bool:
    """Whether a line is one key of a record, with its value."""
    return _KEY.match(line) is not None


class _Open:
    """A record that is not at its end yet; one within another has the name that it has there."""

    def __init__(self, name: str | None) -> None:
        self.name: Final = name
        self.items: Final[list[tuple[str, object]]] = []

    def add(self, key: str, value: object) -> None:
        if len(self.items) < _LONGEST_RECORD:
            self.items.append((key, value))


class JsonRecords(LineParser):
    """Parser of a list of records."""

    woken_by: tuple[bytes, ...] = (b"[",)

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, last_resorts=True)
        self.records = RecordReader(self.choice)
        """What reads a record once it is whole."""
        self._open: list[_Open] = []
        self._list, self._is_inside = JsonList(), False

    @property
    def is_awake(self) -> bool:
        """Whether lines are those of a list."""
        return self._is_inside

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of the record that this line ends."""
        self._is_inside = self._list.has(line)
        if not self._is_inside:
            self._open.clear()
            return None
        return self._read(line)

    def _read(self, line: bytes) -> Sample | None:
        """Return the sample of the record of the list that this line ends."""
        found = _KEY.match(line) if self._open else None
        if found is not None:
            self._open[-1].add(
                found[1].decode("utf-8", "replace"), found[2] if found[3] is None else found[3]
            )
            return None
        text = line.strip()
        sample = self._close() if text[:1] == b"}" and self._open else None
        if text in _OPENINGS:
            self._begin(None)
        elif self._open:
            inner = _INNER.match(line)
            if inner is not None:
                self._begin(inner[1].decode("utf-8", "replace"))
        return sample

    def _begin(self, name: str | None) -> None:
        if len(self._open) >= _DEEPEST:
            self._open.clear()  # no document: the braces of a program
        self._open.append(_Open(name))

    def _close(self) -> Sample | None:
        ended = self._open.pop()
        if ended.name is None or not self._open:
            return self.records.sample(ended.items)
        for key, value in ended.items:
            self._open[-1].add(f"{ended.name}/{key}", value)
        return None
