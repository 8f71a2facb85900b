"""Lines that differ from an earlier one in nothing but their numbers: read by one expression made for them.

A training prints the same line again and again. What its keys mean was found by the general way; the next
line of the same layout needs only its numbers.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from specon_sidecar.formats.metric_choice import MetricCandidate

# No step of so many digits is too large to be one, and patterns of places read as many.
_MOST_DIGITS: Final = 15
# Fractions have more, as Python prints them, and are no steps.
_MOST_OF_FRACTION: Final = 20
_TOO_LONG: Final = re.compile(rb"(?<![\d.])\d{%d}|\d{%d}" % (_MOST_DIGITS + 1, _MOST_OF_FRACTION + 1))
_DIGITS: Final = re.compile(rb"\d+")
_THOUSANDS: Final = re.compile(rb"\d,\d")
_LONGEST: Final = 2000
# So many layouts are kept; so many are made in all, for making one costs as much as reading some lines.
_KEPT: Final = 4
_MADE: Final = 64

Span = tuple[int, int]


class PlaceSpans(NamedTuple):
    """Where the numbers of the place stand in a line, and the rank of the step's name."""

    step: Span | None
    step_rank: int
    of_step: Span | None
    epoch: Span | None
    epochs: Span | None
    total: Span | None


# What a line of a known layout holds: the metric's candidates with their values, and the place: step, the
# rank of its name, its total, epoch, its total, the named total of steps. A plain tuple: it is made often.
Found = tuple[
    list[tuple[MetricCandidate, float]], int | None, int, int | None, float | None, int | None, int | None
]


class Layout:
    """The layout of one line. Digits of `literal` spans, such as those of keys, must be the same.

    Runs of digits before `body` must be as long as they were, for stamps and ranks are told by that; those
    behind it may have any length up to 15. `unless` is an expression that must not match at `body`.
    """

    def __init__(
        self,
        line: bytes,
        body: int,
        values: Sequence[tuple[MetricCandidate, Span]],
        places: PlaceSpans,
        *,
        literal: Sequence[Span],
        unless: bytes,
    ) -> None:
        spans = [span for _, span in values]
        spans += [span for span in places if isinstance(span, tuple)]
        order = sorted(spans)
        if any(left[1] > right[0] for left, right in pairwise(order)):
            raise ValueError("the numbers of a layout overlap")
        self._match = re.compile(_expression(line, body, order, literal, unless), re.DOTALL).fullmatch
        group = {span: number for number, span in enumerate(order)}
        self._values = [(candidate, group[span]) for candidate, span in values]
        self._one = self._values[0] if len(self._values) == 1 else None
        self._at = tuple(
            None if span is None else group[span]
            for span in (places.step, places.of_step, places.epoch, places.epochs, places.total)
        )
        self._step_rank = places.step_rank

    def read(self, line: bytes) -> Found | None:
        """Return what the line holds, or None where its layout is another."""
        match = self._match(line)
        if match is None:
            return None
        numbers = match.groups()
        if self._one is not None:
            candidate, at = self._one
            pairs = [(candidate, float(numbers[at]))]
        else:
            pairs = [(candidate, float(numbers[at])) for candidate, at in self._values]
        step, of_step, epoch, epochs, total = self._at
        return (
            pairs,
            None if step is None else int(numbers[step]),
            self._step_rank,
            None if of_step is None else int(numbers[of_step]),
            None if epoch is None else float(numbers[epoch]),
            None if epochs is None else int(numbers[epochs]),
            None if total is None else int(numbers[total]),
        )


class Layouts:
    """The few layouts that a log's lines have, the latest first."""

    def __init__(self) -> None:
        self._kept: list[Layout] = []
        self._made = 0

    @property
    def wanted(self) -> bool:
        """Whether one more may be made."""
        return self._made < _MADE

    def add(self, layout: Layout | None) -> None:
        """Keep a layout, if there is one; the one that was not met for longest goes."""
        if layout is None:
            return
        self._made += 1
        self._kept = [layout, *self._kept[: _KEPT - 1]]

    def read(self, line: bytes) -> Found | None:
        """Return what a line of a known layout holds."""
        kept = self._kept
        if not kept:
            return None
        found = kept[0].read(line)
        if found is not None:
            return found
        for number in range(1, len(kept)):
            found = kept[number].read(line)
            if found is not None:
                kept.insert(0, kept.pop(number))
                return found
        return None


def may_have_layout(line: bytes, body: int) -> bool:
    """Whether length alone tells the runs of digits behind `body` apart from nothing else."""
    return (
        len(line) <= _LONGEST
        and _THOUSANDS.search(line, body) is None
        and _TOO_LONG.search(line, body) is None
    )


def _expression(
    line: bytes, body: int, captured: Sequence[Span], literal: Sequence[Span], unless: bytes
) -> bytes:
    opens, closes = {start for start, _ in captured}, {end for _, end in captured}
    fixed = {at for start, end in literal for at in range(start, end)}
    parts: list[bytes] = []
    at = 0
    while at <= len(line):
        if at in closes:
            parts.append(b")")
        if at == body:
            parts.append(b"(?!" + unless + b")")
        if at in opens:
            parts.append(b"(")
        run = _DIGITS.match(line, at)
        if run is None or at in fixed:
            parts.append(re.escape(line[at : at + 1]))
            at += 1
        else:
            length = run.end() - at
            most = _MOST_OF_FRACTION if line[at - 1 : at] == b"." else _MOST_DIGITS
            parts.append(b"\\d{%d}" % length if at < body else b"\\d{1,%d}+" % most)
            at = run.end()
    return b"".join(parts)
