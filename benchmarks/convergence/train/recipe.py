"""What a training run is to the recorder: a name, and an iterator that trains and yields values."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal


class TimedValue(float):
    """A value whose training ran in another process, with the processor time that it had taken."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run; `train` does the work and yields the value of each report as it is made."""

    family: str
    """Runs of one family share model and data; the tuning and the report part share no family."""
    name: str
    reports: int
    """How many reports are made: the total that the log would print."""
    train: Callable[[], Iterator[float]]
    goal: Literal["min", "max"] = "min"
