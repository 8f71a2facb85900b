"""A place in a file that survives a restart. Pure; `log_file` finds it and goes back to it."""

from typing import Annotated

from msgspec import Meta, Struct

_Natural = Annotated[int, Meta(ge=0)]


class FilePosition(Struct, frozen=True):
    """How far a file was read: the end of the last line that was handed out."""

    device: _Natural
    inode: _Natural
    offset: _Natural
    check: _Natural = 0
    """CRC-32 of the bytes before it, at most `log_file.MARK_BYTES`."""
