"""What commands print: tables as wide as there is room, and JSON for other programs."""

from typing import Final

import msgspec
from rich.console import Console

_PLAIN_WIDTH: Final = 120


def console_for_results() -> Console:
    """Return where results are printed: as wide as the terminal, or wide enough where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def to_json(value: object) -> str:
    """Return a record as indented JSON for other programs."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
