"""Records of a file, one by one, whatever is in the file: tables (CSV), JSON lines, JSON.

Nothing here holds more than a line of a table or of JSON lines at a time.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from specon_lab.traces.mistakes import TraceError, place_of

LINE_BYTES: Final = 1 << 20
DOCUMENT_BYTES: Final = 1 << 28

Record = tuple[int, dict[str, Any] | str]
"""The line of the file, or the position in a list, from 1; the values by column, or why there are none."""


class UnreadableError(TraceError):
    """A file that ends being readable at some point."""

    def __init__(self, file: str, row: int | None, problem: str) -> None:
        super().__init__([f"{place_of(file, row)}: {problem}"])


def text_lines(path: Path) -> Iterator[str]:
    """Return the lines of a text in UTF-8; raises TraceError where it is none."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES + 1):
                number += 1
                yield _text(path.name, number, line)
    except OSError as error:
        raise UnreadableError(str(path), None, error.strerror or str(error)) from error


def _text(file: str, number: int, line: bytes) -> str:
    if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError(file, None, "is written in UTF-16; save it as UTF-8")
    if len(line) > LINE_BYTES:
        raise UnreadableError(file, number, f"is longer than {LINE_BYTES} bytes")
    if b"\0" in line:
        raise UnreadableError(file, number, "is no text: it holds zero bytes")
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        at = line[error.start]
        raise UnreadableError(
            file, number, f"is not UTF-8: byte 0x{at:02x} at column {error.start + 1}"
        ) from error


class Table:
    """A table in CSV: its columns are read at once, its rows one by one."""

    def __init__(self, path: Path) -> None:
        self.file = path.name
        self._lines = _Ended(text_lines(path))
        self._reader = csv.reader(self._lines, skipinitialspace=True)
        header = self._next()
        while header is not None and not any(header):
            header = self._next()
        if header is None:
            raise UnreadableError(path.name, None, "is empty")
        self.columns = tuple(cell.strip() for cell in header)

    def __iter__(self) -> Iterator[Record]:
        """Return the records; after a row that is none it goes on."""
        columns = self.columns
        while (cells := self._next()) is not None:
            if len(cells) == len(columns):
                yield self._reader.line_num, {k: cell for k, cell in zip(columns, cells, strict=True) if cell}
            elif any(cells):
                yield self._reader.line_num, f"has {len(cells)} fields, the header {len(columns)}"

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise UnreadableError(self.file, self._reader.line_num, f"is not CSV: {error}") from error


class _Ended(Iterator[str]):
    """Lines whose ends the table's reader understands, a lone carriage return too."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def __next__(self) -> str:
        line = next(self._lines)
        return line.rstrip("\r\n").replace("\r", " ") + "\n"


def json_lines(path: Path) -> Iterator[Record]:
    """Return the objects of a file with one on each line."""
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            yield number, f"is not JSON: {error}"
            continue
        yield number, value if isinstance(value, dict) else "must be an object"


def json_document(path: Path) -> Any:
    """Return what a whole file of JSON says; raises TraceError where it is not JSON or too large."""
    try:
        with path.open("rb") as file:
            content = file.read(DOCUMENT_BYTES + 1)
    except OSError as error:
        raise UnreadableError(str(path), None, error.strerror or str(error)) from error
    if len(content) > DOCUMENT_BYTES:
        raise UnreadableError(
            path.name, None, f"is larger than {DOCUMENT_BYTES} bytes; write one object per line"
        )
    try:
        return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(path.name, None, f"is not JSON: {error}") from error
