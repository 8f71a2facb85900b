"""The mistakes of a trace: all at once, as far as they can be listed."""

from collections.abc import Callable
from typing import Final

from specon_sidecar.counts import format_count

LISTED: Final = 20
"""So many mistakes are told; the others are counted."""

Warn = Callable[[str], None]
"""Takes warnings about a trace that can be used all the same."""


class TraceError(ValueError):
    """A trace that cannot be used; `mistakes` names file, row and field of each."""

    def __init__(self, mistakes: list[str], further: int = 0) -> None:
        more = [f"and {further} more"] if further else []
        super().__init__("\n".join(mistakes + more))
        self.mistakes = tuple(mistakes)
        self.further = further


class FieldError(ValueError):
    """A value that cannot be used, in this field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class LeftOut(Exception):  # noqa: N818  (no error: a row that is no training job, with the reason)
    """A row of somebody else's trace from which no job can be made, though nothing is wrong with it."""


def place_of(file: str, row: int | None) -> str:
    """Return the words for a place in a file."""
    return file if row is None else f"{file}, row {row}"


class Mistakes:
    """Collects mistakes; the first are kept, all are counted."""

    def __init__(self) -> None:
        self._listed: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, file: str, row: int | None, problem: str) -> None:
        """Note a problem; `row` is the line of the file, or the position in a list, from 1."""
        self._count += 1
        if self._count <= LISTED:
            self._listed.append(f"{place_of(file, row)}: {problem}")

    def check(self) -> None:
        """Raise TraceError if there was any."""
        if self._count:
            raise TraceError(self._listed, self._count - len(self._listed))


class Tally:
    """Counts what happens often and is worth one line each."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, str]] = {}

    def add(self, reason: str, example: str) -> None:
        """Count one more for this reason."""
        count, first = self._counts.get(reason, (0, example))
        self._counts[reason] = (count + 1, first)

    def tell(self, warn: Warn, one: str, many: str) -> None:
        """Tell each reason with its count and its first example."""
        for reason, (count, first) in self._counts.items():
            warn(f"{format_count(count, one, many)}: {reason} (first: {first})")
