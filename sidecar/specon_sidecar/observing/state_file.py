"""Reads and writes the state file."""

import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from specon_sidecar.observing.state import State

_LOG = logging.getLogger(__name__)
_MAX_BYTES: Final = 1 << 20


def save(state: State, file: Path) -> None:
    """Replace the state file in one piece; raises OSError."""
    aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        aside.write_bytes(msgspec.json.encode(state))
        aside.replace(file)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def load(file: Path) -> State | None:
    """Return the state in the file; None where there is none, and with a warning where it is unusable."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            _LOG.warning("state file %s: longer than %d bytes, starting again", file, _MAX_BYTES)
            return None
        return msgspec.json.decode(content, type=State)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _LOG.warning("state file %s: %s, starting again", file, error)
        return None
