r"""Regular expressions that are safe to search lines with, and the longest line for each.

Python's engine backtracks: some expressions take a time that grows exponentially with the line. They are
told by their form, before anything is searched:

- a repetition of more than one time of something that itself repeats, has alternatives or is optional, such
  as `(a+)+`, `(a|aa)+`, `(?:\w+ )*` and `(.*a){20}`, is refused;
- so are back references, conditions and the flag of locales;
- of the others, the steps that a search can take grow with a power of the length: one for the search
  from each place (none behind a leading `^`), one for each open-ended repetition that what follows could
  take over (`.*x`; not `\d+/`, where the slash ends it, and not `step=\d+`, where the sign before begins
  it), and one for all repetitions that end by themselves. Whatever may fail behind a repetition makes it try
  again: a letter, `$`, `\b`, a look-ahead. Long stretches that match a part of themselves (`a{1000}`) cost
  their length again at each step. The longest of `LENGTHS` for which the steps stay below the budget is the
  longest line that is searched; where none is left, the expression is refused.

An expression comes from a stranger: its length is looked at first, and the work grows with its length alone.
"""

import math
import re

# The parser of regular expressions has no public name since Python 3.11; its tree is the only source of this.
import re._constants as op  # type: ignore[import-not-found]
import re._parser as regex_parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Sequence
from typing import Final, NamedTuple

from specon_sidecar.formats.pattern_tree import ALL, REPEATS, Bytes, Part, parts_of, stretch_of

LONGEST_PATTERN: Final = 1000
"""Characters of an expression."""
LENGTHS: Final = (4096, 2048, 1024, 768, 512, 256, 192)
"""Bytes of a line."""
_BUDGET: Final = 8e7
_LONG: Final = 16  # a bounded repetition of this many or more counts as open-ended
_LAZY: Final = 4  # a lazy repetition is so much slower
_LOOKING: Final = 2  # so much slower is each step before a look-ahead or behind a look-behind
_COMPARED: Final = 64  # places of a fixed stretch; a longer one is taken to begin within itself everywhere
_FAST: Final = 8  # so many places of a fixed stretch are compared in the time of one step


class SafePattern(NamedTuple):
    """An expression that may be searched for."""

    expression: re.Pattern[bytes]
    longest_line: int
    """Bytes of the longest line that may be searched."""


def compile_safely(pattern: str) -> SafePattern:
    """Compile an expression that anybody may have written.

    Raises nothing but ValueError, whatever the text: it names the mistake, to stand behind the name of the
    expression. Costs some 20 ms of processor time at most.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of a form whose meaning may change: the pattern's owner meant it
            encoded = pattern.encode()
            expression = re.compile(encoded)
            tree = regex_parser.parse(encoded)
    except Exception as error:  # noqa: BLE001 - what the engine raises of a stranger's text has no bound
        said = str(error) or type(error).__name__
        raise ValueError(f"is not a regular expression: {said}") from None
    if expression.flags & re.LOCALE:
        raise ValueError("has the flag L, whose meaning depends on the machine; it is not supported")
    try:
        anchored = bool(tree) and tree[0] == (op.AT, op.AT_BEGINNING)
        return SafePattern(expression, _longest_line(parts_of(tree), anchored=anchored))
    except RecursionError:
        raise ValueError("has too many groups within each other") from None


def longest_line(pattern: str) -> int:
    """Return the length of the longest line, bytes, that `pattern` may search; raises as `compile_safely`."""
    return compile_safely(pattern).longest_line


class _Cost:
    def __init__(self) -> None:
        self.open = 0
        self.closed = False
        self.begun = False
        """Whether a repetition was left out because of what stands before it."""
        self.factor = 1.0


def _longest_line(parts: Sequence[Part], *, anchored: bool) -> int:
    cost = _Cost()
    _walk(parts, cost, before=None, after=None)
    # Runs that are told by what begins them share the places from which the search begins.
    degree = cost.open + (0 if anchored and not cost.begun else 1) + (1 if cost.closed else 0)
    factor = math.log(cost.factor * _rereading(parts)) - math.lgamma(degree + 1)
    for length in LENGTHS:
        if degree * math.log(length) + factor <= math.log(_BUDGET):
            return length
    raise ValueError(
        f"can match in too many ways: it has {cost.open} open-ended repetitions that could take over from"
        " each other, beside short ones and alternatives; use at most two, or end each at a character that it"
        " cannot match, as in [^ ]+ followed by a blank"
    )


def _walk(parts: Sequence[Part], cost: _Cost, before: Bytes | None, after: Bytes | None) -> None:
    """Add up what the parts cost.

    `before` are the bytes that the one just before can be, None where that is not known; `after` are those
    that may come behind, None where nothing behind can fail.
    """
    for index in reversed(range(len(parts))):
        part = parts[index]
        if index:
            one = parts[index - 1]
            known = one.holds if one.kind in (op.LITERAL, op.IN) else None
        else:
            known = before
        if part.kind in REPEATS:
            _repeat(part, cost, known, after)
        elif part.kind in (op.ASSERT, op.ASSERT_NOT):
            cost.factor *= _LOOKING
            _walk(part.branches[0], cost, None, ALL)
        else:
            cost.factor *= max(1, len(part.branches))
            for branch in part.branches:
                _walk(branch, cost, known, after)
        after = _before(part, after)


def _before(part: Part, after: Bytes | None) -> Bytes | None:
    """Return with which bytes this part and what comes behind it may begin; None where neither can fail."""
    if part.allows is not None:
        return part.allows
    if not part.may_be_empty:
        return part.begins
    return None if after is None else part.begins | after


def _repeat(part: Part, cost: _Cost, before: Bytes | None, after: Bytes | None) -> None:
    least, most = part.times
    body = part.branches[0]
    many = most > 1
    if many and stretch_of(body) is None:
        raise ValueError(
            "repeats something that itself repeats, has alternatives or is optional, as (a+)+ does; that can"
            " take forever"
        )
    _walk(body, cost, None, ALL if many else after)
    if least == most or after is None:
        return  # one way to match it, or nothing behind it that could fail
    holds = part.holds
    if most - least < _LONG:
        cost.factor *= int(most - least) + 1
    elif part.kind is op.POSSESSIVE_REPEAT:
        cost.closed = True
    elif before is not None and not before & holds:
        cost.begun = True  # runs that begin after another byte do not overlap
    elif not after & holds:
        # What follows cannot begin where this could still go on, so there is one way to match it.
        cost.closed = True
    else:
        cost.open += 1
        cost.factor *= _LAZY if part.kind is op.MIN_REPEAT else 1


def _rereading(parts: Sequence[Part]) -> float:
    """Return how many steps the longest fixed stretch may cost at each place of a line, at least 1."""
    most = 1.0
    places: list[Bytes] = []
    for part in parts:
        if part.stretch is not None:
            places += part.stretch
            continue
        most = max(most, _overlap(places), *(_rereading(one) for one in part.branches))
        places = []
    return max(most, _overlap(places))


def _overlap(places: Sequence[Bytes]) -> float:
    """Return the steps for a stretch: nearly all of it at each place where it may begin within itself."""
    size = len(places)
    if size <= _FAST:
        return 1.0
    shift = 1
    if size <= _COMPARED:
        while not all(places[at - shift] & places[at] for at in range(size - 1, shift - 1, -1)):
            shift += 1
    return 1 + size / shift / _FAST
