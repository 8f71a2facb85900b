"""Follows whatever log a path means, or comes to mean: a file, event files, the best log of a directory."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specon_sidecar.event_files.events import EventFiles
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.log_choice import Log, choose_log
from specon_sidecar.following.tail import Tail
from specon_sidecar.following.watch import nearest_directory
from specon_sidecar.observing.trouble import Sight
from specon_sidecar.regular_file import open_regular
from specon_sidecar.settings import Settings

if TYPE_CHECKING:
    from specon_sidecar.event_files.event_tail import EventTail

_LOG: Final = logging.getLogger(__name__)


class LogFollower:
    """Hands out the lines of a log, or the events of event files as lines, as they come.

    The log chosen at first is followed to the end. A directory without a log is looked at until it has one,
    and so is a path that was expected to be a file and becomes a directory.
    """

    def __init__(self, settings: Settings, log: Log, start: FilePosition | EventFiles | None) -> None:
        self._settings = settings
        self._stopping = asyncio.Event()
        self._named = log.kind == "file" and str(log.path) == settings.log
        self._path = log.path
        self._tail = self._open(log, start)

    @property
    def position(self) -> FilePosition | None:
        """How far a file was read; None for event files, and before a file was opened."""
        return self._tail.position if isinstance(self._tail, Tail) else None

    @property
    def event_positions(self) -> dict[str, FilePosition]:
        """How far each event file was read; empty for any other log."""
        return {} if self._tail is None or isinstance(self._tail, Tail) else self._tail.files.positions

    @property
    def oversized(self) -> int:
        """Lines or records that were too long."""
        if self._tail is None:
            return 0
        return (self._tail if isinstance(self._tail, Tail) else self._tail.files).counters.oversized

    def look(self) -> Sight | None:
        """Return the state of the log's place now; None where it holds unread text."""
        path = os.fspath(self._path)
        if self._tail is None:
            return Sight("directory", path)
        if not isinstance(self._tail, Tail):
            return Sight("events", path)
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            there, _ = nearest_directory(self._path.absolute())
            near = "" if there == os.fspath(self._path.parent) else f" (the nearest folder there is {there})"
            return Sight("missing", path, near)
        except (OSError, ValueError) as error:
            return Sight("unreadable", path, getattr(error, "strerror", None) or str(error))
        if self._tail.read_to < size:
            return None
        return Sight("file" if size else "empty", path, unfinished=self._tail.unfinished)

    def stop(self) -> None:
        """Let `batches` end when it has handed out what there is now. Call it in the event loop."""
        self._stopping.set()
        if self._tail is not None:
            self._tail.stop()

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yield lists of lines, never empty; raises EventsError for event files without their package."""
        while True:
            while self._tail is None:
                last_look = self._stopping.is_set()
                self._tail = self._open(choose_log(self._settings.log), None)
                if self._tail is None:
                    if last_look:
                        return
                    await self._pause()
            tail = self._tail
            if self._stopping.is_set():
                tail.stop()
            turning = asyncio.create_task(self._becomes_directory(tail))
            try:
                async for lines in tail.batches():
                    yield lines
            finally:
                turning.cancel()
            if self._stopping.is_set():
                return
            self._tail, self._named = None, False

    async def _becomes_directory(self, tail: "Tail | EventTail") -> None:
        """End the following of a file that never came when its path is a directory."""
        while (
            self._named
            and isinstance(tail, Tail)
            and tail.position is None
            and not self._stopping.is_set()  # then `_pause` lets nobody else work
        ):
            if _is_directory(self._settings.log):
                tail.stop()
                return
            await self._pause()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_interval):
                await self._stopping.wait()

    def _open(self, log: Log, start: FilePosition | EventFiles | None) -> "Tail | EventTail | None":
        if log.note is not None:
            _LOG.warning(log.note)
        self._path = log.path
        if log.kind == "later":
            return None
        if str(log.path) != self._settings.log:
            _LOG.warning("log %s: following %s, %s", self._settings.log, log.path, log.reason)
        if log.kind == "events":
            # Only here: most jobs write no event files.
            from specon_sidecar.event_files.event_tail import EventTail  # noqa: PLC0415 - see above

            files = start if isinstance(start, EventFiles) else EventFiles(log.path, on_problem=_LOG.warning)
            return EventTail(
                files,
                log.path,
                watch=self._settings.watch,
                poll_interval=self._settings.poll_interval,
                on_problem=_LOG.warning,
            )
        return Tail(
            log.path,
            watch=self._settings.watch,
            poll_interval=self._settings.poll_interval,
            start=start if isinstance(start, FilePosition) else None,
            on_problem=_LOG.warning,
        )


def _is_directory(path: str) -> bool:
    return Path(path).is_dir()
