"""What the reproduction of a paper consists of: runs, the measurements of each, and rows to compare."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from specon_lab.engine.outcome import Outcome
from specon_manager.model.settings import Budgets, Settings
from specon_sidecar.classify import ClassifierSettings

Measures = Mapping[str, float]
"""The kept measurements of one run, by name."""


class Run(Struct, frozen=True, kw_only=True):
    """One simulation; everything in it can be sent to another process."""

    key: str
    """Names the cell of the paper's table, the policy and the mode; runs of several seeds share it."""
    workload: str
    """As on the command line: NAME or NAME:key=value,..."""
    seed: int
    policy: str
    measure: Callable[[Outcome], Measures]
    """A module-level function; it runs where the simulation ran, so that no outcome travels."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings | None = None
    classifier: ClassifierSettings | None = None
    ticks_only: bool = False


UNBOUNDED_MOVES: Final = Budgets(
    moves_at_once=10**6,
    moves_at_once_per_node=10**6,
    moves_per_replica=10**6,
    cooldown=0.0,
    retry_cooldown=0.0,
)
"""For papers that bound no moves."""
FEWEST: Final = 5
"""Seeds; a figure of fewer gets no verdict."""


def judge_figure(holds: bool | None, runs: int) -> bool | None:  # noqa: FBT001  (the first argument is the judged one)
    """Return the verdict of a figure that so many seeds were run for."""
    return holds if runs >= FEWEST else None


class Row(Struct, frozen=True, kw_only=True):
    """One figure: the paper's, and ours in both modes."""

    what: str
    paper: float | None
    """None where the paper gives no number (a bar without a label, a lost table)."""
    literal: float | None = None
    default: float | None = None
    """Means over the seeds; None where a mode makes no sense or was not run."""
    spread: float | None = None
    """Half the width of the 95 % confidence interval of the mode that is compared."""
    unit: str = ""
    tolerance: str = ""
    """What counts as reproduced, in words."""
    reproduced: bool | None = None
    """None where there is nothing to compare with, or too little."""
    runs: int = 0
    """Of how many seeds it is the mean; 0: it is of no run."""
    note: str = ""
    """Why it differs."""

    def __post_init__(self) -> None:
        """Raise ValueError where a verdict rests on too few seeds."""
        if self.reproduced is not None and self.runs < FEWEST:
            raise ValueError(f"{self.what}: a verdict needs {FEWEST} seeds, not {self.runs}")


class Line(Struct, frozen=True, kw_only=True):
    """Figures of one thing beside each other, without a verdict."""

    what: str
    figures: Sequence[float | None]
    """One for each of the section's columns."""


class Section(Struct, frozen=True, kw_only=True):
    """One table or figure of the paper."""

    title: str
    rows: Sequence[Row] = ()
    columns: Sequence[str] = ()
    """What the figures of `lines` are, with their units."""
    lines: Sequence[Line] = ()
    remarks: Sequence[str] = ()
    """What could not be reproduced and why, and the choices where the paper is silent."""


Collected = Mapping[str, Sequence[Measures]]
"""By the key of the runs: the measures of each seed, in the order of the seeds."""


class Reproduction(Struct, frozen=True, kw_only=True):
    """One paper."""

    name: str
    title: str
    """Authors, title, venue."""
    runs: Callable[[bool], Sequence[Run]]
    """The runs; with True (`--quick`) few and small ones, for a first look and for tests."""
    sections: Callable[[Collected], Sequence[Section]]
    """The tables, from the measurements; keys of runs that were not made are absent."""
    printed: bool = True
    """Whether `Row.paper` is what somebody printed; else it was measured here, too."""
    remarks: Sequence[str] = ()
