"""One line of a journal: a JSON object that ends in a checksum over itself and the line before it.

`{...,"crc":"89abcdef"}`: the CRC-32 of everything before `,"crc"`, begun with the checksum of the line before
it, or with 0 where that has none. So a changed, missing or displaced line is noticed. Version 0.1 wrote none.
"""

import re
import zlib
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.actions import Action
from specon_manager.model.events import Event

SCHEMA: Final = 1
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


class Step(Struct, frozen=True, kw_only=True, tag="step"):
    """One call of `step`: its time, its event, and what it ordered."""

    now: float
    event: Event
    actions: tuple[Action, ...] = ()


Line = Begin | Step


class BadLineError(Exception):
    """A line that is not what was written; the text says in what."""


class OtherVersionError(BadLineError):
    """A line that another version of specon wrote."""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Line)


def sealed(line: Line, before: int) -> tuple[bytes, int]:
    """Return a line as it is written, and its checksum; `before` is that of the line before it."""
    content = _ENCODER.encode(line)[:-1]
    checksum = zlib.crc32(content, before)
    return content + b',"crc":"%08x"}\n' % checksum, checksum


def seal_of(line: bytes) -> int:
    """Return the checksum that a line, or its end, carries; 0 where it has none."""
    found = _SEAL.search(line[-SEAL_BYTES:])
    return 0 if found is None else int(found[1], 16)


def opened(line: bytes, before: int, *, first: bool) -> Line:
    """Return what a line says; raises BadLineError where it is not what was written there."""
    try:
        record: Line = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLineError(str(error)) from error
    if first != isinstance(record, Begin):
        raise BadLineError("a journal has one begin, in its first line")
    if isinstance(record, Begin) and record.schema != SCHEMA:
        raise OtherVersionError(f"schema {record.schema} is not {SCHEMA}: specon {record.version} wrote it")
    if _SEAL.search(line[-SEAL_BYTES:]) is None:
        return record
    if zlib.crc32(line[:-SEAL_BYTES], before) != seal_of(line):
        raise BadLineError("its checksum is wrong: it, or the line before it, is not what was written")
    return record
