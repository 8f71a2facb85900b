"""Notices that this process stood still: what waited at its sockets meanwhile is older than it says.

A process is frozen by a signal, a debugger, a container that is paused, a machine that swaps. Afterwards it
reads old messages as if they came now.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

LOOK_SECONDS: Final = 0.25
LONGEST: Final = 2.0
"""Seconds between two looks from which on the process stood still."""
WAITS_SECONDS: Final = 1.0
"""For so long after a standstill what comes in may have waited."""


class Standstill:
    """Looks at the clock again and again, in the loop that answers requests."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Begin; without `watch` nothing is noticed."""
        self._monotonic, self._sleep = monotonic, sleep
        self._looked_at: float | None = None
        self._ended_at = float("-inf")

    async def watch(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                self.look()
                await self._sleep(LOOK_SECONDS)
        finally:
            self._looked_at = None

    def look(self) -> None:
        """Take note of the time, and whether nobody did so for long."""
        now = self._monotonic()
        if self._looked_at is not None and now - self._looked_at > LONGEST:
            self._ended_at = now
        self._looked_at = now

    def is_recent(self) -> bool:
        """Whether a message read now may have waited through a standstill; also before the next look."""
        now = self._monotonic()
        if self._looked_at is not None and now - self._looked_at > LONGEST:
            return True
        return now - self._ended_at < WAITS_SECONDS
