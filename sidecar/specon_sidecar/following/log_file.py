"""An open log file and a place in it."""

import os
import zlib
from typing import Final

from specon_sidecar.following.file_position import FilePosition

CHUNK_BYTES: Final = 262_144
# So many bytes before the current place are compared before going on: after a truncation a file can have
# grown beyond that place again, and a new file can get the number of a deleted one.
MARK_BYTES: Final = 64


class LogFile:
    """The file that is being read. Open, so that its inode number is not given to another one."""

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self.fd = fd
        self.identity = (status.st_dev, status.st_ino)
        self.offset = 0
        self._mark = b""
        self._consumed = 0
        self._consumed_mark = b""

    @property
    def position(self) -> FilePosition:
        """The end of the last complete line."""
        return FilePosition(*self.identity, offset=self._consumed, check=zlib.crc32(self._consumed_mark))

    def resume(self, start: FilePosition) -> None:
        """Go on at `start` if this is that file and holds what came before; else stay at its beginning."""
        length = min(start.offset, MARK_BYTES)
        if self.identity != (start.device, start.inode):
            return
        mark = os.pread(self.fd, length, start.offset - length)
        if len(mark) == length and zlib.crc32(mark) == start.check:
            self.offset = self._consumed = start.offset
            self._mark = self._consumed_mark = mark

    def rewind(self) -> None:
        """Go to the beginning."""
        self.offset = self._consumed = 0
        self._mark = self._consumed_mark = b""

    def read(self) -> bytes | None:
        """Return the next chunk, empty at the end of the file, or None if what came before has changed."""
        data = os.pread(self.fd, CHUNK_BYTES + len(self._mark), self.offset - len(self._mark))
        if not data.startswith(self._mark):
            return None
        return data[len(self._mark) :]

    def advance(self, chunk: bytes, pending: int) -> None:
        """Note that `chunk` was taken, and that its last `pending` bytes (or more) complete no line yet."""
        end = len(chunk) - pending
        if end >= 0:
            self._consumed = self.offset + end
            self._consumed_mark = (self._mark + chunk[max(0, end - MARK_BYTES) : end])[-MARK_BYTES:]
        self.offset += len(chunk)
        self._mark = (self._mark + chunk[-MARK_BYTES:])[-MARK_BYTES:]

    def consume_all(self) -> None:
        """Note that also the incomplete last line was handed out."""
        self._consumed, self._consumed_mark = self.offset, self._mark

    def close(self) -> None:
        """Close it."""
        os.close(self.fd)


def position_at(file: int, status: os.stat_result, offset: int) -> FilePosition:
    """Return the position of so many bytes in an open file; raises OSError."""
    length = min(offset, MARK_BYTES)
    check = zlib.crc32(os.pread(file, length, offset - length))
    return FilePosition(status.st_dev, status.st_ino, offset, check)
