"""Lines and columns without any package: for commands that an installation without extras runs."""

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

_CODES: Final[Mapping[str, str]] = {
    "white": "37",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "bright_black": "90",
    "red": "31",
    "magenta": "35",
}
_PLAIN_WIDTH: Final = 120
_GAP: Final = "  "


class StyledLine(NamedTuple):
    """A line of pieces, each with the name of its colour, or without one."""

    pieces: tuple[tuple[str, str], ...]

    @property
    def plain(self) -> str:
        """The line without colours."""
        return "".join(text for text, _ in self.pieces).rstrip()

    def on(self, *, colours: bool) -> str:
        """Return the line as it is printed."""
        if not colours:
            return self.plain
        return "".join(
            f"\033[{_CODES[style]}m{text}\033[0m" if style else text for text, style in self.pieces
        ).rstrip()


def is_terminal() -> bool:
    """Whether standard output is a terminal that shows colours."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def terminal_width(otherwise: int = _PLAIN_WIDTH) -> int:
    """Return the columns of the terminal, or as many where there is none."""
    return shutil.get_terminal_size((otherwise, 0)).columns if sys.stdout.isatty() else otherwise


def fold_columns(rows: Sequence[Sequence[str]], most: Sequence[int], *, width: int) -> list[str]:
    """Return rows in folded columns: each at most so wide, the last has the rest of `width`."""
    wide = [min(bound, max(len(row[column]) for row in rows)) for column, bound in enumerate(most)]
    last = max(20, width - sum(wide) - len(_GAP) * len(wide))
    lines = []
    for row in rows:
        cells = [textwrap.wrap(cell, size) or [""] for cell, size in zip(row, (*wide, last), strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            sized = (f"{part:<{size}}" for part, size in zip(parts, (*wide, last), strict=True))
            lines.append(_GAP.join(sized).rstrip())
    return lines
