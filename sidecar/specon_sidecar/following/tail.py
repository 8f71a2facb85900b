"""Follows a log while it grows, rotates, is truncated, or does not exist yet."""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import msgspec

from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.following.log_file import LogFile
from specon_sidecar.following.watch import Watch, WatchMode

# Seconds between two looks at a file that grows. A writer that flushes each line would cause an event for
# each, and handling those costs more than the reading.
BUSY_INTERVAL: Final = 0.3


class TailCounters(msgspec.Struct):
    """What the follower has seen since it started."""

    bytes: int = 0
    lines: int = 0
    rotations: int = 0
    truncations: int = 0
    oversized: int = 0


class Tail:
    """Hands out the lines of the file at `path`, complete and in order, as they come.

    The file and its directory may appear late. A file that was renamed away is read to its end before the
    new one is read from its beginning, which is when the new one holds something: until then the writer may
    still use the old one. An unfinished line at the end of the old file is dropped, never joined: trainers
    and rotators rotate between lines, so it is the trace of a crash, and half a number joined with a date
    is another number. A file that shrank, or whose content before our place changed, is read from its
    beginning. Nothing that happens to the file raises; `on_problem` gets a sentence, once until the file is
    read again.

    `poll_interval` is in seconds: so often the file is looked at even when no event comes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        watch: WatchMode = "auto",
        poll_interval: float = 1.0,
        start: FilePosition | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        if not poll_interval > 0:
            raise ValueError(f"poll_interval must be more than 0 seconds, not {poll_interval}")
        self._path = Path(path)
        self._watch_mode: WatchMode = watch
        self._poll_interval = poll_interval
        self._start = start
        self._tell = on_problem or (lambda _: None)
        self._told: set[str] = set()
        self._file: LogFile | None = None
        self._splitter = LineSplitter()
        self._stopping = False
        self._wake = asyncio.Event()
        self.counters = TailCounters()

    @property
    def position(self) -> FilePosition | None:
        """Where to go on after the lines handed out so far; None before a file was opened."""
        file = self._file
        if file is None:
            return self._start
        return file.position

    @property
    def read_to(self) -> int:
        """How many bytes of the file were read, those of an incomplete last line among them."""
        return 0 if self._file is None else self._file.offset

    @property
    def unfinished(self) -> int:
        """How many bytes the incomplete last line has."""
        return self._splitter.pending

    def stop(self) -> None:
        """Let `batches` end when it has handed out what the file holds now. Call it in the event loop."""
        self._stopping = True
        self._wake.set()

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yield lists of lines, never empty, of at most one chunk each. To be used once.

        Close it (`contextlib.aclosing`) when leaving it early, for the watching threads end with it.
        """
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake.set)

        watch = Watch(
            self._path,
            wake,
            mode=self._watch_mode,
            poll_interval=self._poll_interval,
            on_problem=self._tell,
        )
        quiet_since = loop.time()
        watch.arm()
        try:
            while True:
                self._wake.clear()
                last_pass = self._stopping
                before = self.counters.bytes
                for lines in self._pass():
                    if lines:
                        yield lines
                    await asyncio.sleep(0)
                if last_pass:
                    break
                if self.counters.bytes != before:
                    quiet_since = loop.time()
                    if watch.mode == "inotify":
                        watch.disarm()
                busy = not watch.armed and loop.time() - quiet_since < self._poll_interval
                if not busy and watch.arm():
                    continue  # something may have happened before the watch was in place
                await self._sleep(min(BUSY_INTERVAL, self._poll_interval) if busy else self._poll_interval)
            rest = self._splitter.flush()
            if rest is not None:
                self._finish_file()
                self.counters.lines += 1
                yield [rest]
        finally:
            watch.close()
            self._close()

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _pass(self) -> Iterator[list[bytes]]:
        """Read what there is: the open file to its end, then the one that took its place."""
        # Before the reading: lines written to the old file before the new one was seen are then read.
        status = self._status()
        if self._file is None and status is not None:
            self._file = self._open()
            if self._file is not None and self._start is not None:
                self._resume(self._file)
        if self._file is None:
            return
        file = self._file
        healthy = yield from self._read(file)
        if status is None:
            return
        if (status.st_dev, status.st_ino) == file.identity:
            if healthy:
                self._told.clear()
        elif status.st_size:
            new = self._open()
            if new is not None:
                self._close()
                self._splitter.reset()
                self._file = new
                self.counters.rotations += 1
                yield from self._read(new)

    def _read(self, file: LogFile) -> Generator[list[bytes], None, bool]:
        """Read up to the size the file has now, so that a fast writer cannot keep a pass from ending.

        Return whether it could be read.
        """
        try:
            size = os.fstat(file.fd).st_size
            if size < file.offset:
                self._rewind(file)
            while file.offset < size:
                chunk = file.read()
                if chunk is None:
                    self._rewind(file)
                    continue
                if not chunk:
                    break
                yield self._take(file, chunk)
        except OSError as error:
            # For instance a stale handle of a network volume: open it again, and go on there if it is the
            # same file.
            self._problem(f"cannot read {self._path}: {error.strerror}")
            self._close()
            self._splitter.reset()
            return False
        return True

    def _take(self, file: LogFile, chunk: bytes) -> list[bytes]:
        lines = self._splitter.feed(chunk)
        file.advance(chunk, self._splitter.pending)
        self.counters.bytes += len(chunk)
        self.counters.lines += len(lines)
        self.counters.oversized = self._splitter.oversized
        return lines

    def _rewind(self, file: LogFile) -> None:
        self.counters.truncations += 1
        self._splitter.reset()
        file.rewind()

    def _resume(self, file: LogFile) -> None:
        start, self._start = self._start, None
        if start is not None:
            with contextlib.suppress(OSError):
                file.resume(start)

    def _finish_file(self) -> None:
        if self._file is not None:
            self._file.consume_all()

    def _status(self) -> os.stat_result | None:
        """Return the state of the regular file at the path, or None where there is none."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None  # it comes later, or was rotated away just now
        except (OSError, ValueError) as error:
            self._problem(f"cannot look at {self._path}: {getattr(error, 'strerror', None) or error}")
            return None
        if not stat.S_ISREG(status.st_mode):
            what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            self._problem(f"{self._path} is {what}")
            return None
        return status

    def _open(self) -> LogFile | None:
        try:
            # Not blocking: a pipe may have taken the place of the file since it was looked at.
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._problem(f"cannot open {self._path}: {error.strerror}")
            return None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            return None
        return LogFile(fd, status)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._start = file.position
            file.close()

    def _problem(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)
