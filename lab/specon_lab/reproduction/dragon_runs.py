"""The runs of DRAGON's experiments: the twelve jobs of Table 1, and random jobs in a sweep of the intensity.

Lin, Yeh and Chou, CLOSER 2019, sections 4.2 (Figures 6 to 8) and 4.3 (Figures 9 and 10).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.engine.run import preempting_freely, settings_for
from specon_lab.reproduction.experiment import Measures, Run
from specon_lab.workloads.dragon import TABLE_1
from specon_lab.workloads.table import workload_named
from specon_manager.model.settings import Settings

JOBS: Final = len(TABLE_1)
KUBEFLOW: Final = "kubeflow"
LOCALITY: Final = "locality-aware"
LITERAL: Final = "dragon/literal"
DEFAULT: Final = "dragon/default"

INTENSITIES: Final = (0.62, 1.0, 2.0, 3.0, 4.0)
"""248 s / mean inter-arrival time: 400 s to 62 s."""
QUICK_INTENSITIES: Final = (1.0, 4.0)
LEAST_LOADED: Final = 248.0
"""Mean seconds between arrivals at intensity 1."""
RESYNC: Final = 15.0
"""Seconds between two looks at the cluster in which nothing happened; arrivals and ends are looked at too."""

_TABLE_SEEDS: Final = range(30)
_SWEEP_SEEDS: Final = range(100, 108)
"""A repair of the default mode was chosen with the seeds 0 to 4, which are not among them."""
_QUICK_TABLE_SEEDS: Final = range(2)
_QUICK_SWEEP_SEEDS: Final = range(100, 101)
_SWEEP_JOBS: Final = 100
_QUICK_JOBS: Final = 30


class Scheduler(Struct, frozen=True, kw_only=True):
    """A scheduler that the paper compares, in one mode."""

    name: str
    policy: str
    parameters: Mapping[str, Any] = {}
    bounded: bool = True
    """Whether the manager's own gate and budgets hold."""


SCHEDULERS: Final = (
    Scheduler(name=KUBEFLOW, policy="default-scheduler", bounded=False),
    Scheduler(name=LOCALITY, policy="dragon-locality", bounded=False),
    Scheduler(name=LITERAL, policy="dragon", parameters={"literal": True}, bounded=False),
    Scheduler(name=DEFAULT, policy="dragon"),
)


def table_key(scheduler: str) -> str:
    """Return the key of the runs of Table 1."""
    return f"table-1/{scheduler}"


def sweep_key(intensity: float, scheduler: str) -> str:
    """Return the key of the runs with random jobs."""
    return f"intensity-{intensity:g}/{scheduler}"


SECONDS: Final = f"seconds/{LOCALITY}"
"""The key of the runs that take the unit of Table 1's arrivals at its word."""


def runs(quick: bool) -> Sequence[Run]:  # noqa: FBT001  (the interface of reproductions)
    """Return the runs of both experiments; with `quick` of few seeds, two intensities and fewer jobs."""
    return (*_of_table_1(_QUICK_TABLE_SEEDS if quick else _TABLE_SEEDS), *_of_sweep(quick=quick))


def _of_table_1(seeds: Sequence[int]) -> Iterator[Run]:
    for seed in seeds:
        settings = settings_for(workload_named("dragon-table1", seed))
        for scheduler in SCHEDULERS:
            yield _run(table_key(scheduler.name), "dragon-table1", seed, scheduler, settings)
        locality = next(each for each in SCHEDULERS if each.name == LOCALITY)
        yield _run(SECONDS, "dragon-table1:minute=1", seed, locality, settings)


def _of_sweep(*, quick: bool) -> Iterator[Run]:
    jobs = _QUICK_JOBS if quick else _SWEEP_JOBS
    for intensity in QUICK_INTENSITIES if quick else INTENSITIES:
        workload = f"dragon-random:jobs={jobs},interarrival={LEAST_LOADED / intensity:g}"
        for seed in _QUICK_SWEEP_SEEDS if quick else _SWEEP_SEEDS:
            settings = msgspec.structs.replace(settings_for(workload_named(workload, seed)), tick=RESYNC)
            for scheduler in SCHEDULERS:
                yield _run(sweep_key(intensity, scheduler.name), workload, seed, scheduler, settings)


def _run(key: str, workload: str, seed: int, scheduler: Scheduler, settings: Settings) -> Run:
    return Run(
        key=key,
        workload=workload,
        seed=seed,
        policy=scheduler.policy,
        measure=measure,
        parameters=scheduler.parameters,
        settings=settings if scheduler.bounded else _unbind(settings),
    )


def _unbind(settings: Settings) -> Settings:
    """Return settings without gate and budgets: the paper has neither."""
    return preempting_freely(
        msgspec.structs.replace(
            settings,
            gate=msgspec.structs.replace(settings.gate, enabled=False),
            budgets=msgspec.structs.replace(settings.budgets, moves_at_once=10**6, moves_per_replica=10**6),
        )
    )


def measure(outcome: Outcome) -> Measures:
    """Return how the jobs spent their time, mean seconds, and the share of the GPUs that was allocated.

    `running` is training at whatever speed, `paused` is placed and not training (a restart, or a gang of
    which some pods are pending), `waiting` is the rest. `running N` is that of the N-th job, where there are
    no more than Table 1 has.
    """
    jobs = outcome.jobs
    number = max(1, len(jobs))
    measures = {
        "running": sum(job.trained_seconds for job in jobs) / number,
        "paused": sum(job.paused_seconds for job in jobs) / number,
        "waiting": sum(job.waited_seconds for job in jobs) / number,
        "allocated": outcome.allocated,
        "makespan": outcome.makespan,
        "scalings": float(sum(job.scale_outs + job.scale_ins for job in jobs)),
        "at once": float(sum(_at_once(job) for job in jobs)),
        "incomplete": float(sum(job.state != "completed" for job in jobs)),
    }
    if len(jobs) <= JOBS:
        for place, job in enumerate(jobs, start=1):
            measures[f"running {place}"] = job.trained_seconds
    return measures


def _at_once(job: JobOutcome) -> bool:
    """Whether a job trained as soon as it came."""
    return job.started_at is not None and job.started_at - job.submitted_at < 1.0
