"""The Kubeflow dynamic scheduler against the default scheduler, in three scenarios of our own.

M. Fadhriga Bestari: Dynamic Resource Scheduler for Distributed Deep Learning Training on Kubeflow, 2020.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.engine.run import preempting_freely, settings_for
from specon_lab.reproduction.experiment import (
    Collected,
    Measures,
    Reproduction,
    Row,
    Run,
    Section,
    judge_figure,
)
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.results.statistics import Interval, interval
from specon_lab.workloads.table import workload_named

SCENARIOS: Final[Mapping[int, str]] = {
    1: "gangs that come together",
    2: "short jobs of high utility after long ones",
    3: "jobs of all sizes at random",
}
SEEDS: Final = range(100, 112)
_QUICK: Final = range(100, 101)
MODES: Final[Mapping[str, Mapping[str, Any]]] = {"literal": {"literal": True}, "default": {}}
PLACEMENTS: Final = ("spread", "hashed")
"""Of the default scheduler: the node with the most room, as Kubernetes has it, or any as if at random."""
_FASTER: Final = 26.0
_READ_AS: Final = ("spread", "training")
"""Placement and time: the strictest of the readings of that one figure."""
_TOLERANCE: Final = "more than 26 in the mean of the three scenarios"


def runs(quick: bool) -> Sequence[Run]:  # noqa: FBT001  (the interface of reproductions)
    """Return the runs of three scenarios, two baselines and two modes; `quick`: one seed, one baseline."""
    return tuple(run for seed in (_QUICK if quick else SEEDS) for run in _of_seed(seed, quick=quick))


def _of_seed(seed: int, *, quick: bool) -> Iterator[Run]:
    for scenario in SCENARIOS:
        text = f"kubeflow:scenario={scenario}"
        manager = settings_for(workload_named(text, seed))
        gate = msgspec.structs.replace(manager.gate, enabled=False)
        unbounded = msgspec.structs.replace(preempting_freely(manager), gate=gate)
        kinds = [
            (placement, "default-scheduler", {"placement": placement}, unbounded)
            for placement in PLACEMENTS[: 1 if quick else None]
        ]
        kinds += [
            (mode, "kubeflow", dict(parameters), unbounded if mode == "literal" else manager)
            for mode, parameters in MODES.items()
        ]
        for name, policy, parameters, settings in kinds:
            yield Run(
                key=f"{scenario}/{name}",
                workload=text,
                seed=seed,
                policy=policy,
                measure=measure,
                parameters=parameters,
                settings=settings,
            )


def measure(outcome: Outcome) -> Measures:
    """Return means over the jobs, seconds: from submission to end, and from the first training to the end."""
    jobs = outcome.jobs
    return {
        "completion": _mean([_find_end(job, outcome) - job.submitted_at for job in jobs]),
        "training": _mean(
            [_find_end(job, outcome) - job.started_at for job in jobs if job.started_at is not None]
        ),
        "makespan": outcome.makespan,
        "unfinished": float(sum(job.state != "completed" for job in jobs)),
    }


def _find_end(job: JobOutcome, outcome: Outcome) -> float:
    """Return when a job was complete; one that never is, the end of all."""
    if job.state == "completed" and job.ended_at is not None:
        return job.ended_at
    return outcome.makespan + min(each.submitted_at for each in outcome.jobs)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def sections(collected: Collected) -> Sequence[Section]:
    """Return one table for each way in which the default scheduler may place pods."""
    found = (
        Section(
            title=f"Time saved against the default scheduler, placement {placement}",
            rows=tuple(
                row
                for name, what in (
                    ("training", "training time (first training to end)"),
                    ("completion", "completion time (submission to end)"),
                    ("makespan", "makespan"),
                )
                for row in _rows(collected, placement, name, what)
            ),
        )
        for placement in PLACEMENTS
    )
    return tuple(section for section in found if section.rows)


def _rows(collected: Collected, placement: str, name: str, what: str) -> Iterator[Row]:
    present = [
        scenario
        for scenario in SCENARIOS
        if all(collected.get(f"{scenario}/{key}") for key in (placement, *MODES))
    ]
    savings = {
        mode: [_measure_saved(collected, scenario, placement, mode, name) for scenario in present]
        for mode in MODES
    }
    for index, scenario in enumerate(present):
        literal, default = (interval(savings[mode][index]) for mode in MODES)
        yield _row(f"{what}, scenario {scenario}: {SCENARIOS[scenario]}", literal, default)
    if present:
        literal, default = (interval(_means(savings[mode])) for mode in MODES)
        row = _row(f"{what}, mean of {len(present)} scenarios", literal, default)
        means = [figure.mean for figure in (literal, default) if figure is not None]
        if (placement, name) != _READ_AS:
            yield msgspec.structs.replace(row, note="another reading of the one figure that is known")
            return
        met = all(value > _FASTER for value in means) if len(present) == len(SCENARIOS) else None
        yield msgspec.structs.replace(
            row, paper=_FASTER, tolerance=_TOLERANCE, reproduced=judge_figure(met, row.runs)
        )


def _means(savings: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of the scenarios for each seed."""
    return [_mean(values) for values in zip(*savings, strict=False)]


def _measure_saved(collected: Collected, scenario: int, placement: str, mode: str, name: str) -> list[float]:
    """Return by how many percent a time is shorter, for each seed."""
    pairs = zip(collected[f"{scenario}/{mode}"], collected[f"{scenario}/{placement}"], strict=False)
    return [100 * (1 - run[name] / other[name]) for run, other in pairs if other[name] > 0]


def _row(what: str, literal: Interval | None, default: Interval | None) -> Row:
    return Row(
        what=what,
        paper=None,
        literal=None if literal is None else literal.mean,
        default=None if default is None else default.mean,
        spread=None if default is None else default.half_width,
        unit="%",
        runs=min((figure.runs for figure in (literal, default) if figure is not None), default=0),
    )


REPRODUCTION: Final = Reproduction(
    name="kubeflow",
    title=(
        "M. Fadhriga Bestari: Dynamic Resource Scheduler for Distributed Deep Learning Training on Kubeflow, "
        "2020 (an article)"
    ),
    runs=runs,
    sections=sections,
    remarks=remarks_of("kubeflow")["general"],
)
