"""The log of a local manager: two files of a bounded size, in which no trouble is told again and again.

It lies on the disk of the journal, so a full disk ends it quietly; what a person must see (CRITICAL) goes to
standard error as well.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_sidecar.counts import format_count

NAME: Final = "manager.log"
_MOST_BYTES: Final = 8 << 20
_AT_ONCE: Final = 20
_SECONDS: Final = 60.0
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


class _Kind(Struct):
    """The warnings that one place in the code gave lately."""

    since: float
    record: logging.LogRecord
    count: int = 0


class ManagerLog(logging.Handler):
    """Appends to a file; a full one becomes `NAME.1`, in place of the one before.

    Of warnings and errors of one place in the code the first 20 in a minute are written, and how many more
    there were.
    """

    def __init__(
        self, path: Path, *, most_bytes: int = _MOST_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Open for appending. Raises OSError."""
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._path = path
        self._most_bytes = most_bytes
        self._clock = clock
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._descriptor, self._size = _open(path)
        self._unwritten = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, unless it is one of too many."""
        now = self._clock()
        for place, kind in list(self._kinds.items()):
            if now - kind.since >= _SECONDS:
                del self._kinds[place]
                self._say_how_many(kind)
        if record.levelno >= logging.WARNING:
            kind = self._kinds.setdefault((record.pathname, record.lineno), _Kind(now, record))
            kind.count += 1
            if kind.count > _AT_ONCE:
                return
        self._write(record)

    def close(self) -> None:
        """Say how many were left out, and close."""
        with self.lock or contextlib.nullcontext():
            for kind in self._kinds.values():
                self._say_how_many(kind)
            self._kinds.clear()
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _say_how_many(self, kind: _Kind) -> None:
        if kind.count <= _AT_ONCE:
            return
        record = logging.makeLogRecord({**kind.record.__dict__, "exc_info": None, "exc_text": None})
        text = f"{kind.count - _AT_ONCE} more like this within {_SECONDS:g} s are left out"
        record.msg, record.args = f"{kind.record.getMessage()} ({text})", None
        self._write(record)

    def _write(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        try:
            if self._size and self._size + len(line) > self._most_bytes:
                self._path.replace(self._path.with_name(f"{NAME}.1"))
                former = self._descriptor
                self._descriptor, self._size = _open(self._path)
                os.close(former)
            if self._unwritten:
                line = f"({format_count(self._unwritten, 'line')} could not be written)\n".encode() + line
            self._size += os.write(self._descriptor, line)
            self._unwritten = 0
        except OSError:
            self._unwritten += 1


def _open(path: Path) -> tuple[int, int]:
    """Return a descriptor to append with, and the size."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    return descriptor, os.fstat(descriptor).st_size


@contextlib.contextmanager
def log_to(directory: Path) -> Iterator[None]:
    """Send the log to a file of the directory: the terminal belongs to the view. Raises OSError."""
    urgent = logging.StreamHandler(sys.stderr)
    urgent.setLevel(logging.CRITICAL)
    urgent.setFormatter(logging.Formatter("specon: %(message)s"))
    handlers = (ManagerLog(directory / NAME), urgent)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
