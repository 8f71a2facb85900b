"""The runs of KOD2's experiment: 4 models with 5 batches, two operators, and the measurements of each.

Jeong and Yu, KIPS Transactions on Computer and Communication Systems 11(7), 2022, section 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.engine.run import preempting_freely, settings_for
from specon_lab.reproduction.experiment import Measures, Run
from specon_lab.workloads.kod2 import MODELS
from specon_lab.workloads.table import workload_named
from specon_lab.workloads.workload import Workload
from specon_manager.model.settings import Settings

BATCHES: Final = (8, 16, 32, 64, 128)
USE_BATCH: Final = 64
"""The batch of Figure 8."""
SEEDS: Final = range(100, 116)
"""Each is a table of requests; the workload was fitted with the seeds 0 to 7, which are not among them."""
_QUICK: Final = range(100, 102)
BLOCKED: Final = 0.05
"""Of a processor, what a worker uses that waits for the network: `benchmarks/blocked_worker.py`."""
TIMEOUT: Final = 1800.0
"""Seconds after which a gang in part is put back: the paper's "about 30 minutes to over an hour"."""
GRID: Final = 60.0
"""Seconds between the moments at which the work done so far is kept."""
MOMENTS: Final = 900

BASELINE: Final[Mapping[str, Any]] = {"placement": "hashed", "order": "hashed", "gang_timeout": TIMEOUT}
IN_ORDER: Final[Mapping[str, Any]] = {**BASELINE, "order": "fifo"}
MODES: Final[Mapping[str, Mapping[str, Any]]] = {"literal": {"literal": True}, "default": {}}
SWEPT: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    *((f"starve_limit={seconds:g}", {"starve_limit": seconds}) for seconds in (30.0, 60.0, 120.0, 300.0)),
    *((f"cooldown={seconds:g}", {"cooldown": seconds}) for seconds in (0.0, 30.0, 60.0, 120.0)),
    ("backfill=true", {"backfill": True}),
    ("denominator=gang", {"denominator": "gang"}),
)
"""What the paper does not say, one setting at a time, in default mode."""
SWEPT_CELLS: Final = (("vgg-16", 64), ("vgg-16", 128))


class BatchCell(Struct, frozen=True, kw_only=True):
    """A bar of Figure 7."""

    model: str
    batch: int

    @property
    def words(self) -> str:
        """As it is called in tables."""
        return f"{self.model}, batch {self.batch}"

    @property
    def workload(self) -> str:
        """As on the command line."""
        return f"kod2:model={self.model},batch={self.batch}"

    def key(self, operator: str) -> str:
        """Return the key of its runs under an operator: `tf-operator`, `kod2/literal`, `kod2/default`, ..."""
        return f"{self.model}/{self.batch}/{operator}"


CELLS: Final = tuple(BatchCell(model=model, batch=batch) for model in MODELS for batch in BATCHES)
_QUICK_CELLS: Final = tuple(
    BatchCell(model=model, batch=batch)
    for model, batch in (("vgg-16", 64), ("vgg-16", 128), ("cnn-rand", 64))
)


def runs(quick: bool) -> Sequence[Run]:  # noqa: FBT001  (the interface of reproductions)
    """Return the runs of all cells and sweeps; with `quick` of three cells and of two tables of requests."""
    seeds = _QUICK if quick else SEEDS
    swept = () if quick else SWEPT_CELLS
    return tuple(run for seed in seeds for run in _of_seed(seed, _QUICK_CELLS if quick else CELLS, swept))


def _of_seed(seed: int, cells: Sequence[BatchCell], swept: Sequence[tuple[str, int]]) -> Iterator[Run]:
    for cell in cells:
        workload = workload_named(cell.workload, seed)
        manager, unbounded = settings_for(workload), _unbind(workload)
        yield _run(cell, seed, "tf-operator", BASELINE, unbounded)
        if cell.batch == USE_BATCH:
            yield _run(cell, seed, "tf-operator-in-order", IN_ORDER, unbounded)
        for mode, parameters in MODES.items():
            settings = unbounded if mode == "literal" else manager
            yield _run(cell, seed, f"kod2/{mode}", parameters, settings)
        if (cell.model, cell.batch) in swept:
            for name, parameters in SWEPT:
                yield _run(cell, seed, f"kod2/{name}", parameters, manager)


def _run(cell: BatchCell, seed: int, operator: str, parameters: Mapping[str, Any], settings: Settings) -> Run:
    return Run(
        key=cell.key(operator),
        workload=cell.workload,
        seed=seed,
        policy="kod2" if operator.startswith("kod2") else "default-scheduler",
        measure=partial(measure_use, cell.workload) if cell.batch == USE_BATCH else measure,
        parameters=parameters,
        settings=settings,
    )


def _unbind(workload: Workload) -> Settings:
    """Return settings without the manager's gate and budget of preemptions: put-backs count as such."""
    settings = preempting_freely(settings_for(workload))
    return msgspec.structs.replace(settings, gate=msgspec.structs.replace(settings.gate, enabled=False))


def measure(outcome: Outcome) -> dict[str, float]:
    """Return mean times of the jobs in seconds, how many were killed, and how often jobs were scaled.

    `jct` counts until a job is complete, whatever became of it before; `killed jct` until the first time-out
    ended it, if one did.
    """
    jobs = outcome.jobs
    return {
        "jct": _mean([_completion(job, outcome) for job in jobs]),
        "killed jct": _mean([_until_killed(job, outcome) for job in jobs]),
        "killed": float(sum(job.preemptions > 0 for job in jobs)),
        "unfinished": float(sum(job.state != "completed" for job in jobs)),
        "makespan": outcome.makespan,
        "scalings": float(sum(job.scale_outs + job.scale_ins for job in jobs)),
    }


def measure_use(workload: str, outcome: Outcome) -> Measures:
    """Return the same, and `held N`, `computed N` and `used N`: core seconds until N times GRID, or the end.

    Used is computation, and the use of blocked replicas (`BLOCKED`) in the time in which their cores are
    held and nothing is computed.
    """
    measures = measure(outcome)
    given = workload_named(workload, outcome.seed)
    cores = sum(node.capacity.cpu for node in given.nodes)
    requests = [job.spec.requests_of(name).cpu for job in given.jobs for name in job.spec.replicas]
    blocked = BLOCKED * len(requests) / sum(requests)  # of a core that is held
    for moment in range(1, MOMENTS + 1):
        until = moment * GRID
        held, computed = cores * _measure_held(outcome, until), _measure_computed(given, outcome, until)
        measures[f"held {moment}"], measures[f"computed {moment}"] = held, computed
        measures[f"used {moment}"] = computed + blocked * max(0.0, held - computed)
        if until >= outcome.makespan:
            break
    return measures


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _completion(job: JobOutcome, outcome: Outcome) -> float:
    """Return how long a job took; one that is never complete, until the end of all."""
    seconds = job.completion_seconds
    return outcome.makespan - job.submitted_at if seconds is None else seconds


def _until_killed(job: JobOutcome, outcome: Outcome) -> float:
    """Return how long a job took until it was complete, or until its gang was put back for the first time."""
    if job.intervals and job.started_at is not None:
        return job.started_at - job.intervals[0] - job.submitted_at
    return _completion(job, outcome)


def _measure_held(outcome: Outcome, until: float) -> float:
    """Return the share of the cores that training jobs hold, times the seconds, up to a moment."""
    points = outcome.use
    ends = (*(point.at for point in points[1:]), outcome.makespan)
    return sum(
        point.used * (min(end, until) - point.at)
        for point, end in zip(points, ends, strict=True)
        if point.at < min(end, until)
    )


def _measure_computed(given: Workload, outcome: Outcome, until: float) -> float:
    """Return the core seconds that the workers computed up to a moment, without waiting for the network.

    What a job computes in all does not depend on where it runs: the time that one worker alone needs, times
    its cores. It is spread evenly over the time from its first training to its end.
    """
    done = 0.0
    for submission, job in zip(given.jobs, outcome.jobs, strict=True):
        if job.started_at is None or job.started_at >= until:
            continue
        spec, training = submission.spec, submission.training
        work = spec.requests.cpu * training.seconds * training.speedup[spec.wanted_workers - 1]
        end = outcome.makespan if job.ended_at is None else job.ended_at
        done += work * min(1.0, (until - job.started_at) / (end - job.started_at))
    return done
