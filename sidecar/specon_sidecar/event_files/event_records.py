"""The records of one event file: `length, checksum of it, data, checksum of that` (TFRecord).

The frame is read here because the reader of the `tensorboard` package can neither begin at a place nor pass
over a damaged record; checksums and messages are those of the package.
"""

import os
import re
import struct
from collections.abc import Iterator
from typing import Final

# The package has neither stubs nor a marker of types.
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c  # type: ignore[import-untyped]

CHUNK_BYTES: Final = 262_144
# Larger records hold images or the graph: they are passed over unread.
MAX_RECORD_BYTES: Final = 4 << 20
# The package computes checksums byte by byte in Python, 0.2 us each: for a histogram that is too much.
_CHECKED_BYTES: Final = 65_536
# Behind a damaged place the next record is looked for this far, then the file is given up.
_SEARCH_BYTES: Final = 262_144
_HEADER: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")
# The head of a record of less than 16 MiB: three bytes of length, five zeros, a checksum that is not zero.
_CANDIDATE: Final = re.compile(rb"(?s)(?=(?!\0{3})...\0{5}(?!\0{4}))")


class EventRecords:
    """Reads the complete records of an open file from `offset` on; a torn last one waits for its rest."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        """The end of the last record that was handed out or passed over."""
        self.corrupt = 0
        """Places where the checksum was wrong."""
        self.passed_over = 0
        """Records that were too large to be read."""
        self.given_up = False
        """Whether the rest of the file holds no record that could be found."""
        self._buffer = b""
        self._base = 0

    def read(self, file: int, size: int) -> Iterator[bytes]:
        """Yield the records that lie before byte `size`; raises OSError."""
        while not self.given_up and self.offset + _HEADER.size <= size:
            length = _length(self._bytes(file, _HEADER.size), 0)
            if length is None:
                # Zeros of a network volume that knows the size before the content: they wait, too.
                if not self._find_next(file, size):
                    return
                self.corrupt += 1
                continue
            whole = _HEADER.size + length + _CHECKSUM.size
            if self.offset + whole > size:
                return
            if length > MAX_RECORD_BYTES:
                self.passed_over += 1
                self.offset += whole
                continue
            record = self._bytes(file, whole)
            if len(record) < whole:
                return  # it shrank meanwhile
            if length <= _CHECKED_BYTES and not _intact(record):
                self.corrupt += 1
                if not self._pass_damaged(file, size, whole):
                    return
                continue
            self.offset += whole
            yield record[_HEADER.size : -_CHECKSUM.size]

    def go_near(self, file: int, offset: int, size: int) -> None:
        """Continue at the first record behind `offset`: for a long history, where only the end is read."""
        self.offset = offset
        if not self._find_next(file, size):
            self.offset, self.given_up = size, False

    def _bytes(self, file: int, count: int) -> bytes:
        """Return so many bytes from this place on; fewer where the file ends."""
        at = self.offset - self._base
        if not 0 <= at <= len(self._buffer) - count:
            self._buffer = os.pread(file, max(CHUNK_BYTES, count), self.offset)
            self._base, at = self.offset, 0
        return self._buffer[at : at + count]

    def _pass_damaged(self, file: int, size: int, whole: int) -> bool:
        """Go on behind a damaged record, and return whether there is something."""
        # Bytes that changed leave the next record where it was; a write that was cut does not.
        end = self.offset + whole
        if end == size or _length(os.pread(file, _HEADER.size, end), 0) is not None:
            self.offset = end
            return True
        return self._find_next(file, size)

    def _find_next(self, file: int, size: int) -> bool:
        """Move to the next record behind this place, and return whether there is one."""
        start, limit = self.offset + 1, self.offset + _SEARCH_BYTES
        while start + _HEADER.size <= size:
            if start > limit:
                self.given_up = True
                self.corrupt += 1
                return False
            window = os.pread(file, CHUNK_BYTES, start)
            for found in _CANDIDATE.finditer(window):
                if _length(window, found.start()) is not None:
                    self.offset = start + found.start()
                    return True
            if len(window) < CHUNK_BYTES:
                break
            start += len(window) - _HEADER.size + 1
        return False


def _length(buffer: bytes, at: int) -> int | None:
    """Return the length that the head of a record tells, or None where there is no such head."""
    if len(buffer) - at < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(buffer, at)
    return int(length) if masked_crc32c(buffer[at : at + 8]) == checksum else None


def _intact(record: bytes) -> bool:
    return bool(
        masked_crc32c(record[_HEADER.size : -_CHECKSUM.size])
        == _CHECKSUM.unpack_from(record, len(record) - 4)[0]
    )
