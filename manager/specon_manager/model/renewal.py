"""What is different between two mappings of records, and what is kept of the first for the second."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from operator import eq, is_not
from typing import Generic, TypeVar

from specon_manager.model.overlay import Overlay, differing, flat

V = TypeVar("V")
K = TypeVar("K", bound=Hashable)

Positions = dict[str, int]
"""Of each name in the order of the records: numbers grow, not by one only."""


Difference = tuple[Positions, tuple[str, ...]] | None
"""The positions afterwards, and the names whose records may differ."""

# Several caches ask for the same records one after the other: these are the last answers.
_numbered: deque[tuple[Mapping[str, object], Positions]] = deque(maxlen=2)
_compared: deque[tuple[Mapping[str, object], Positions, Mapping[str, object], Difference]] = deque(maxlen=4)


def positions(records: Mapping[str, V]) -> Positions:
    """Return the position of each name."""
    for known, position in _numbered:
        if known is records:
            return position
    position = {name: number for number, name in enumerate(records)}
    _numbered.append((records, position))
    return position


def renewed(before: Mapping[str, V], position: Positions, after: Mapping[str, V]) -> Difference:
    """Return the positions in `after`, and the names whose records may differ, those that are gone included.

    `position` is that in `before`. None: what both have in common is in another order.
    """
    if after is before:
        return position, ()
    for former, at, latter, known in _compared:
        if former is before and latter is after and at is position:
            return known
    found = _compare(before, position, after)
    answer = None if found is None else (found[0], tuple(found[1]))
    _compared.append((before, position, after, answer))
    return answer


def _compare(
    before: Mapping[str, V], position: Positions, after: Mapping[str, V]
) -> tuple[Positions, Iterable[str]] | None:
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


class Tally(Generic[V, K]):
    """How many records a rule says the same of: kept, and renewed for those that differ.

    The rule looks at one record alone; None is not counted. Only a cache: no answer depends on who asked before.
    """

    def __init__(self, rule: Callable[[V], K | None]) -> None:
        self._rule = rule
        self._last: tuple[Mapping[str, V], Positions, dict[K, int]] | None = None

    def __call__(self, records: Mapping[str, V]) -> Mapping[K, int]:
        """Return the number of records of each answer that there is."""
        last = self._last
        if last is not None and last[0] is records:
            return last[2]
        found = None if last is None else renewed(last[0], last[1], records)
        if last is None or found is None:
            counts: dict[K, int] = {}
            position = positions(records)
            self._count(counts, records.values(), 1)
        else:
            (position, names), before, counts = found, last[0], dict(last[2])
            self._count(counts, (before[name] for name in names if name in before), -1)
            self._count(counts, (records[name] for name in names if name in records), 1)
        self._last = records, position, counts
        return counts

    def _count(self, counts: dict[K, int], records: Iterable[V], step: int) -> None:
        for record in records:
            said = self._rule(record)
            if said is not None:
                number = counts.get(said, 0) + step
                if number:
                    counts[said] = number
                else:
                    del counts[said]


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
