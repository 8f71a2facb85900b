"""One line of a journal: a JSON object that ends in a checksum over itself and the line before it.

`{...,"crc":"89abcdef"}`: the CRC-32 of everything before `,"crc"`, begun with the checksum of the line before
it, or with 0 where that has none. So a changed, missing or displaced line is noticed. What version 0.1 wrote
has another schema, and may lack checksums (`journal_v1`).
"""

import re
import zlib
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.actions import Action
from specon_manager.model.events import Event

SCHEMA: Final = 2
_V1: Final = 1
_SEAL: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}\n\Z')
SEAL_BYTES: Final = len(b',"crc":"01234567"}\n')


class Begin(Struct, frozen=True, kw_only=True, tag="begin"):
    """First line of a journal: the state that its steps start from."""

    schema: int
    version: str
    at: float
    """Begin of the run, seconds on the manager's clock; kept over rotations."""
    last_at: float | None = None
    """Time of the last step before this file; None where there was none."""
    state: State


class StepLine(Struct, frozen=True, kw_only=True, tag="step"):
    """One call of `step`: its time, its event, and what it ordered."""

    now: float
    event: Event
    actions: tuple[Action, ...] = ()


Line = Begin | StepLine


class BadLineError(Exception):
    """A damaged line; the text says how it is."""


class OtherVersionError(BadLineError):
    """A line that another version of specon wrote."""


class _Head(Struct):
    """The fields read before anything else of a first line."""

    type: str = ""
    schema: int | None = None
    version: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Line)


def seal_line(line: Line, before: int) -> tuple[bytes, int]:
    """Return a line as it is written, and its checksum; `before` is that of the line before it."""
    content = _ENCODER.encode(line)[:-1]
    checksum = zlib.crc32(content, before)
    return content + b',"crc":"%08x"}\n' % checksum, checksum


def seal_of(line: bytes) -> int:
    """Return the checksum that a line, or its end, carries; 0 where it has none."""
    found = _SEAL.search(line[-SEAL_BYTES:])
    return 0 if found is None else int(found[1], 16)


def schema_of(line: bytes) -> int | None:
    """Return the schema that a first line tells of, None where it tells of none."""
    head = _head(line)
    return None if head is None else head.schema


def open_line(line: bytes, before: int, *, first: bool) -> Line:
    """Return what a line says; raises BadLineError where it is damaged."""
    head = _head(line) if first else None
    if head is not None and head.schema is not None and head.schema != SCHEMA:
        check_seal(line, before, needed=False)
        raise OtherVersionError(_of_another(head, head.schema))
    try:
        record: Line = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLineError(str(error)) from error
    check_place(first=first, begins=isinstance(record, Begin))
    check_seal(line, before)
    return record


def check_place(*, first: bool, begins: bool) -> None:
    """Raise BadLineError for a begin that is not in the first line, and for a first line that is none."""
    if first != begins:
        raise BadLineError("a journal has one begin, in its first line")


def check_seal(line: bytes, before: int, *, needed: bool = True) -> None:
    """Raise BadLineError where the checksum of a line is not right, or is missing though it is needed."""
    if _SEAL.search(line[-SEAL_BYTES:]) is None:
        if needed:
            raise BadLineError("it has no checksum: it is damaged")
    elif zlib.crc32(line[:-SEAL_BYTES], before) != seal_of(line):
        raise BadLineError("its checksum is wrong: it, or the line before it, is damaged")


def _head(line: bytes) -> _Head | None:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return head if head.type == "begin" else None


def _of_another(head: _Head, schema: int) -> str:
    if schema == _V1:
        return (
            "it is the journal of a manager of version 0.1: its steps cannot be run again, because this "
            "version decides otherwise; the next manager continues from its state"
        )
    return f"schema {schema} is not {SCHEMA}: specon {head.version} wrote it"
