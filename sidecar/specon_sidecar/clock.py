"""The clock of a sidecar: a protocol, so that a test may have its own, and the real one."""

import asyncio
import time
from typing import Protocol


class Time(Protocol):
    """A clock that never goes back, seconds, and a way to wait on it."""

    def now(self) -> float:
        """Return the time."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class RealTime:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the time."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)
