"""One picture for all who watch: drawn when something has changed, and no more often than the pace allows."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

PACE: Final = 0.5
HEARTBEAT: Final = 10.0
LISTENERS: Final = 16
_SHARE: Final = 0.05  # of the loop's time that drawing may take
_BYTES_PER_SECOND: Final = 256 * 1024  # to one listener, about
_STILL_HERE: Final = b": still here\n\n"
_END: Final = b"event: end\ndata: {}\n\n"


class CrowdedError(Exception):
    """As many watch as may."""


class Feed:
    """Pictures as server-sent events.

    A listener that is slow misses pictures in between, never the newest one, and nothing is kept for it.
    Between two pictures lie `pace` seconds at least; more where they take long to draw, or are large.
    """

    def __init__(
        self,
        draw: Callable[[], bytes],
        *,
        pace: float = PACE,
        heartbeat: float = HEARTBEAT,
        listeners: int = LISTENERS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Send what `draw` returns, one line of JSON; a comment after `heartbeat` seconds without one."""
        self._draw, self._pace, self._heartbeat = draw, pace, heartbeat
        self.most = listeners
        """How many may watch at once."""
        self._monotonic = monotonic
        self._listeners = 0
        self._changes = 0
        self._news, self._ending = asyncio.Event(), asyncio.Event()
        self._picture = b""
        self._pictured = 0
        """How many changes are in the picture."""
        self._due = monotonic()

    @property
    def listeners(self) -> int:
        """How many watch."""
        return self._listeners

    def tell_changed(self) -> None:
        """Say that the last picture is not true any more; without listeners it costs nothing."""
        self._changes += 1
        self._news.set()

    def end(self) -> None:
        """Send everybody one last picture, and the word that it is the last."""
        if not self._ending.is_set() and self._listeners and self._pictured < self._changes:
            self._take_picture()
        self._ending.set()
        self._news.set()

    async def events(self) -> AsyncGenerator[bytes]:
        """Yield what a listener is sent, the present picture first. Raises CrowdedError."""
        if self._listeners >= self.most:
            raise CrowdedError(f"{self.most} watch already")
        self._listeners += 1
        try:
            self.tell_changed()  # nobody watched, perhaps, and the last picture is old
            seen = 0
            while not self._ending.is_set():
                left = self._due - self._monotonic()
                if self._pictured < self._changes and left <= 0:
                    self._take_picture()
                if seen < self._pictured:
                    seen = self._pictured
                    yield self._picture
                elif self._pictured < self._changes:
                    await _set_within(self._ending, left)
                else:
                    self._news.clear()
                    if not await _set_within(self._news, self._heartbeat):
                        yield _STILL_HERE
            if seen < self._pictured:
                yield self._picture
            yield _END
        finally:
            self._listeners -= 1

    def _take_picture(self) -> None:
        began = self._monotonic()
        self._pictured = self._changes
        self._picture = b"event: view\ndata: " + self._draw() + b"\n\n"
        now = self._monotonic()
        rest = max(self._pace, (now - began) / _SHARE, len(self._picture) / _BYTES_PER_SECOND)
        self._due = now + rest


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
