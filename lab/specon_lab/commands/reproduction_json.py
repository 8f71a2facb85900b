"""Reproductions as JSON, for other programs: the same command gives the same bytes.

One object, described in docs/simulate.md: `schema` 1; `command`; `versions`; `quick`; `complete`;
`reproductions`. Nothing in it is about the computer or the day. An unknown value is null.
"""

import math
import platform
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from specon_lab.commands.reproduction_figures import Counts, counts_of
from specon_lab.commands.reproduction_run import Reproduced
from specon_lab.reproduction.experiment import Section
from specon_manager import __version__


class RunMeasures(Struct, frozen=True, kw_only=True):
    """One run."""

    key: str
    seed: int
    measures: Mapping[str, float | None] | None
    failure: str | None


class ReproductionFigures(Struct, frozen=True, kw_only=True):
    """One paper."""

    name: str
    title: str
    complete: bool
    counts: Counts
    sections: tuple[Section, ...]
    remarks: tuple[str, ...]
    runs: tuple[RunMeasures, ...]


class ReproductionFile(Struct, frozen=True, kw_only=True):
    """What the file holds."""

    schema: Literal[1] = 1
    command: str
    versions: Mapping[str, str]
    quick: bool
    complete: bool
    """Whether every run is in it; not after an interruption or a failure."""
    reproductions: tuple[ReproductionFigures, ...]


def to_json(results: Sequence[Reproduced], *, command: str, quick: bool) -> bytes:
    """Return the results as indented JSON that ends in a newline."""
    content = ReproductionFile(
        command=command,
        versions={"specon": __version__, "python": platform.python_version()},
        quick=quick,
        complete=all(each.complete for each in results),
        reproductions=tuple(_figures(each) for each in results),
    )
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _figures(reproduced: Reproduced) -> ReproductionFigures:
    reproduction = reproduced.reproduction
    return ReproductionFigures(
        name=reproduction.name,
        title=reproduction.title,
        complete=reproduced.complete,
        counts=counts_of(reproduced.sections, printed=reproduction.printed),
        sections=reproduced.sections,
        remarks=tuple(reproduction.remarks),
        runs=tuple(
            RunMeasures(
                key=run.key,
                seed=run.seed,
                measures=None if run.measures is None else _finite(run.measures),
                failure=run.failure or None,
            )
            for run in reproduced.runs
        ),
    )


def _finite(measures: Mapping[str, float]) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in measures.items()}
