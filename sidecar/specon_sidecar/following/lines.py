"""Chunks of a growing log -> complete lines, in bounded memory."""

import codecs
from typing import Final

MAX_LINE_BYTES: Final = 65_536
# PowerShell's `>` writes UTF-16 with such a mark at its beginning.
_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARK_BYTES: Final = 2


class LineSplitter:
    """Cuts chunks into lines without their ends; keeps a last, incomplete line until its end arrives.

    Newline and carriage return both end a line, because progress bars end theirs with the latter. Empty
    lines are dropped. NUL bytes are dropped: a log that was truncated under a writer that keeps its offset
    starts with a hole of them. What begins with the byte-order mark of UTF-16 is handed out as UTF-8. A line
    longer than `max_line_bytes` is dropped whole and counted, for half of it could hold half of a number.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        if max_line_bytes < 1:
            raise ValueError(f"max_line_bytes must be at least 1, not {max_line_bytes}")
        self._max = max_line_bytes
        self._carry = bytearray()
        self._skipping = False
        self._begun = False
        self._decoder: codecs.IncrementalDecoder | None = None
        self._width = ""
        self.oversized = 0
        """Lines dropped because they were too long."""
        self.pending = 0
        """Bytes fed since the end of the last complete line, NULs included."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, in order, none of them empty."""
        if not self._begun and len(chunk) >= _MARK_BYTES:
            self._begun = True
            self._width = _MARKS.get(chunk[:_MARK_BYTES], "")
            if self._width:
                self._decoder = codecs.getincrementaldecoder(self._width)("replace")
                chunk = chunk[_MARK_BYTES:]
        if self._decoder is not None:
            chunk = self._decode(self._decoder, chunk)
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        else:
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            self.pending = len(chunk) - end if end else self.pending + len(chunk)
        if b"\0" in chunk:
            chunk = chunk.replace(b"\0", b"")
        # bytes.splitlines knows exactly the three ends \n, \r and \r\n, unlike str.splitlines.
        pieces = chunk.splitlines()
        rest = pieces.pop() if pieces and not chunk.endswith((b"\n", b"\r")) else b""
        lines: list[bytes] = []
        if end:
            first = pieces[0] if pieces else b""
            if self._skipping or self._carry:
                first = self._finish(first)
                pieces[:1] = [first]
            if len(chunk) > self._max or len(first) > self._max:
                pieces = self._drop_oversized(pieces)
            lines = [line for line in pieces if line]
        self._keep(rest)
        return lines

    def flush(self) -> bytes | None:
        """Return the incomplete last line, if there is one: for the end of the log, when no more can come."""
        line = bytes(self._carry)
        self.reset()
        return line or None

    def reset(self) -> None:
        """Forget the incomplete last line: what follows is not its continuation."""
        self._carry.clear()
        self._skipping = self._begun = False
        self._decoder = None
        self.pending = 0

    def _decode(self, decoder: codecs.IncrementalDecoder, chunk: bytes) -> bytes:
        """Return the chunk in UTF-8; bytes that wait are counted as they stand in the file."""
        text = decoder.decode(chunk)
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        open_bytes = len(text[end:].encode(self._width, "replace")) + len(decoder.getstate()[0])
        self.pending = open_bytes if end else self.pending + open_bytes
        return text.encode("utf-8", "replace")

    def _finish(self, first: bytes) -> bytes:
        line = b"" if self._skipping else bytes(self._carry) + first
        self._carry.clear()
        self._skipping = False
        return line

    def _drop_oversized(self, lines: list[bytes]) -> list[bytes]:
        kept = [line for line in lines if len(line) <= self._max]
        self.oversized += len(lines) - len(kept)
        return kept

    def _keep(self, rest: bytes) -> None:
        if self._skipping:
            return
        self._carry += rest
        if len(self._carry) > self._max:
            self._carry.clear()
            self._skipping = True
            self.oversized += 1
        elif not self._carry:
            # Only NULs so far: nothing that a restarted reader would have to read again.
            self.pending = 0
