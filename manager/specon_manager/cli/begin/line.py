"""A line that `specon init` writes: a key, its value, and why; and the check that its reader accepts it."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.views.names import cut

UNSURE: Final = "# ? "
"""What a line begins with that is only a proposal."""
_COLUMN: Final = 48


class ProposedLine(Struct, frozen=True, kw_only=True):
    """One line of a job, or one annotation."""

    key: str
    value: str | bool
    why: str
    sure: bool = True
    """Whether the files say so; else its reader has to decide, and it is written as a comment."""

    @property
    def text_value(self) -> str:
        """The value as an annotation has it."""
        return self.value if isinstance(self.value, str) else str(self.value).lower()

    def text(self) -> str:
        """Return it as YAML, with its reason as a comment; one that is not sure as a comment as a whole."""
        written = f"{self.key}: {json.dumps(self.value, ensure_ascii=False)}"
        return f"{'' if self.sure else UNSURE}{written:<{_COLUMN}} # {cut(self.why)}"


class Checked(Struct, frozen=True, kw_only=True):
    """Lines that their reader accepts, and what it says against the others."""

    lines: tuple[ProposedLine, ...]
    refused: tuple[str, ...]


def check_lines(
    lines: Sequence[ProposedLine], refusal: Callable[[Sequence[ProposedLine]], str | None]
) -> Checked:
    """Return the lines that are accepted together; `refusal` says what its reader has against some.

    A line that is not sure is tried with those that are.
    """
    kept: list[ProposedLine] = []
    refused = []
    for line in lines:
        printable = not isinstance(line.value, str) or line.value.isprintable()
        sure = [each for each in kept if each.sure]
        against = refusal([*sure, line]) if printable else "has characters that cannot be printed"
        if against is None:
            kept.append(line)
        else:
            refused.append(cut(f"{line.key}: left out: {against}"))
    return Checked(lines=tuple(kept), refused=tuple(refused))
