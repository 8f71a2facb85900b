"""Tables whose heading and rows are only kept apart by blanks, of no particular framework.

The heading names a step or an epoch and a metric (`#  step  rmse_val  rmse_trn  lr`); a row has as many
numbers. `14/29` is the fourteenth of 29.
"""

import re
from typing import Final

import msgspec

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.places import Places
from specon_sidecar.formats.position_keys import Position, position_of
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample

_LONGEST: Final = 2000
_NAMES: Final = re.compile(r"[#\s]{0,40}+(?:[A-Za-z_][\w./%()@+-]{0,60}+(?:\s++|$)){2,64}+")
# Names of two words, where two blanks or more keep the names apart.
_GAP: Final = re.compile(r"\s{2,}")
# A last cell that says how long the row took: `1.2s`.
_SECONDS: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?s")
_PLACES: Final = (b"tep", b"poch", b"ter", b"TEP", b"POCH", b"TER")
# DeepXDE's `loss.dat`: the losses of the training, as many of the test, and the metrics.
_VECTORS: Final = b"# step, loss_train, loss_test"
# The same as it prints them: `1000   [1.2e-02, 3.4e-03]   [1.1e-02, 3.0e-03]   []`.
_PRINTED: Final = re.compile(rb"Step\s+Train loss\s+Test loss\s+Test metric\s*")
_LISTS: Final = re.compile(rb"(\d{1,15}+)\s{1,20}+\[([^\[\]]{1,1000}+)\]\s{1,20}+\[")
_FRACTION: Final = re.compile(r"(\d{1,15})/(\d{1,15})")
_TOTAL: Final = "total"
_FEWEST: Final = 3
_ENDS: Final = frozenset({*(str(digit).encode() for digit in range(10)), b"s", b"m"})
_STEP_OR_EPOCH: Final = (Position.STEP, Position.EPOCH)


class BlankTable(LineParser):
    """Parser of the rows below a heading."""

    woken_by: tuple[bytes, ...] = _PLACES

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, last_resorts=True)
        self._named = options.metric is not None
        self._records = RecordReader(self.choice)
        self._places = Places()
        self._columns: list[str] = []
        self._wider: list[str] = []
        """The same where each blank ends a name: the rows tell which it is."""
        self._vectors = False
        self._lists = False

    @property
    def is_awake(self) -> bool:
        """Whether a heading has come."""
        return self._vectors or self._lists or bool(self._columns)

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this row; take the line for the heading if it is one."""
        if len(line) > _LONGEST:
            return None
        if self._vectors:
            return self._vector(line.split())
        if self._lists:
            found = _LISTS.match(line)
            if found is None:
                return None
            losses = found[2].replace(b",", b" ").split()
            return self._vector([found[1], *losses, *losses])
        columns = self._columns
        if columns and line.lstrip()[:1] and line.rstrip()[-1:] in _ENDS:
            cells = strip(line).text.decode("utf-8", "replace").split()
            if cells and _SECONDS.fullmatch(cells[-1]):
                cells[-1] = cells[-1][:-1]
            if len(cells) == len(self._wider):
                self._columns, self._wider = self._wider, []
            if len(cells) == len(self._columns) and cells[0][:1].isdigit():
                return self._row(cells)
        if any(one in line for one in _PLACES):
            self._take_heading(line)
        return None

    def _vector(self, cells: list[bytes]) -> Sample | None:
        numbers = [to_float(cell) for cell in cells]
        parts = numbers[1 : 1 + (len(numbers) - 1) // 2]
        if not parts or None in numbers:
            return None
        loss = sum(one for one in parts if one is not None)
        return self._records.sample({"step": numbers[0], "loss_train": loss}.items())

    def _take_heading(self, line: bytes) -> None:
        if line.startswith(_VECTORS):
            self._vectors = True
            return
        if _PRINTED.fullmatch(line):
            self._lists = True
            return
        text = strip(line).text.decode("utf-8", "replace").rstrip()
        if not _NAMES.fullmatch(text):
            return
        named = text.lstrip("# \t")
        columns = named.split()
        apart = _GAP.split(named)
        if len(columns) < _FEWEST and len(apart) < len(columns):
            return  # two words of a text
        wider: list[str] = []
        if _FEWEST <= len(apart) < len(columns) and all(name.count(" ") <= 1 for name in apart):
            columns, wider = apart, columns
        places = [position_of(name) for name in (*columns, *wider)]
        if not any(one is not None and one[0] in _STEP_OR_EPOCH for one in places):
            return
        if not any(self.choice.candidate(name) for name in columns):
            # The whole beside its parts: `box  conf  id  total`.
            if self._named or _TOTAL not in columns or len(columns) < 4:  # noqa: PLR2004 - a place, a part
                return
            columns[columns.index(_TOTAL)] = "total loss"
        self._columns, self._wider = columns, wider

    def _row(self, cells: list[str]) -> Sample | None:
        """Return the sample of a row, if all its cells are numbers."""
        of: dict[Position, int] = {}
        rank = 0
        for number, cell in enumerate(cells):
            fraction = _FRACTION.fullmatch(cell)
            if fraction is not None:
                cells[number] = fraction[1]
                position = position_of(self._columns[number])
                total = to_step(fraction[2].encode())
                if position is not None and total is not None:
                    of[position[0]] = total
                    rank = position[1] if position[0] is Position.STEP else rank
            elif to_float(cell) is None:
                return None
        sample = self._records.sample(zip(self._columns, cells, strict=True))
        if sample is None or not of:
            return sample
        step, epoch, total_steps, epochs = self._places.through(
            sample.step, rank, of.get(Position.STEP), sample.epoch, of.get(Position.EPOCH), None
        )
        return msgspec.structs.replace(
            sample, step=step, epoch=epoch, total_steps=total_steps, total_epochs=epochs
        )
