"""What the reproduction of a paper consists of: runs, what is measured of each, and rows to compare."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from specon_lab.engine.outcome import Outcome
from specon_manager.model.settings import Settings
from specon_sidecar.classify import ClassifierSettings

Measures = Mapping[str, float]
"""What is kept of one run, by name."""


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
    """None where there is nothing to compare with."""
    note: str = ""
    """Why it differs."""


class Section(Struct, frozen=True, kw_only=True):
    """One table or figure of the paper."""

    title: str
    rows: Sequence[Row]
    remarks: Sequence[str] = ()
    """What could not be reproduced and why, and what was chosen where the paper is silent."""


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
    """The tables, from what was measured; keys of runs that were not made are absent."""
    remarks: Sequence[str] = ()
