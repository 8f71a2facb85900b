"""The differences between two mappings of records, and the results of the first that hold for the second."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from operator import eq, is_not
from typing import Final, Generic, TypeVar

from msgspec import Struct

from specon_manager.model.overlay import Overlay, differing, flat

V = TypeVar("V")
K = TypeVar("K", bound=Hashable)

Positions = dict[str, int]
"""Of each name in the order of the records: numbers grow, not by one only."""


class _Compared(Struct):
    """The differences between two mappings; no `names`: their common keys are in another order."""

    before: Mapping[str, object]
    after: Mapping[str, object]
    names: tuple[str, ...] | None
    added: list[str]
    gone: list[str]
    positions: list[tuple[Positions, Positions]]
    """Before and after, of each cache that asked."""
    touched: Iterable[str] | None = None
    """What one of them found to be different in more than what sidecars say."""


_AT_ONCE: Final = 512

# Several caches ask for the same records one after the other: these are the last answers.
_numbered: deque[tuple[Mapping[str, object], Positions]] = deque(maxlen=3)
_compared: deque[_Compared] = deque(maxlen=4)


def forget_compared() -> None:
    """Let go of former records: the answers are of use as long as a Tick asks for the same ones."""
    _numbered.clear()
    _compared.clear()


def positions(records: Mapping[str, V]) -> Positions:
    """Return the position of each name."""
    for known, position in _numbered:
        if known is records:
            return position
    for each in _compared:
        if each.after is records and each.positions:
            return each.positions[-1][1]
    names = list(flat(records))
    # Mostly other records of the same names: to compare these takes a tenth of the time.
    same = (each for _, each in _numbered if len(each) == len(names) and list(each) == names)
    position = next(same, {}) or {name: number for number, name in enumerate(names)}
    _numbered.append((records, position))
    return position


def renew(
    before: Mapping[str, V], position: Positions, after: Mapping[str, V]
) -> tuple[Positions, tuple[str, ...]] | None:
    """Return the positions in `after`, and the names whose records may differ, those that are gone included.

    `position` is that in `before`. None: what both have in common is in another order.
    """
    if after is before:
        return position, ()
    found = next((each for each in _compared if each.before is before and each.after is after), None)
    if found is None:
        found = _compare(before, after)
        _compared.append(found)
    if found.names is None:
        return None
    latter = next((each for former, each in found.positions if former is position), None)
    if latter is None:
        latter = _move(position, found.added, found.gone)
        found.positions.append((position, latter))
    return latter, found.names


def tell_touched(before: Mapping[str, V], after: Mapping[str, V], touched: Iterable[str]) -> None:
    """Take from one cache, for others, which of the records differ in more than what sidecars say."""
    for each in _compared:
        if each.before is before and each.after is after:
            each.touched = touched


def find_touched(before: Mapping[str, V], after: Mapping[str, V]) -> Iterable[str] | None:
    """Return that, or None where nobody has told it; a few others may be among them."""
    found = (each.touched for each in _compared if each.before is before and each.after is after)
    return next(found, None)


def _compare(before: Mapping[str, V], after: Mapping[str, V]) -> _Compared:
    if _follows(before, after):
        names = tuple(differing(before, after))
        added = [name for name in names if name not in before]
        return _Compared(before, after, names, added, [], [])
    was, now = flat(before), flat(after)
    old, new = list(was), list(now)
    if len(old) <= len(new) and old == (new if len(old) == len(new) else new[: len(old)]):
        # As mostly nothing is gone, and new keys come last.
        found, added = list(compress(old, map(is_not, was.values(), now.values()))), new[len(old) :]
        return _Compared(before, after, (*found, *added), added, [], [])
    former, present = list(was.values()), list(now.values())
    found, gone, at, to = [], list[str](), 0, 0
    # Side by side, many at once: to look each name up takes several times as long.
    while at < len(old) and to < len(new):
        length = min(_AT_ONCE, len(old) - at, len(new) - to)
        if old[at : at + length] != new[to : to + length]:
            length = next(n for n in range(length) if old[at + n] != new[to + n])
        differs = map(is_not, former[at : at + length], present[to : to + length])
        found += compress(new[to : to + length], differs)
        at, to = at + length, to + length
        while at < len(old) and old[at] not in now:
            gone.append(old[at])
            at += 1
        if length < _AT_ONCE and at < len(old) and to < len(new) and old[at] != new[to]:
            break
    added = new[to:]
    ordered = at == len(old) and not any(map(was.__contains__, added))
    return _Compared(before, after, (*gone, *found, *added) if ordered else None, added, gone, [])


def merge_names(
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
        found = None if last is None else renew(last[0], last[1], records)
        if last is None or found is None:
            position = positions(records)
            names = self._choose(records)
        elif 2 * len(found[1]) > len(records):
            # Most sidecars have reported: it is quicker to look at every record.
            position = found[0]
            names = self._choose(records)
        else:
            position, changed = found
            apart = set(changed)
            more = (name for name in apart if name in records and self._rule(records[name]))
            names = merge_names(last[2], apart, more, position.__getitem__)
        self._last = records, position, names
        return names

    def _choose(self, records: Mapping[str, V]) -> tuple[str, ...]:
        whole = flat(records)
        return tuple(compress(whole, map(self._rule, whole.values())))


class Tally(Generic[V, K]):
    """How many records a rule says the same of: kept, and renewed for those that differ.

    The rule looks at one record alone; None is not counted. Only a cache: no answer depends on who asked
    before.
    """

    def __init__(self, rule: Callable[[V], K | None]) -> None:
        self._rule = rule
        self._last: tuple[Mapping[str, V], Positions, dict[K, int]] | None = None

    def __call__(self, records: Mapping[str, V]) -> Mapping[K, int]:
        """Return the number of records of each answer that there is."""
        last = self._last
        if last is not None and last[0] is records:
            return last[2]
        found = None if last is None else renew(last[0], last[1], records)
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
        found = renew(self._last, self._position, records)
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


def _move(position: Positions, added: Sequence[str], gone: Iterable[str]) -> Positions:
    """Return the positions without those that are gone, and with those of more names behind all others."""
    if not added and not gone:
        return position
    last = position[next(reversed(position))] if position else -1
    found = dict(position)
    for name in gone:
        del found[name]
    found.update((name, number) for number, name in enumerate(added, last + 1))
    return found
