"""What a format is: a way to make a parser of single lines."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.metric_names import Goal
from specon_sidecar.formats.sample import Sample

if TYPE_CHECKING:
    from specon_sidecar.formats.surroundings import Surroundings


class FormatOptions(msgspec.Struct, frozen=True):
    """What the owner of a job may say about its log.

    `metric` is the exact name of the metric to follow, case-insensitive; None leaves the choice to
    `metric_choice.MetricChoice`. `pattern` is a regular expression, for the format of that name only.
    `goal` says whether less or more of the metric is better; None leaves it to its name.
    """

    metric: str | None = None
    pattern: str | None = None
    goal: Goal | None = None


class Parser(Protocol):
    """Reads the lines of one log in their order. It may keep state, such as the header of a table."""

    @property
    def choice(self) -> MetricChoice:
        """The choice among the numbers of the log, and whether it can be judged at all."""
        ...

    @property
    def held_back(self) -> int:
        """How many lines it recognised without a sample of their own: evidence all the same."""
        ...

    around: "Surroundings | None"
    """What the lines around the samples say."""
    woken_by: tuple[bytes, ...]
    """Byte strings; the first line that it has a use for, such as a heading, has one. Empty: any line."""

    @property
    def is_awake(self) -> bool:
        """Whether such a line has come."""
        ...

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample that the line holds. No bytes whatever make it raise."""
        ...

    def finish(self) -> Sample | None:
        """Return a sample that waited for a line to come, for the log has ended."""
        ...


class LineParser:
    """A parser each of whose lines is for itself, or for those after it."""

    held_back: int = 0
    around: "Surroundings | None" = None
    woken_by: tuple[bytes, ...] = ()

    @property
    def is_awake(self) -> bool:
        """Whether the line that it waited for has come."""
        return True

    def finish(self) -> Sample | None:
        """Return nothing: nothing waits."""
        return None


class Format(msgspec.Struct, frozen=True):
    """A line of the table of formats."""

    name: str
    summary: str
    make: Callable[[FormatOptions], Parser]
    """Raises ValueError where the options do not fit."""
    detectable: bool = True
    """Whether the detection may try it without being told."""
    weight: int = 1
    """How much a sample counts as evidence: more for a format that few other logs could be taken for."""
    needs_place: bool = False
    """Whether without steps or epochs the detection wants more, for it could be a table of anything."""
    goal_known: bool = True
    """Whether the metric's name tells the goal: CatBoost prints `learn` for a loss and for an accuracy."""
    rewritten: bool = False
    """Whether its file is rewritten each time, so that all its samples come again."""
    needles: tuple[bytes, ...] = ()
    """Byte strings; each line that it has a use for has one of them. Empty: it wants to see all lines."""
    writers: str = ""
    """What writes it, for the documentation."""
