"""A pattern for a log that no format reads: made from the lines that come again with other numbers. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.table import REGULAR_EXPRESSION, make_reader

_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,3})?(?![\w.]*\w)")
_VALUE: Final = r"[-+.\deE]+"
_LONGEST: Final = 400  # characters of a line
_LITERAL: Final = 16  # characters before a number that tell it from others
_MOST_NUMBERS: Final = 24
_LEAST: Final = 3
_TRIED: Final = 5


class PatternProposal(NamedTuple):
    """A pattern that was tried on the lines, and what it finds."""

    pattern: str
    samples: int
    first: Sample
    last: Sample


def propose(lines: Sequence[bytes]) -> PatternProposal | None:
    """Return the pattern that finds most samples in these lines; None where no line comes again."""
    alike: dict[str, list[str]] = {}
    for line in lines:
        text = line.decode("utf-8", "replace")
        if len(text) <= _LONGEST and text.isprintable():
            alike.setdefault(_NUMBER.sub("#", text), []).append(text)
    groups = sorted(alike.values(), key=len, reverse=True)[:_TRIED]
    found = [tried for group in groups if len(group) >= _LEAST and (tried := _of(group, lines)) is not None]
    return max(found, key=lambda one: one.samples, default=None)


def _of(group: Sequence[str], lines: Sequence[bytes]) -> PatternProposal | None:
    rows = [[match.group() for match in _NUMBER.finditer(text)] for text in group]
    columns = list(zip(*rows, strict=False))[:_MOST_NUMBERS]
    varying = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    steps = [at for at in varying if _counts(columns[at])]
    values = [at for at in varying if at not in steps]
    # A number with a fraction is a better value than one without.
    values.sort(key=lambda at: not any("." in one for one in columns[at]))
    if not values:
        values, steps = steps[-1:], steps[:-1]
    if not values:
        return None
    step = next((at for at in steps if at != values[0]), None)
    return _try(_pattern(group[0], values[0], step), lines)


def _counts(column: Sequence[str]) -> bool:
    """Whether a number only grows and is whole: a step."""
    if not all(one.isdigit() for one in column):
        return False
    numbers = [int(one) for one in column]
    return all(left < right for left, right in pairwise(numbers))


def _pattern(text: str, value: int, step: int | None) -> str:
    """Return an expression of the text before the two numbers; any text may stand between them."""
    parts: list[str] = []
    before, skipped = 0, False
    for at, found in enumerate(_NUMBER.finditer(text)):
        literal = text[before : found.start()]
        before = found.end()
        if at not in {value, step}:
            skipped = True
            continue
        if parts and (skipped or len(literal) > _LITERAL):
            parts.append(".*")
        near = literal[-_LITERAL:]
        if len(near) < len(literal):
            near = near.partition(" ")[2] or near  # no half of a word
        shown = re.escape(near).replace("\\ ", " ")
        parts.append(shown + (f"(?P<value>{_VALUE})" if at == value else r"(?P<step>\d+)"))
        skipped = False
    return "".join(parts)


def _try(pattern: str, lines: Sequence[bytes]) -> PatternProposal | None:
    try:
        reader = make_reader(REGULAR_EXPRESSION, FormatOptions(pattern=pattern))
    except ValueError:
        return None
    samples = [*reader.read(lines), *reader.finish()]
    return PatternProposal(pattern, len(samples), samples[0], samples[-1]) if len(samples) >= _LEAST else None
