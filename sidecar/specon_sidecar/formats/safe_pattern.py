r"""Which regular expressions are safe to search lines with, and lines of which length.

Python's engine backtracks: some expressions take a time that grows exponentially with the line. They are
told by their form, before anything is searched:

- a repetition of more than one time of something that itself repeats, has alternatives or is optional, such
  as `(a+)+`, `(a|aa)+`, `(?:\w+ )*` and `(.*a){20}`, is refused;
- so are back references and conditions;
- of what is left, the steps that a search can take grow with a power of the length: one for the search
  from each place (none behind a leading `^`), one for each open-ended repetition that what follows could
  take over (`.*x`; not `\d+/`, where the slash ends it, and not `step=\d+`, where the sign before begins
  it), and one for all repetitions that end by themselves. The longest of `LENGTHS` for which the steps stay
  below the budget is the longest line that is searched; where none is left, the expression is refused.
"""

# The parser of regular expressions has no public name since Python 3.11; its tree is the only source of this.
import re._constants as op  # type: ignore[import-not-found]
import re._parser as regex_parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator, Sequence
from math import factorial
from typing import Any, Final

LENGTHS: Final = (4096, 2048, 1024, 768, 512, 256, 192)
"""Bytes of a line."""
_BUDGET: Final = 8e7
_LONG: Final = 16  # a bounded repetition of this many or more counts as open-ended
_LAZY: Final = 4  # a lazy repetition is so much slower
_ALL: Final = frozenset(range(256))

_Node = tuple[Any, Any]


def longest_line(pattern: str) -> int:
    """Return the length of the longest line, bytes, that `pattern` may search.

    Raises ValueError, saying what, where the pattern is not safe at any length. The pattern must compile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a form whose meaning may change: the pattern's owner meant it
        tree = list(regex_parser.parse(pattern.encode()))
    anchored = bool(tree) and tree[0] == (op.AT, op.AT_BEGINNING)
    cost = _Cost()
    _walk(tree, cost, before=None, followed=None)
    degree = cost.open + (0 if anchored else 1) + (1 if cost.closed else 0)
    for length in LENGTHS:
        if length**degree * cost.factor / factorial(degree) <= _BUDGET:
            return length
    raise ValueError(
        f"has {cost.open} open-ended repetitions that could take over from each other; use at most two, or"
        " end each at a character that it cannot match, as in [^ ]+ followed by a blank"
    )


class _Cost:
    def __init__(self) -> None:
        self.open = 0
        self.closed = False
        self.factor = 1


def _walk(
    nodes: Sequence[_Node], cost: _Cost, before: frozenset[int] | None, followed: frozenset[int] | None
) -> None:
    """Add up what the nodes cost.

    `before` are the bytes that the one just before can be, None where that is not known; `followed` are
    those that may come after, None at the end.
    """
    for index, (kind, value) in enumerate(nodes):
        if index:
            before = _begins(nodes[index - 1])[0] if nodes[index - 1][0] in (op.LITERAL, op.IN) else None
        after = _first(nodes[index + 1 :], followed)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            _repeat(kind, value, cost, before, after)
        elif kind is op.SUBPATTERN:
            _walk(value[3], cost, before, after)
        elif kind is op.ATOMIC_GROUP:
            _walk(value, cost, before, after)
        elif kind is op.BRANCH:
            cost.factor *= len(value[1])
            for branch in value[1]:
                _walk(branch, cost, before, after)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            _walk(value[1], cost, None, _ALL)
        elif kind in (op.GROUPREF, op.GROUPREF_EXISTS, op.GROUPREF_IGNORE):
            raise ValueError("has a back reference or a condition; neither is supported")


def _repeat(
    kind: Any, value: Any, cost: _Cost, before: frozenset[int] | None, after: frozenset[int] | None
) -> None:
    least, most, body = value
    many = most is op.MAXREPEAT or most > 1
    if many and not all(_is_fixed(node) for node in body):
        raise ValueError(
            "repeats something that itself repeats, has alternatives or is optional, as (a+)+ does; that can"
            " take for ever"
        )
    _walk(list(body), cost, None, _ALL)
    if kind is op.POSSESSIVE_REPEAT or least == most or after is None:
        return  # one way to match it, or nothing behind it that could fail
    if most is not op.MAXREPEAT and most - least < _LONG:
        cost.factor *= int(most - least) + 1
    elif before is not None and before.isdisjoint(_alphabet(body)):
        return  # runs that begin after another byte do not overlap
    elif after.isdisjoint(_alphabet(body)):
        # What follows cannot begin where this could still go on, so there is one way to match it.
        cost.closed = True
    else:
        cost.open += 1
        cost.factor *= _LAZY if kind is op.MIN_REPEAT else 1


def _alphabet(nodes: Sequence[_Node]) -> frozenset[int]:
    """Return all bytes that are matched anywhere in a repeated body."""
    found: frozenset[int] = frozenset()
    for node in nodes:
        found |= _alphabet(node[1][3]) if node[0] is op.SUBPATTERN else _begins(node)[0]
    return found


def _is_fixed(node: _Node) -> bool:
    kind, value = node
    if kind is op.SUBPATTERN:
        return all(_is_fixed(one) for one in value[3])
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return bool(value[0] == value[1]) and all(_is_fixed(one) for one in value[2])
    return kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN, op.AT)


def _first(nodes: Sequence[_Node], followed: frozenset[int] | None) -> frozenset[int] | None:
    """Return the bytes with which these nodes, then what follows, may begin; None: nothing need follow."""
    found: frozenset[int] = frozenset()
    for node in nodes:
        begins, may_be_empty = _begins(node)
        found |= begins
        if not may_be_empty:
            return found
    return None if followed is None else found | followed


def _begins(node: _Node) -> tuple[frozenset[int], bool]:
    kind, value = node
    if kind is op.LITERAL:
        return frozenset(_cases(value)), False
    if kind is op.IN and not any(one is op.NEGATE for one, _ in value):
        return frozenset(byte for item in value for byte in _members(item)), False
    if kind is op.IN:
        return _ALL - frozenset(byte for item in value[1:] for byte in _members(item)), False
    if kind is op.SUBPATTERN:
        inner = _first(list(value[3]), frozenset())
        return inner or frozenset(), _may_be_empty(value[3])
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        inner = _first(list(value[2]), frozenset())
        return inner or frozenset(), value[0] == 0 or _may_be_empty(value[2])
    if kind is op.AT:
        return frozenset(), True
    if kind is op.NOT_LITERAL:
        return _ALL - {value}, False
    return _ALL, kind is not op.ANY


def _may_be_empty(nodes: Sequence[_Node]) -> bool:
    return all(_begins(node)[1] for node in nodes)


def _members(item: tuple[Any, Any]) -> Iterator[int]:
    kind, value = item
    if kind is op.LITERAL:
        yield from _cases(value)
    elif kind is op.RANGE:
        for byte in range(value[0], value[1] + 1):
            yield from _cases(byte)
    elif kind is op.CATEGORY:
        yield from _CATEGORIES.get(value, _ALL)
    # NEGATE is handled by the caller.


def _cases(byte: int) -> tuple[int, ...]:
    """Both cases, for the expression may ignore them."""
    one = bytes((byte,))
    return (*one.lower(), *one.upper())


_DIGITS: Final = frozenset(b"0123456789")
_BLANKS: Final = frozenset(b" \t\n\r\f\v")
_WORDS: Final = frozenset(byte for byte in range(128) if chr(byte).isalnum()) | {95}
_CATEGORIES: Final = {
    op.CATEGORY_DIGIT: _DIGITS,
    op.CATEGORY_NOT_DIGIT: _ALL - _DIGITS,
    op.CATEGORY_SPACE: _BLANKS,
    op.CATEGORY_NOT_SPACE: _ALL - _BLANKS,
    op.CATEGORY_WORD: _WORDS,
    op.CATEGORY_NOT_WORD: _ALL - _WORDS,
}
