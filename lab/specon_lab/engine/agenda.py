"""Virtual time: what will happen, by time, and in the order of planning where the times are equal."""

import heapq
from collections.abc import Callable
from typing import Any


class Agenda:
    """A clock that jumps to the next happening.

    `expected` counts the happenings still to come that are sure to change something. Those that may be void
    by then, or come round for ever, are planned as `passing` and not counted.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.expected = 0
        self._heap: list[tuple[float, int, bool, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = 0

    def at(self, time: float, call: Callable[..., None], *arguments: Any, passing: bool = False) -> None:
        """Plan a call; a time that is past already means now."""
        self._planned += 1
        self.expected += not passing
        heapq.heappush(self._heap, (max(time, self.now), self._planned, passing, call, arguments))

    @property
    def upcoming(self) -> float | None:
        """When the next happening is due."""
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> bool:
        """Let the next happening of this very moment happen; False where there is none."""
        if not self._heap or self._heap[0][0] > self.now:
            return False
        _, _, passing, call, arguments = heapq.heappop(self._heap)
        self.expected -= not passing
        call(*arguments)
        return True
