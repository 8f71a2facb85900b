"""What commands print: tables as wide as there is room, and JSON for other programs."""

import argparse
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH: Final = 120
OUTPUTS: Final = ("text", "json")
LITERAL: Final[dict[str, Any]] = {"markup": False, "emoji": False, "highlight": False}
"""For consoles: what stands in logs, names and reasons is text, `root:x:0` and `[bold]` too."""


def add_output(parser: argparse.ArgumentParser, outputs: tuple[str, ...] = OUTPUTS) -> None:
    """Declare `--output`, which every command has that prints data."""
    parser.add_argument(
        "-o",
        "--output",
        choices=outputs,
        default=outputs[0],
        help=f"{', '.join(outputs[:-1])}, or {outputs[-1]}" + " for other programs" * (outputs[-1] == "json"),
    )


def console_for_results(*, aside: bool = False) -> "Console":
    """Return where results are printed: as wide as the terminal, or wide enough where there is none.

    `aside`: on standard error, for standard output has something for other programs.
    """
    from rich.console import Console  # noqa: PLC0415 - what prints JSON or plain lines does not need it

    width = None if Console(stderr=aside).is_terminal else _PLAIN_WIDTH
    return Console(**LITERAL, stderr=aside, width=width)


def to_json(value: object) -> str:
    """Return a record as indented JSON for other programs."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
