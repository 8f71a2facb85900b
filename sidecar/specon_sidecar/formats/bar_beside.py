"""Records without a step and a bar that is written again behind each of them: the bar tells the step."""

import re
from typing import Final

import msgspec

from specon_sidecar.formats.sample import Sample

# A bar without a name, which counts the training.
_BAR: Final = re.compile(rb"\s{0,8}+\d{1,3}%(?:\|[^|]{0,1200}+\||(?=\s))\s{0,4}+(\d{1,15}+)/(\d{1,15}+) \[")


# So many records that were written in one go end near enough to the bar behind them: they tell how many
# epochs its length is, if that is whole within these bounds. The last record is never ahead of the bar.
_MANY: Final = 8
_BELOW: Final = 0.12
_ABOVE: Final = 0.05
# With less of an epoch than this its two digits are too few; and so many epochs at most can be told apart.
_LEAST_EPOCH: Final = 0.2
_MOST_EPOCHS: Final = 20


class BarBeside:
    """Holds a record back until the bar behind it, and gives it the step of that.

    Records that come without a bar between them from the first were written late, in one go: then no bar
    tells their steps, and they keep their epochs alone. The bar behind many of them tells the total.
    """

    def __init__(self) -> None:
        self._length: int | None = None
        self._late = False
        self._placed = False
        self._per_epoch = 0.0
        self._held: Sample | None = None
        self._own: tuple[int, int] | None = None
        self._epoch: float | None = None
        self._in_one_go = 0

    def take(self, line: bytes) -> tuple[int, int] | None:
        """Return `i` and `n` where the line begins with the bar of the training."""
        found = _BAR.match(line)
        if found is None:
            return None
        i, n = int(found[1]), int(found[2])
        if self._length is None:
            self._length = n
        return i, n

    def release(self, i: int, n: int) -> Sample | None:
        """Return the record before a bar, placed by it; None where none waits or the bar is another one."""
        held = self._held
        i, n = self._own or (i, n)
        if held is None or self._late or not i or (self._placed and n != self._length):
            return None
        self._held = self._own = None
        return self._place(held, i, n)

    def hold_behind(self, sample: Sample, i: int, n: int) -> Sample | None:
        """Take a record that stands behind a bar on its line; return it once that shows to be its own.

        It does where the next bar comes before the next record: of records written late only the first
        stands behind a bar.
        """
        before = self.hold(sample)
        self._own = (i, n)
        return before

    def _place(self, sample: Sample, i: int, n: int) -> Sample:
        """Return a record at the place of a bar."""
        self._length, self._placed = n, True
        self._per_epoch = i / sample.epoch if sample.epoch else 0.0
        return msgspec.structs.replace(sample, step=i, total_steps=n)

    def epochs(self, i: int, n: int) -> int | None:
        """Return how many epochs the bar's whole length is, where it stands behind records of one go."""
        many, self._in_one_go = self._in_one_go, 0
        epoch = self._epoch or 0.0
        if not self._late or many < _MANY or not i or n != self._length or epoch < _LEAST_EPOCH:
            return None
        told = n * epoch / i
        count = round(told)
        is_whole = count - _BELOW <= told <= count + _ABOVE
        return count if is_whole and 1 <= count <= min(many / 2, _MOST_EPOCHS) else None

    def hold(self, sample: Sample) -> Sample | None:
        """Take a record; return it, or the one that waited, as soon as no bar can be waited for."""
        self._epoch = sample.epoch
        self._in_one_go += 1
        if self._length is None or sample.step is not None:
            return sample  # no bar in this log so far, or it says its step itself
        held, self._held, self._own = self._held, sample, None
        if held is None:
            return None
        if not self._placed:
            self._late = True
        return self._by_epoch(held)

    def finish(self) -> Sample | None:
        """Return the record that waits, for the log has ended."""
        held, self._held = self._held, None
        if held is not None and self._own is not None and not self._late:
            return self._place(held, *self._own)
        return None if held is None else self._by_epoch(held)

    def _by_epoch(self, sample: Sample) -> Sample:
        """Return a record without a bar behind it at the step that its epoch tells."""
        if not self._placed or sample.epoch is None or not self._per_epoch:
            return sample
        step = round(sample.epoch * self._per_epoch)
        return msgspec.structs.replace(sample, step=step, total_steps=self._length)
