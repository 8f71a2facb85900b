"""What a format is: a way to make a parser of single lines."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from specon_sidecar.sample import Sample


class FormatOptions(msgspec.Struct, frozen=True):
    """What the owner of a job may say about its log.

    `metric` is the exact name of the metric to follow, case-insensitive; None leaves the choice to
    `metric_choice.MetricChoice`. `pattern` is a regular expression, for the format of that name only.
    """

    metric: str | None = None
    pattern: str | None = None


class Parser(Protocol):
    """Reads the lines of one log in their order. It may keep state, such as the header of a table."""

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample that the line holds. No bytes whatever make it raise."""
        ...


class Format(msgspec.Struct, frozen=True):
    """A line of the table of formats."""

    name: str
    summary: str
    make: Callable[[FormatOptions], Parser]
    """Raises ValueError where the options do not fit."""
    detectable: bool = True
    """Whether the detection may try it without being told."""
