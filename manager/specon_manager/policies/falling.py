"""Items by a value that only falls: who comes first is found among those that had most, not among all."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from math import inf, log2
from operator import itemgetter
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_PER_OCTAVE: Final = 16
_ABOVE: Final = 1 << 16  # so that numbers of buckets are above 0
_MARGIN: Final = 1 + 1e-9  # a logarithm is rounded
_LARGEST: Final = 1e300


class Falling(Generic[T]):
    """Items by a value that only falls, roughly in order."""

    def __init__(self, buckets: dict[int, dict[str, T]], at: dict[str, int]) -> None:
        """Take items by number of their bucket and name, and the bucket of each name."""
        self._buckets, self._at = buckets, at

    def renewed(self, gone: Iterable[str], more: Iterable[tuple[str, float, T]]) -> "Falling[T]":
        """Return a copy without those that are gone and with more, each with its value; this one stays."""
        buckets, at = self._buckets.copy(), self._at.copy()
        own: dict[int, dict[str, T]] = {}  # copies of buckets; the others are shared with this one
        for name in gone:
            if (number := at.pop(name, None)) is not None:
                if number not in own:
                    own[number] = buckets[number] = buckets[number].copy()
                del own[number][name]
        for name, value, item in more:
            at[name] = number = int(_PER_OCTAVE * log2(min(_LARGEST, value)) + _ABOVE)
            items = own.get(number)
            if items is None:
                items = own[number] = buckets[number] = buckets[number].copy() if number in buckets else {}
            items[name] = item
        return Falling(buckets, at)

    def __bool__(self) -> bool:
        return bool(self._at)

    def get(self, name: str) -> T | None:
        """Return the item of that name."""
        number = self._at.get(name)
        return None if number is None else self._buckets[number][name]

    def descending(
        self, key: Callable[[T], tuple[float, int] | None]
    ) -> Iterator[tuple[tuple[float, int], T]]:
        """Yield the items with their keys, in the order of those.

        The first part of a key is minus the value by now, which may be less than it was. Without a key
        an item is left out.
        """
        numbers = sorted((number for number, items in self._buckets.items() if items), reverse=True)
        held = list[tuple[tuple[float, int], T]]()
        for number, following in zip(numbers, [*numbers[1:], None], strict=False):
            found = ((key(item), item) for item in self._buckets[number].values())
            held += [(place, item) for place, item in found if place is not None]
            held.sort(key=itemgetter(0))
            # What comes in later buckets has less than their upper edge.
            edge = inf if following is None else -_MARGIN * 2 ** ((following + 1 - _ABOVE) / _PER_OCTAVE)
            passed = 0
            for passed, each in enumerate(held):  # noqa: B007  (how many were yielded)
                if each[0][0] >= edge:
                    break
                yield each
            else:
                passed = len(held)
            del held[:passed]


class Seen(Generic[T]):
    """What an iterator yields, to be gone through more than once; as far as nobody went it is not asked."""

    def __init__(self, source: Iterator[T]) -> None:
        """Take what nobody else goes through."""
        self._source, self._seen = source, list[T]()

    def __iter__(self) -> Iterator[T]:
        """Start with the first."""
        for position in count():
            if position == len(self._seen):
                more = list(islice(self._source, 1))
                if not more:
                    return
                self._seen += more
            yield self._seen[position]
