"""What a simulation came to as JSON, for other programs: the same command gives the same bytes.

One object, described in docs/simulate.md: `schema` 1; `command`; `versions`; `workload`; `seeds`;
`complete`; `meaning`, which gives title, unit and better side of each figure; `report`; `runs`; `failures`.
An unknown value is null.
"""

import platform
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from specon_lab.commands.simulation_run import Failure, Results
from specon_lab.results.figures import FIGURES, Figure
from specon_lab.results.report import Report, ReportedRun
from specon_lab.workloads.workload import Workload
from specon_manager import __version__


class WorkloadSize(Struct, frozen=True, kw_only=True):
    """Of the first seed."""

    name: str
    jobs: int
    nodes: int


class RunFigures(Struct, frozen=True, kw_only=True):
    """One run; `seconds` is how long the computer took, null unless it was asked for."""

    policy: str
    seed: int
    figures: Mapping[str, float | None]
    seconds: float | None


class SimulationFile(Struct, frozen=True, kw_only=True):
    """What the file holds."""

    schema: Literal[1] = 1
    command: str
    versions: Mapping[str, str]
    workload: WorkloadSize
    seeds: tuple[int, ...]
    complete: bool
    """Whether every run is in it; not after an interruption or a failure."""
    meaning: Mapping[str, Figure]
    report: Report
    runs: tuple[RunFigures, ...]
    failures: tuple[Failure, ...]


def to_json(
    report: Report, results: Results, *, command: str, workload: Workload, seeds: Sequence[int]
) -> bytes:
    """Return the result as indented JSON that ends in a newline."""
    content = SimulationFile(
        command=command,
        versions={"specon": __version__, "python": platform.python_version()},
        workload=WorkloadSize(name=workload.name, jobs=len(workload.jobs), nodes=len(workload.nodes)),
        seeds=tuple(seeds),
        complete=not (results.interrupted or results.failures),
        meaning=dict(FIGURES),
        report=report,
        runs=tuple(_figures(run) for run in results.runs),
        failures=results.failures,
    )
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _figures(run: ReportedRun) -> RunFigures:
    return RunFigures(policy=run.policy, seed=run.seed, figures=run.figures, seconds=run.seconds)
