"""A file that only grows: what cannot be written for want of room stays in memory, and is written later."""

import errno
import os
import threading
from pathlib import Path
from typing import Final

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFullError(Exception):
    """There is no room for a file at present; nothing is lost, and writing may be tried again."""


class UnwritableError(Exception):
    """A file cannot be written, and trying again would not help; the text names it."""


class AppendFile:
    """Takes bytes at once, and writes and syncs them when it is told to, from any one thread at a time."""

    def __init__(self, path: Path, *, end: int | None = None) -> None:
        """Open for appending; what lies behind `end` is cut off. Only its owner may read the file.

        Raises OSError.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self.path = path
        self._descriptor = os.open(path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        if end is not None:
            os.ftruncate(self._descriptor, end)
        self._left = bytearray()
        # A manager that ends does not wait for the thread in which it had this synced.
        self._one_at_a_time = threading.Lock()

    @property
    def left(self) -> int:
        """How many bytes were added and not written yet."""
        return len(self._left)

    def add(self, content: bytes) -> None:
        """Take more in; nothing is written before `write`."""
        with self._one_at_a_time:
            self._left += content

    def write(self) -> None:
        """Hand everything to the operating system. Raises DiskFullError, and UnwritableError."""
        with self._one_at_a_time:
            self._write()

    def sync(self) -> None:
        """Return once everything is on disk. Raises as `write` does."""
        with self._one_at_a_time:
            self._write()
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                # Which pages the system has dropped is not known: what it says next time would prove nothing.
                raise UnwritableError(f"{self.path}: cannot be synced: {error.strerror}") from error

    def close(self) -> None:
        """Close, whatever is left."""
        with self._one_at_a_time:
            os.close(self._descriptor)

    def _write(self) -> None:
        while self._left:
            try:
                written = os.write(self._descriptor, self._left)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise DiskFullError(f"{self.path}: {error.strerror}") from error
                raise UnwritableError(f"{self.path}: cannot be written: {error.strerror}") from error
            del self._left[:written]
