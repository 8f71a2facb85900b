"""Opens what `specon classify` is given: text or event files, as batches of lines; refuses other files."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from specon_manager.usage import UsageError
from specon_sidecar.counts import format_count
from specon_sidecar.event_files.events import EventFiles, EventsError
from specon_sidecar.following.lines import MAX_LINE_BYTES, LineSplitter
from specon_sidecar.following.log_choice import MOST_ENTRIES, Log, choose_log, is_binary

_CHUNK: Final = 1 << 18
_HEAD: Final = 1 << 16


class LogInput(Protocol):
    """A log that is read from where the last reading ended."""

    log: Log
    notes: list[str]
    size: int
    """Bytes of it, when it was opened."""

    @property
    def oversized(self) -> int:
        """Lines or records that were too long to be read."""
        ...

    def read(self, progress: Callable[[int], None]) -> Iterator[list[bytes]]:
        """Yield the lines that are there now; `progress` gets the bytes done. Raises UsageError."""
        ...

    def rest(self) -> list[bytes]:
        """Return an unfinished last line: no more comes."""
        ...


def open_log(path: Path, *, follow: bool = False) -> LogInput:
    """Return the log that a path means. Raises UsageError, naming it, where there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise UsageError(f"{path}: neither a file nor a directory")
    if stat.S_ISDIR(status.st_mode):
        try:
            os.scandir(path).close()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    log = choose_log(path)
    if log.kind == "later":
        note = f" ({log.note})" if log.note else ""
        raise UsageError(
            f"{path}: no log in this directory or below: no table with a loss, no JSON lines, no event files,"
            f" no .log, .out or .txt with content; {MOST_ENTRIES} entries are looked at{note}"
        )
    return EventInput(log) if log.kind == "events" else TextInput(log, follow=follow)


class EventInput:
    """Event files; of a directory with several runs the last begun."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.notes = [] if log.note is None else [log.note]
        self._files = EventFiles(log.path, on_problem=self.notes.append, latest_run=True)
        self.size = self._files.size
        if log.path.is_file():
            _head(log.path)

    @property
    def oversized(self) -> int:
        """Records that were too large."""
        return self._files.counters.oversized

    def read(self, progress: Callable[[int], None]) -> Iterator[list[bytes]]:
        """Yield the events that are there now, as lines; raises UsageError where they cannot be read."""
        try:
            for lines in self._files.read():
                progress(sum(position.offset for position in self._files.positions.values()))
                yield lines
        except EventsError as error:
            raise UsageError(f"{self.log.path}: {error}") from error
        corrupt = self._files.counters.corrupt
        note = f"{format_count(corrupt, 'damaged record was', 'damaged records were')} passed over"
        if corrupt and note not in self.notes:
            self.notes.append(note)

    def rest(self) -> list[bytes]:
        """Return nothing: half a record is none."""
        return []


class TextInput:
    """A text file, read in chunks; holes of a sparse file are stepped over."""

    def __init__(self, log: Log, *, follow: bool = False) -> None:
        self.log = log
        self.notes = [] if log.note is None else [log.note]
        head = _head(log.path)
        self.size = log.path.stat().st_size
        if not head and not follow:
            raise UsageError(f"{log.path}: {'holds nothing but zeros' if self.size else 'is empty'}")
        _refuse_binary(log.path, head)
        self._splitter = LineSplitter()
        self._offset = 0
        self._identity: tuple[int, int] | None = None

    @property
    def oversized(self) -> int:
        """Lines of more than `MAX_LINE_BYTES`."""
        return self._splitter.oversized

    def read(self, progress: Callable[[int], None]) -> Iterator[list[bytes]]:
        """Yield the lines that are there now; a file that was replaced or shrank is read again.

        Raises UsageError where it cannot be read.
        """
        try:
            with self.log.path.open("rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino
                if self._identity not in {None, identity} or status.st_size < self._offset:
                    self._offset = 0
                    self._splitter.reset()
                self._identity = identity
                while True:
                    chunk = self._chunk(file.fileno())
                    if not chunk:
                        return
                    self._offset += len(chunk)
                    progress(self._offset)
                    lines = self._splitter.feed(chunk)
                    if lines:
                        yield lines
        except FileNotFoundError:
            return  # while it is followed: rotated away just now
        except OSError as error:
            raise UsageError(f"{self.log.path}: {error.strerror}") from error

    def rest(self) -> list[bytes]:
        """Return the last line that has no end."""
        line = self._splitter.flush()
        return [] if line is None else [line]

    def _chunk(self, file: int) -> bytes:
        try:
            self._offset = os.lseek(file, self._offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return b""  # only a hole, or nothing, is left
            if error.errno != errno.EINVAL:
                raise
        return os.pread(file, _CHUNK, self._offset)


def refuse_without_lines(log: LogInput) -> None:
    """Raise UsageError for a text that held no line at all."""
    if log.oversized:
        raise UsageError(f"{log.log.path}: no line of at most {MAX_LINE_BYTES} bytes in it")
    raise UsageError(f"{log.log.path}: no line in it")


def _head(path: Path) -> bytes:
    """Return the first bytes that are there, behind a hole; raises UsageError where it cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            try:
                os.lseek(file.fileno(), 0, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return b""
            return file.read(_HEAD) or b""
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _refuse_binary(path: Path, head: bytes) -> None:
    for magic, name in ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip")):
        if head.startswith(magic):
            raise UsageError(f"{path}: is compressed ({name}); unpack it first")
    if is_binary(head):
        raise UsageError(f"{path}: is no text log and no event file (control bytes in it)")
