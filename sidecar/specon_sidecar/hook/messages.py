"""What a trainer's helper says, one JSON object a line, and what it is told. Pure.

A trainer may run anybody's code: every text is bounded and every number finite, and anything not of this
protocol is no message. Unknown kinds and keys are ignored, so that either side may be newer.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_sidecar.wire import Count, Identifier, Text

MAX_LINE: Final = 65536
"""Bytes of one message with its end."""
_MAX_VALUES: Final = 64

_Name = Annotated[str, Meta(max_length=128)]
_AbsolutePath = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"\A/[^\x00]*\Z")]


class Hello(Struct, frozen=True):
    """Who speaks; again where more of it is known."""

    token: Annotated[str, Meta(max_length=256)]
    version: int = 1
    pid: Count = 0
    rank: Count = 0
    world: Count = 1
    framework: _Name = ""
    saves: bool = False
    """Whether it can be asked for a checkpoint."""


class Progress(Struct, frozen=True):
    """How far the training is; a value that was not finite is None."""

    step: Count
    total: Count | None = None
    epoch: float | None = None
    values: Annotated[dict[_Name, float | None], Meta(max_length=_MAX_VALUES)] = {}


class Saved(Struct, frozen=True):
    """A checkpoint that is complete and on disk."""

    path: _AbsolutePath
    step: Count
    request: Identifier | None = None
    """Which request it answers; None: nobody asked for it."""


class Refused(Struct, frozen=True):
    """Why the request to save failed."""

    request: Identifier
    reason: Text = ""


class Resumed(Struct, frozen=True):
    """What the training went on from."""

    path: _AbsolutePath | None
    step: Count


class Said(Struct, frozen=True):
    """One message: exactly one of these."""

    hello: Hello | None = None
    report: Progress | None = None
    saved: Saved | None = None
    refused: Refused | None = None
    resumed: Resumed | None = None


_DECODER: Final = msgspec.json.Decoder(Said)


def decode(line: bytes) -> Said | None:
    """Return the message on a line; None where it is none."""
    if len(line) > MAX_LINE:
        return None
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def encode(kind: str, content: Mapping[str, object]) -> bytes:
    """Return the line that tells a helper so."""
    return msgspec.json.encode({kind: content}) + b"\n"
