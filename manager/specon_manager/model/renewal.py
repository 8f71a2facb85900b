"""What is different between two mappings of records, and what is kept of the first for the second."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import eq, is_not
from typing import Generic, TypeVar

from specon_manager.model.overlay import Overlay, differing, flat

V = TypeVar("V")

Positions = dict[str, int]
"""Of each name in the order of the records: numbers grow, not by one only."""


def positions(records: Mapping[str, V]) -> Positions:
    """Return the position of each name."""
    return {name: number for number, name in enumerate(records)}


def renewed(
    before: Mapping[str, V], position: Positions, after: Mapping[str, V]
) -> tuple[Positions, Iterable[str]] | None:
    """Return the positions in `after`, and the names whose records may differ, those that are gone included.

    `position` is that in `before`. None: what both have in common is in another order.
    """
    if after is before:
        return position, ()
    if _follows(before, after):
        found = tuple(differing(before, after))
        added = [name for name in found if name not in position]
        return (position if not added else _extend(position, added)), found
    was, now = flat(before), flat(after)
    names, known = list(now), list(position)
    if names == known:
        return position, compress(names, map(is_not, was.values(), now.values()))
    gone = position.keys() - now.keys()
    if gone:
        known = [name for name in known if name not in gone]
    if names[: len(known)] != known:
        return None
    added = names[len(known) :]
    if not gone:
        same = compress(known, map(is_not, was.values(), now.values()))
        return _extend(position, added), [*same, *added]
    position = _extend({name: position[name] for name in known}, added)
    return position, [*gone, *(name for name, record in now.items() if was.get(name) is not record)]


def merged(
    names: tuple[str, ...], apart: set[str], more: Iterable[str], at: Callable[[str], int]
) -> tuple[str, ...]:
    """Return the names without those `apart` and with `more`, in order."""
    more = tuple(more)
    if not more and apart.isdisjoint(names):
        return names
    return tuple(sorted((*(name for name in names if name not in apart), *more), key=at))


class Chosen(Generic[V]):
    """The names of the records that a rule chooses, in their order: kept, and renewed for those that differ.

    The rule looks at one record alone. Only a cache: no answer depends on who asked before.
    """

    def __init__(self, rule: Callable[[V], bool]) -> None:
        self._rule = rule
        self._last: tuple[Mapping[str, V], Positions, tuple[str, ...]] | None = None

    def __call__(self, records: Mapping[str, V]) -> tuple[str, ...]:
        """Return the names of those that are chosen."""
        last = self._last
        if last is not None and last[0] is records:
            return last[2]
        rule = self._rule
        found = None if last is None else renewed(last[0], last[1], records)
        if last is None or found is None:
            position = positions(records)
            names = tuple(name for name, record in records.items() if rule(record))
        else:
            position, changed = found
            apart = set(changed)
            more = (name for name in apart if name in records and rule(records[name]))
            names = merged(last[2], apart, more, position.__getitem__)
        self._last = records, position, names
        return names


class Differing(Generic[V]):
    """The names of those records that may have changed since it was asked last."""

    def __init__(self) -> None:
        self._last: Mapping[str, V] = {}
        self._position: Positions = {}

    def __call__(self, records: Mapping[str, V]) -> Iterable[str]:
        """Return the names, also of records that are gone; at first all of them."""
        found = renewed(self._last, self._position, records)
        if found is None:
            names: Iterable[str] = self._last.keys() | records.keys()
            self._position = positions(records)
        else:
            self._position, names = found
        self._last = records
        return names


def _follows(before: Mapping[str, V], after: Mapping[str, V]) -> bool:
    """Whether `after` came of `before` by changes laid over it: it has all of those before, in order."""
    if not isinstance(after, Overlay):
        return False
    if not isinstance(before, Overlay):
        return after.base is before
    laid = before.laid
    return after.base is before.base and len(laid) <= len(after.laid) and all(map(eq, laid, after.laid))


def _extend(position: Positions, names: Sequence[str]) -> Positions:
    """Return the positions with those of more names, behind all others."""
    if not names:
        return position
    last = position[next(reversed(position))] if position else -1
    return position | {name: number for number, name in enumerate(names, last + 1)}
