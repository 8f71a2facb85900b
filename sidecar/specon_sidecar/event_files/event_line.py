"""A TensorBoard event as a line of JSON, the form in which the rest of the sidecar sees it.

{"run":"train","step":3,"time":1795234644.5,"values":{"epoch_loss":0.25}}
"""

from typing import Final

import msgspec
from msgspec import Struct

# How such a line begins: no training script prints this.
BEGIN: Final = b'{"run":"'


class EventLine(Struct, frozen=True, gc=False):
    """The scalars of one event."""

    run: str
    """Directory of its file below the directory that is followed, empty for that one itself."""
    step: int
    time: float
    """Wall time of the writer, seconds since 1970."""
    values: dict[str, float | str]
    """By tag; what JSON has no number for is `nan`, `inf` or `-inf`."""


def encode(line: EventLine) -> bytes:
    """Return the line, without an end."""
    return msgspec.json.encode(line)


def decode(line: bytes) -> EventLine | None:
    """Return the event, or None where the line is none."""
    if not line.startswith(BEGIN):
        return None
    try:
        return msgspec.json.decode(line, type=EventLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
