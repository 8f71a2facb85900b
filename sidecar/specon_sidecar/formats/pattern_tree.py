"""A regular expression as a tree of parts, each with what can be said of it alone. Pure."""

# The parser of regular expressions has no public name since Python 3.11; its tree is the only source of this.
import re._constants as op  # type: ignore[import-not-found]
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

LONGEST_STRETCH: Final = 4096
"""Places of a stretch that are kept: no line that is searched is longer."""
REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)

Bytes = int
"""A set of bytes: bit 65 is `A`."""
ALL: Final[Bytes] = (1 << 256) - 1


class Part(NamedTuple):
    """A node of the tree with what can be said of it alone."""

    kind: Any
    branches: Sequence[Sequence["Part"]] = ()
    begins: Bytes = 0
    """With which bytes it may begin."""
    holds: Bytes = 0
    """Which bytes it may hold."""
    may_be_empty: bool = False
    stretch: tuple[Bytes, ...] | None = None
    """Of what matches in one way only: the bytes at each of its places."""
    times: tuple[int, float] = (1, 1)
    """How often a repetition repeats: at least, at most."""
    allows: Bytes | None = None
    """Of what holds no byte and may fail, as `$` does: the bytes that may stand there."""


def parts_of(nodes: Any) -> list[Part]:
    """Return the parts of a sequence of nodes; raises ValueError for unsupported ones."""
    return [_part(kind, value) for kind, value in nodes]


def _part(kind: Any, value: Any) -> Part:
    if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
        found = _bytes_of(kind, value)
        return Part(kind, begins=found, holds=found, stretch=(found,))
    if kind is op.AT:
        ends = value in (op.AT_END, op.AT_END_STRING)
        return Part(kind, may_be_empty=True, stretch=(), allows=0 if ends else ALL)
    if kind in REPEATS:
        return _repetition(kind, int(value[0]), value[1], parts_of(value[2]))
    if kind is op.SUBPATTERN:
        return _group(kind, [parts_of(value[3])])
    if kind is op.ATOMIC_GROUP:
        return _group(kind, [parts_of(value)])
    if kind is op.BRANCH:
        return _group(kind, [parts_of(one) for one in value[1]])
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return Part(kind, [parts_of(value[1])], may_be_empty=True, allows=ALL)
    if kind is op.FAILURE:
        return Part(kind)
    raise ValueError("has a back reference or a condition; neither is supported")


def _group(kind: Any, branches: Sequence[Sequence[Part]]) -> Part:
    begins, holds, may_be_empty = 0, 0, False
    for branch in branches:
        empty = True
        for part in branch:
            holds |= part.holds
            begins |= part.begins if empty else 0
            empty = empty and part.may_be_empty
        may_be_empty = may_be_empty or empty
    stretch = stretch_of(branches[0]) if len(branches) == 1 else None
    return Part(kind, branches, begins, holds, may_be_empty, stretch)


def _repetition(kind: Any, least: int, most: Any, body: Sequence[Part]) -> Part:
    group = _group(kind, [body])
    stretch = None
    if least == most and group.stretch is not None:
        stretch = group.stretch * min(least, LONGEST_STRETCH // max(1, len(group.stretch)) + 1)
    times = least, float("inf") if most is op.MAXREPEAT else int(most)
    return group._replace(may_be_empty=least == 0 or group.may_be_empty, stretch=stretch, times=times)


def stretch_of(parts: Sequence[Part]) -> tuple[Bytes, ...] | None:
    """Return the bytes at each place of parts that match in one way only, None where there are others."""
    places: list[Bytes] = []
    for part in parts:
        if part.stretch is None:
            return None
        places += part.stretch
    return tuple(places[:LONGEST_STRETCH])


def _bytes_of(kind: Any, value: Any) -> Bytes:
    """Return which bytes one place may hold; more than that where case may be ignored."""
    if kind is op.ANY:
        return ALL
    if kind is op.LITERAL:
        return _either_case(1 << int(value))
    if kind is op.NOT_LITERAL:
        return ALL & ~(1 << int(value))
    if value[0][0] is op.NEGATE:
        # Those surely left out: one case alone may be.
        return ALL & ~_members(value[1:])
    return _either_case(_members(value))


def _members(items: Any) -> Bytes:
    found = 0
    for kind, value in items:
        if kind is op.LITERAL:
            found |= 1 << value
        elif kind is op.RANGE:
            found |= (1 << value[1] + 1) - (1 << value[0])
        else:
            found |= _CATEGORIES.get(value, ALL)
    return found


def _set(members: bytes) -> Bytes:
    return sum(1 << byte for byte in set(members))


def _either_case(members: Bytes) -> Bytes:
    """Return both cases, for the expression may ignore them."""
    # Small letters lie 32 above the capital ones.
    return members | (members & _CAPITALS) << 32 | (members & _CAPITALS << 32) >> 32


_CAPITALS: Final = _set(bytes(range(ord("A"), ord("Z") + 1)))
_DIGITS: Final = _set(b"0123456789")
_BLANKS: Final = _set(b" \t\n\r\f\v")
_WORDS: Final = _DIGITS | _CAPITALS | _CAPITALS << 32 | _set(b"_")
_CATEGORIES: Final[dict[Any, Bytes]] = {
    op.CATEGORY_DIGIT: _DIGITS,
    op.CATEGORY_NOT_DIGIT: ALL & ~_DIGITS,
    op.CATEGORY_SPACE: _BLANKS,
    op.CATEGORY_NOT_SPACE: ALL & ~_BLANKS,
    op.CATEGORY_WORD: _WORDS,
    op.CATEGORY_NOT_WORD: ALL & ~_WORDS,
}
