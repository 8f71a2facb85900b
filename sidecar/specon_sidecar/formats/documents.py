"""A file that is one document of JSON -> a record a line.

As scripts write their history: `{"loss": [0.7, 0.5], "val_loss": [0.8, 0.6]}` on one line or on many, or all
records in one line: `[{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.5}]`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from specon_sidecar.formats.position_keys import Position, position_of

# Fewer values are no series.
_FEWEST: Final = 3
# A longer document is read line by line as any other log, and so is one of more levels.
_LONGEST: Final = 1_000_000
_DEEPEST: Final = 8
_LEVELS: Final = 3
_PLACES: Final = (Position.STEP, Position.EPOCH)
_VALUE: Final = (
    rb"(?:-?[\d.][\d.eE+-]{0,40}+|-?Infinity|NaN|null|true|false|\"[^\"\\]{0,1000}+\"|\[[^\[\]{}]*+\]|\{\})"
)
# One line of a document that is written with each value on a line of its own.
_LINE: Final = re.compile(
    rb"\s*+(?:\"[^\"\\]{0,200}+\"\s?:\s?)?+(?:([\[{])|(?:"
    + _VALUE
    + rb",\s?)*+"
    + _VALUE
    + rb"?,?|([\]}]),?)\s*+"
)

# What a list holds has the name of all of them: `train_losses`.
_PLURALS: Final = (("losses", "loss"), ("accuracies", "accuracy"), ("accs", "acc"), ("scores", "score"))

_Record = dict[str, object]


class Documents:
    """Takes the lines of a file that begins as a document does, and gives the records that they complete.

    Lines that are none are given as they are, and then `is_over`. A file that is written again as a whole
    gives the records that it did not have before.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._open: list[bytes] = []
        self._first: _Record | None = None
        self._given = 0
        self.is_over = False
        """Whether what follows is no document."""

    def take(self, line: bytes) -> list[bytes]:
        """Return the lines to read instead of this one."""
        if self.is_over:
            return [line]
        if not self._open and len(line) <= _LONGEST:
            records = self._new(line) if line.startswith((b"[", b"{")) else []
            if records:
                return records
        self._lines.append(line)
        self._size += len(line)
        found = _LINE.fullmatch(line) if self._size <= _LONGEST else None
        if found is None or not self._follows(found[1], found[2]):
            return self._give_up()
        if self._open:
            return []
        lines, self._lines, self._size = self._lines, [], 0
        records = self._new(b"\n".join(lines))
        self.is_over = not records and self._first is None
        return lines if self.is_over else records

    def finish(self) -> list[bytes]:
        """Return the lines held back, for the log has ended."""
        return self._give_up() if self._lines else []

    def _follows(self, opens: bytes | None, closes: bytes | None) -> bool:
        """Take note of a bracket; return whether it may stand here, and the lines are those of a document.

        Records in a list, each on lines of its own, are read as they come.
        """
        if opens is not None:
            self._open.append(opens)
            return len(self._open) <= _DEEPEST and self._open[-2:] != [b"[", b"{"]
        if closes is not None and self._open:
            self._open.pop()
            return True
        return bool(self._open)

    def _give_up(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        self.is_over = True
        return lines

    def _new(self, document: bytes) -> list[bytes]:
        """Return the records of a document, but for those that the one before it had."""
        records = _records(document)
        if not records:
            return []
        given = self._given if records[0] == self._first else 0
        self._first, self._given = records[0], len(records)
        try:
            return [json.dumps(record).encode() for record in records[given:]]
        except RecursionError:
            return []


def _records(text: bytes) -> list[_Record]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(document, dict):
        lists = dict(_lists(document, "", _LEVELS))
        if _is_record(document, lists):
            return []
        return _rows(lists) or max((_dicts(one) for one in lists.values()), key=len, default=[])
    return _dicts(document) if isinstance(document, list) else []


def _is_record(document: _Record, lists: dict[str, list[object]]) -> bool:
    """Whether lists stand beside the place and the loss of a record: DETR's `"test_bbox": [0.1, 0.2]`."""
    numbers = {key: one for key, one in document.items() if isinstance(one, int | float)}
    places = [one for key, one in numbers.items() if (found := position_of(key)) and found[0] in _PLACES]
    return (
        bool(places)
        and any("loss" in key for key in numbers)
        and not any(len(values) in (place, place + 1) for values in lists.values() for place in places)
    )


def _dicts(values: list[object]) -> list[_Record]:
    records = [one for one in values if isinstance(one, dict)]
    return records if len(records) >= _FEWEST else []


def _lists(record: _Record, name: str, levels: int) -> Iterator[tuple[str, list[object]]]:
    """Yield the lists of a record and of the records in it, each with the names that lead to it."""
    for key, value in record.items():
        if isinstance(value, list):
            yield name + key, value
        elif isinstance(value, dict) and levels:
            yield from _lists(value, f"{name}{key}/", levels - 1)


def _rows(lists: dict[str, list[object]]) -> list[_Record]:
    """Return what stands at the same place of lists of numbers, of those that are as long as most."""
    numbers = {
        name: values
        for name, values in lists.items()
        if len(values) >= _FEWEST and all(isinstance(one, int | float | None) for one in values)
    }
    if not numbers:
        return []
    length = Counter(map(len, numbers.values())).most_common(1)[0][0]
    columns: dict[str, list[object]] = {
        _singular(name): values for name, values in numbers.items() if len(values) == length
    }
    places = [position_of(name.rpartition("/")[2]) for name in columns]
    if not any(one is not None and one[0] in _PLACES for one in places):
        of_episodes = any("pisode" in name for name in columns)
        columns["episode" if of_episodes else "epoch"] = list(range(1, length + 1))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _singular(name: str) -> str:
    for plural, one in _PLURALS:
        if name.lower().endswith(plural):
            return name[: -len(plural)] + one
    return name
