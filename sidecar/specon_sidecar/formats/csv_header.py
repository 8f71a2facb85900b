"""Tables whose header line names the columns: `epoch,step,loss`.

Cells may be padded, quoted or empty; separators are comma, semicolon and tab. The header may come again in
the middle (a resumed run, or a file that was rewritten with a new column), also with other columns.
"""

import csv
import re
from typing import Final

import msgspec

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.metric_names import SUM_OF_PARTS
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.position_keys import position_of
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.reward_names import is_reward
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.wall_time import leading_stamp

_SEPARATORS: Final = (",", ";", "\t", "|")
# pandas writes the number of the row first, without a name or with this one.
_ROW_NUMBER: Final = ("", "Unnamed: 0")
# A table with one of these, and no step, compares models.
_COMPARED: Final = frozenset({"fold", "run", "trial", "seed", "model", "name", "id", "method", "split"})
_MOST_COMPARED: Final = 1000
_FRAME: Final = "|"
# What a column is called. A sentence with commas is no header.
_NAME: Final = re.compile(
    r"(?:% )?+(?:\d{1,2}(?=[A-Za-z]))?+[^\W\d](?:[\w./@%()+-]|:(?=[\w.]))*+"
    r"(?: (?:[\w./@%()+-]|:(?=[\w.]))++){0,3}+"
)
_MOST_COLUMNS: Final = 1024
# The file of Gym's Monitor: reward, length and end of each episode.
_MONITOR: Final = ("r", "l", "t")
_MONITORED: Final = ("reward", "length", "elapsed")
PARTS: Final = tuple(
    f"train/{part}_loss" for part in ("box", "obj", "cls", "dfl", "seg", "pose", "kobj", "l1", "giou")
)
"""Columns of Ultralytics' results.csv, which has none for the loss that is minimised: their sum."""


class CsvWithHeader(LineParser):
    """Parser of tables with a header line."""

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, (SUM_OF_PARTS,), last_resorts=True)
        self._records = RecordReader(self.choice, PARTS)
        self._separator = ","
        self._columns: list[str] = []
        self._counts_rows = False
        self._is_ended = False  # a separator stands behind the last name, and behind the last cell
        self._first: Sample | None = None
        self._furthest: Sample | None = None
        self._header_again = False
        self._again = False
        self._compared: list[int] = []
        self._row: tuple[tuple[str, ...], float] | None = None
        self._keys: set[tuple[str, ...]] = set()
        """What was compared so far."""
        self._each_once = False
        """Whether that differs from row to row, and so compares nothing."""
        self._above: list[str] = []
        """Cells of the line before, within a frame: the first line of a header of two."""

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this row; take the line for the new header if it looks like one."""
        # Cheap for a line of no table at all.
        columns = self._columns
        if columns and line.count(self._separator.encode()) >= len(columns) - 1:
            text = line.decode("utf-8", "replace")
            cells = _cells(text, self._separator)
            if self._is_ended and not cells[-1]:
                cells.pop()
            if len(cells) == len(columns):
                # A header that comes again has no number under the metric's name.
                sample = self._records.sample(zip(columns, cells, strict=True))
                if sample is not None and (_is_placed(sample) or all(map(_is_number, cells))):
                    if self._counts_rows and not _is_placed(sample) and not self.choice.is_score:
                        sample = msgspec.structs.replace(sample, step=to_step(cells[0]))
                    return (
                        None if self._is_one_of_others(sample, cells) or self._comes_again(sample) else sample
                    )
        if self.choice.may_count(line.lower()) or line.startswith(b"r,l,t"):
            self._take_header(line.decode("utf-8", "replace"))
        elif line[:1] == b"|" and not columns:
            self._above = _cells(line.decode("utf-8", "replace"), _FRAME)
        return None

    def _is_one_of_others(self, sample: Sample, cells: list[str]) -> bool:
        """Whether a row is the end of one training among others: each fold with the same epoch."""
        if not self._compared or self._each_once:
            return False
        before, key = self._row, tuple(cells[at] for at in self._compared)
        self._row = key, _place(sample)
        if before is not None and before[1] != self._row[1] and key not in self._keys:
            self._each_once = True  # a number of each row, say
            return False
        if len(self._keys) < _MOST_COMPARED:
            self._keys.add(key)
        return before is not None and before[0] != key and before[1] == self._row[1]

    def _comes_again(self, sample: Sample) -> bool:
        """Whether a row was given before: a file that was rewritten begins with the same row.

        Lightning does so when a new column appears. Rows count again beyond the furthest one.
        """
        if self._header_again:
            self._header_again, first, self._first = False, self._first, sample
            self._again = first == sample
        elif self._first is None:
            self._first = sample
        furthest = self._furthest
        if self._again and furthest is not None and _place(sample) <= _place(furthest):
            return True
        self._again, self._furthest = False, sample
        return False

    def _take_header(self, text: str) -> None:
        text = text.removeprefix("\ufeff").lstrip("# ")
        if "pisode" in text:
            self.choice.count_episodes()
        for separator in _SEPARATORS:
            columns = _cells(text, separator)
            if separator == _FRAME and not all(columns) and len(columns) == len(self._above):
                columns = [f"{a} {b}".strip() for a, b in zip(self._above, columns, strict=True)]
            is_ended = len(columns) > 1 and not columns[-1]
            if is_ended:
                columns.pop()
            counts_rows = len(columns) > 1 and columns[0] in _ROW_NUMBER
            if counts_rows:
                columns[0] = "row"
            if "frame" in columns and any(map(is_reward, columns)):
                columns[columns.index("frame")] = "frames"
            compares = not _COMPARED.isdisjoint(name.casefold() for name in columns)
            if compares and not any(position_of(name) for name in columns):
                continue
            if (
                1 < len(columns) <= _MOST_COLUMNS
                and all(_NAME.fullmatch(name) for name in columns)
                and (tuple(columns) == _MONITOR or any(self.choice.candidate(name) for name in columns))
            ):
                columns = list(_MONITORED) if tuple(columns) == _MONITOR else columns
                self._header_again = bool(self._columns)
                self._separator, self._columns, self._is_ended = separator, columns, is_ended
                self._counts_rows = counts_rows
                self._compared = [at for at, name in enumerate(columns) if name.casefold() in _COMPARED]
                return


def _is_placed(sample: Sample) -> bool:
    return sample.step is not None or sample.epoch is not None


def _is_number(cell: str) -> bool:
    """Whether a cell may be one of a log without steps: in a table of anything else there is text."""
    return (
        not cell or to_float(cell) is not None or leading_stamp(cell.encode("utf-8", "replace")) is not None
    )


def _place(sample: Sample) -> float:
    place = sample.step if sample.step is not None else sample.epoch
    return float("inf") if place is None else place


def _cells(text: str, separator: str) -> list[str]:
    if separator == _FRAME:
        inner = text.strip()
        if inner[:1] == inner[-1:] == _FRAME:
            inner = inner[1:-1]
        elif " | " not in inner or _FRAME in (inner[:1], inner[-1:]):
            return []
        return [cell.strip() for cell in inner.split(separator)]
    if '"' in text:
        try:
            cells = next(csv.reader([text], delimiter=separator), [])
        except csv.Error:
            return []
    else:
        cells = text.split(separator)
    return [cell.strip() for cell in cells]
