"""The figures of one run: what its jobs and its cluster came to, by name, with unit and meaning."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.results.statistics import mean, percentile

Unit = Literal["s", "share", "ratio", "count"]
Better = Literal["lower", "higher", "neither"]


class Figure(Struct, frozen=True, kw_only=True):
    """What a figure is."""

    title: str
    unit: Unit
    """Seconds; a share of 1; a ratio; a number of things."""
    better: Better = "lower"


_TIMES: Final = {"mean": "average", "p50": "median", "p95": "p95", "p99": "p99"}
_PERCENTILES: Final = (50.0, 95.0, 99.0)
_INTERVALS: Final = (50.0, 75.0, 95.0, 99.0)  # those of FitGpp's Table 2
CLASSES: Final = ("trial", "best-effort")
"""The classes of jobs, as tables name them: `specon_manager.model.cluster.JobSpec.job_class`."""


def _describe() -> Iterator[tuple[str, Figure]]:
    for key, word in _TIMES.items():
        yield f"completion.{key}", Figure(title=f"completion time, {word}", unit="s")
    for key, word in _TIMES.items():
        yield f"convergence.{key}", Figure(title=f"time to convergence, {word}", unit="s")
    yield "makespan", Figure(title="makespan", unit="s")
    for name in CLASSES:
        for percent in _PERCENTILES:
            title = f"slowdown, {name}, p{percent:g}"
            yield f"slowdown.{name}.p{percent:g}", Figure(title=title, unit="ratio")
    yield "fairness.p99", Figure(title="finish-time fairness, p99", unit="ratio")
    yield "utilisation.allocated", Figure(title="allocated", unit="share", better="higher")
    yield "utilisation.used", Figure(title="used for training", unit="share", better="higher")
    yield "waiting.mean", Figure(title="waiting, average", unit="s")
    yield "paused.mean", Figure(title="paused, average", unit="s")
    yield "lost.total", Figure(title="training done again, all jobs", unit="s")
    yield "moves", Figure(title="moves", unit="count", better="neither")
    yield "moves.failed", Figure(title="moves that failed", unit="count")
    yield "preemptions", Figure(title="preemptions", unit="count", better="neither")
    yield "preempted", Figure(title="jobs preempted", unit="share")
    for percent in _INTERVALS:
        title = f"preempted to training, p{percent:g}"
        yield f"interval.p{percent:g}", Figure(title=title, unit="s")
    yield "scale-outs", Figure(title="scale-outs", unit="count", better="neither")
    yield "scale-ins", Figure(title="scale-ins", unit="count", better="neither")
    yield "jobs.completed", Figure(title="jobs completed", unit="count", better="higher")
    yield "jobs.failed", Figure(title="jobs failed", unit="count")
    yield "jobs.unfinished", Figure(title="jobs unfinished", unit="count")
    yield "jobs.cannot-run", Figure(title="jobs larger than the cluster", unit="count", better="neither")
    yield "decisions", Figure(title="times the policy was asked", unit="count", better="neither")


FIGURES: Final[Mapping[str, Figure]] = MappingProxyType(dict(_describe()))
"""Every figure by its key, in the order in which it is shown."""


def figures_of(outcome: Outcome) -> dict[str, float | None]:
    """Return every figure of a run; None where no job says anything about it.

    Times are of the jobs that completed, or converged; waiting, pauses, work done again and everything that
    is counted are of all jobs but those that are larger than the cluster.
    """
    jobs = [job for job in outcome.jobs if job.state != "cannot-run"]
    states = [job.state for job in outcome.jobs]
    return {
        **times_of("completion", (job.completion_seconds for job in jobs)),
        **times_of("convergence", (job.convergence_seconds for job in jobs)),
        "makespan": outcome.makespan if jobs else None,
        **_slowdowns(jobs),
        "fairness.p99": percentile(_keep_known(job.fairness for job in jobs), 99.0),
        "utilisation.allocated": outcome.allocated,
        "utilisation.used": outcome.used,
        "waiting.mean": mean([job.waited_seconds for job in jobs]),
        "paused.mean": mean([job.paused_seconds for job in jobs]),
        "lost.total": sum(job.lost_seconds for job in jobs),
        "moves": float(sum(job.moves for job in jobs)),
        "moves.failed": float(outcome.moves_failed),
        "preemptions": float(sum(job.preemptions for job in jobs)),
        "preempted": mean([1.0 if job.preemptions else 0.0 for job in jobs]),
        **_intervals(jobs),
        "scale-outs": float(sum(job.scale_outs for job in jobs)),
        "scale-ins": float(sum(job.scale_ins for job in jobs)),
        "jobs.completed": float(states.count("completed")),
        "jobs.failed": float(states.count("failed")),
        "jobs.unfinished": float(states.count("unfinished")),
        "jobs.cannot-run": float(states.count("cannot-run")),
        "decisions": float(outcome.decisions),
    }


def times_of(prefix: str, seconds: Iterable[float | None]) -> dict[str, float | None]:
    """Return mean, median, 95th and 99th percentile of times; None among them is passed over."""
    known = _keep_known(seconds)
    return {f"{prefix}.mean": mean(known), **_percentiles(prefix, known, _PERCENTILES)}


def _slowdowns(jobs: Sequence[JobOutcome]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in CLASSES:
        known = _keep_known(job.slowdown for job in jobs if job.job_class == name)
        found.update(_percentiles(f"slowdown.{name}", known, _PERCENTILES))
    return found


def _keep_known(values: Iterable[float | None]) -> list[float]:
    return sorted(value for value in values if value is not None)


def _intervals(jobs: Sequence[JobOutcome]) -> dict[str, float | None]:
    known = sorted(seconds for job in jobs for seconds in job.intervals)
    return _percentiles("interval", known, _INTERVALS)


def _percentiles(prefix: str, ordered: Sequence[float], percents: Sequence[float]) -> dict[str, float | None]:
    return {f"{prefix}.p{percent:g}": percentile(ordered, percent) for percent in percents}
