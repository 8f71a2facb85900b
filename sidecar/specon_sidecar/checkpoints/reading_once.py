"""A file that yields its digest while others read in it, so that nothing is read twice."""

import hashlib
import io
from collections.abc import Callable
from threading import Event
from typing import Final

_CHUNK: Final = 1 << 20


class CancelledError(Exception):
    """The verification was called off."""


class OutOfTimeError(Exception):
    """Reading all of it takes too long."""


class ReadOnce(io.RawIOBase):
    """Reads a file; bytes read in the order in which they lie there go into its digest at once."""

    def __init__(self, raw: io.FileIO, cancelled: Event, late: Callable[[], bool]) -> None:
        """Read in `raw`, which stays its owner's to close; `late` tells that there is no more time."""
        self._raw, self._cancelled, self._late = raw, cancelled, late
        self._sha = hashlib.sha256()
        self._hashed = self._at = 0
        self.in_order = False
        """Whether it is now read from its begin to its end: gaps are read as well."""
        self.bytes_read = 0

    def readable(self) -> bool:
        """Return whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Return whether one can move about in it."""
        return True

    def close(self) -> None:
        """Leave the file open: a reader with a buffer of its own may drop that buffer."""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, and return where that is."""
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            offset = self._raw.seek(offset, io.SEEK_END)
        if offset < 0:
            raise ValueError(f"negative position {offset}")
        self._at = offset
        return offset

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # of any buffer
        """Fill the buffer; raises CancelledError and OutOfTimeError."""
        if self.in_order and self._at > self._hashed:
            wanted, self._at = self._at, self._hashed
            while self._at < wanted and self._fill(memoryview(bytearray(min(_CHUNK, wanted - self._at)))):
                pass
            self._at = wanted
        return self._fill(memoryview(buffer))

    def go_on(self) -> None:
        """Raise CancelledError or OutOfTimeError where nothing more is to be read."""
        if self._cancelled.is_set():
            raise CancelledError
        if self._late():
            raise OutOfTimeError

    def _fill(self, buffer: memoryview) -> int:
        self.go_on()
        self._raw.seek(self._at)
        read = self._raw.readinto(buffer) or 0
        if self._at <= self._hashed < self._at + read:
            self._sha.update(buffer[self._hashed - self._at : read])
            self._hashed = self._at + read
        self._at += read
        self.bytes_read += read
        return read

    def finish(self) -> str:
        """Read what nobody has read, and return the digest of all of it."""
        self._at = self._hashed
        chunk = memoryview(bytearray(_CHUNK))
        while self._fill(chunk):
            pass
        return self._sha.hexdigest()
