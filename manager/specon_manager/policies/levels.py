"""Items by a value that a call changes again and again: which of them has the least."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush


class Levels:
    """Items, by their positions, on levels of equal value. Of the lowest level the first item is known.

    Values are few and items are many: a level other than the lowest is not kept in order, and one that an
    item has left still names it.
    """

    __slots__ = ("_current", "_heap", "_on", "first", "lowest", "values")

    def __init__(self, values: Iterable[float]) -> None:
        """Take the value of each item; there must be one."""
        self.values = list(values)
        """By position: to be read only."""
        self._on: dict[float, list[int]] = {}
        for position, value in enumerate(self.values):
            if value in self._on:
                self._on[value].append(position)
            else:
                self._on[value] = [position]
        self._heap = list(self._on)
        heapify(self._heap)
        self.lowest = self._heap[0]
        """The least value."""
        self._current = self._on[self.lowest]
        self.first = self._current[0]
        """The first item that has it."""

    def change(self, position: int, value: float) -> None:
        """Give an item another value; `lowest` and `first` are as before until `settle` is called."""
        self.values[position] = value
        level = self._on.get(value)
        if level is None:
            self._on[value] = [position]
            heappush(self._heap, value)
        elif level is self._current:
            heappush(level, position)
        else:
            level.append(position)

    def settle(self) -> None:
        """Find which item has the least value now."""
        values, heap = self.values, self._heap
        while True:
            if heap[0] != self.lowest:
                self.lowest = heap[0]
                self._current = self._on[self.lowest]
                self._current.sort()
            level, lowest = self._current, self.lowest
            while level and values[level[0]] != lowest:
                heappop(level)
            if level:
                self.first = level[0]
                return
            del self._on[lowest]
            heappop(heap)
