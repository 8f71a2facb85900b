"""Follows what a container of this pod prints, as the manager relays it."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime
from typing import Final, Protocol

from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.observing.trouble import Sight

_LOG: Final = logging.getLogger(__name__)
# As the kubelet writes it before each line: as long for each, so that of two the later one compares greater.
_STAMP: Final = re.compile(
    rb"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\.[0-9]{9}(Z|[+-][0-9:]{5}) ?"
)
_PATH: Final = "standard output"
_FIRST_PAUSE: Final = 1.0  # seconds; doubled from try to try
_LONGEST_PAUSE: Final = 30.0


class Outputs(Protocol):
    """Who gives what a container prints."""

    def output(
        self, container: str, since: str
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Give it in pieces, with the time before each line, from a time on; raises OSError."""
        ...


class OutputFollower:
    """Hands out the lines as they come, each once, however often the way to them breaks."""

    def __init__(self, outputs: Outputs, container: str, *, pause: float = _FIRST_PAUSE) -> None:
        self._outputs, self._container = outputs, container
        self._first_pause = pause
        self._splitter = LineSplitter()
        self._last = b""
        self._at = 0.0
        self._known = False
        self._trouble = "it was not asked for yet"
        self._stopping = asyncio.Event()

    position = None
    """No place in a file: output is asked for by its time."""

    @property
    def event_positions(self) -> dict[str, FilePosition]:
        """None: these are of event files."""
        return {}

    @property
    def oversized(self) -> int:
        """Lines that were too long."""
        return self._splitter.oversized

    def look(self) -> Sight | None:
        """Return why there is nothing to read."""
        if self._trouble:
            return Sight("unreadable", _PATH, self._trouble)
        return Sight("empty", _PATH)

    def stop(self) -> None:
        """Let `batches` end with the output: that of an ended container ends by itself."""
        self._stopping.set()

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yield lists of lines, never empty."""
        async with contextlib.aclosing(self.follow_timed()) as batches:
            async for batch in batches:
                yield [line for _, line in batch]

    async def follow_timed(self) -> AsyncGenerator[list[tuple[float, bytes]], None]:
        """Yield lists of lines, never empty, each with when it was printed: seconds since the epoch."""
        pause = self._first_pause
        while True:
            last_time = self._stopping.is_set()
            try:
                async with self._outputs.output(self._container, self._since()) as pieces:
                    self._trouble = ""
                    async for piece in pieces:
                        pause = self._first_pause
                        if lines := self._new(self._splitter.feed(piece)):
                            yield lines
            except OSError as error:
                if not self._trouble:
                    _LOG.warning("%s: %s", _PATH, error)
                self._trouble = str(error)
            rest = self._splitter.flush()
            if last_time:
                if rest is not None and (lines := self._new([rest])):
                    yield lines
                return
            # Otherwise an unfinished line is not taken: it comes again, whole.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _since(self) -> str:
        """Return the time from which on to ask: whole seconds, so some lines come twice."""
        found = _STAMP.match(self._last)
        return "" if found is None else (found[1] + found[2]).decode("ascii")

    def _new(self, lines: list[bytes]) -> list[tuple[float, bytes]]:
        """Return the lines that were not handed out before, with their times beside them.

        What follows a carriage return has no time of its own: it belongs to the line before.
        """
        fresh = []
        for line in lines:
            found = _STAMP.match(line)
            if found is not None:
                self._known = found[0].rstrip() <= self._last
                if not self._known:
                    self._last = found[0].rstrip()
                    self._at = _seconds(found[1] + found[2])
            if not self._known and (text := line[found.end() :] if found is not None else line):
                fresh.append((self._at, text))
        return fresh


def _seconds(stamp: bytes) -> float:
    try:
        return datetime.fromisoformat(stamp.decode("ascii")).timestamp()
    except ValueError:  # as of a 31st of February
        return 0.0
