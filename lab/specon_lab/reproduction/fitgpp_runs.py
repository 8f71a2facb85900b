"""The runs of FitGpp's experiments, and the kept measurements of each.

Yabuuchi, Taniwaki and Omura, "Low-latency job scheduling with preemption for the development of deep
learning", OpML 2019 and arXiv 1902.01613, section 4. The keys of the runs are made here and nowhere else.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from specon_lab.engine.outcome import Outcome
from specon_lab.reproduction.experiment import Measures, Run
from specon_lab.results.statistics import percentile
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings

PERCENTILES: Final = (50, 75, 95, 99)
COUNTS: Final = (1, 2, 3)
"""How often a job was preempted, as in the paper's Table 4."""
PREEMPTIVE: Final = ("lrtp", "rand", "fitgpp")
POLICIES: Final = ("fifo", *PREEMPTIVE)
NAMES: Final = {"fifo": "FIFO", "lrtp": "LRTP", "rand": "RAND", "fitgpp": "FitGpp"}
WEIGHTS: Final = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""s of equation (3), Figure 4."""
CAPS: Final = (1, 2, 4, None)
"""P, Figure 5; None is infinite."""
PROPORTIONS: Final = (0.1, 0.3, 0.5, 0.7)
"""Of trials, Figure 6."""
GRACE_FACTORS: Final = (1, 2, 4, 8)
"""Of the grace periods, Figure 7."""
TABLE_JOBS: Final = 24_000
"""What configuration A of the workload was fitted with."""
SIZES: Final = (8_000, TABLE_JOBS, 65_536)
"""Numbers of jobs, to show how slowdowns grow with them."""
TRACE: Final = (
    "poisson:jobs=3000,nodes=32,gpus=8,interarrival=25,median=1800,sigma=1.5,trials=0.3,elastic=0,curves=0,"
    "start_seconds=0,grace=180"
)
"""In place of the cluster's trace, which is private: log-normal durations, demands that differ 8-fold."""

_MINUTE: Final = 60.0
_FOREVER: Final = 1e9
LITERAL: Final = Settings(
    tick=_MINUTE,
    gate=Gate(enabled=False),
    budgets=Budgets(preemptions_per_job=1_000_000),
    deadlines=Deadlines(claim=_FOREVER),
)
"""As the paper has neither a gate nor budgets, nor gives room up that a trial waits for."""
DEFAULT: Final = Settings(tick=_MINUTE)
"""The manager's own budgets and deadlines, at the paper's interval."""


def table(policy: str, mode: str) -> str:
    """Return the key of the runs of Tables 1 to 3; `mode` is "literal" or "default", FIFO has one only."""
    return "table/fifo" if policy == "fifo" else f"table/{policy}/{mode}"


def unlimited_key(policy: str) -> str:
    """Return the key of the runs of Table 4, without a cap on preemptions."""
    return f"unlimited/{policy}"


def weight(value: float) -> str:
    """Return the key of the runs of Figure 4."""
    return f"weight/{value:g}"


def cap(value: int | None) -> str:
    """Return the key of the runs of Figure 5."""
    return f"cap/{'inf' if value is None else value}"


def proportion(value: float, policy: str) -> str:
    """Return the key of the runs of Figure 6."""
    return f"proportion/{value:g}/{policy}"


def grace(factor: int, policy: str, value: float = 4.0) -> str:
    """Return the key of the runs of Figure 7; `value` is s, for FitGpp."""
    return f"grace/{factor}/{policy}" + (f"/{value:g}" if policy == "fitgpp" else "")


def size(jobs: int, policy: str) -> str:
    """Return the key of the runs with so many jobs; with the tables' number those are the tables'."""
    return table(policy, "literal") if jobs == TABLE_JOBS else f"size/{jobs}/{policy}"


def trace(policy: str, mode: str) -> str:
    """Return the key of the runs in place of Table 5."""
    return "trace/fifo" if policy == "fifo" else f"trace/{policy}/{mode}"


def measure_outcome(outcome: Outcome) -> Measures:
    """Return slowdowns by class, intervals in minutes, and the percentages of jobs by their preemptions.

    What has no value in a run, as the intervals of one without preemptions, is not named.
    """
    found = {"unfinished": float(sum(job.state != "completed" for job in outcome.jobs))}
    for name, classes in (("trial", {"trial"}), ("best-effort", {"best-effort"})):
        slowdowns = sorted(
            job.slowdown for job in outcome.jobs if job.job_class in classes and job.slowdown is not None
        )
        _put_percentiles(found, name, slowdowns)
    intervals = sorted(seconds / _MINUTE for job in outcome.jobs for seconds in job.intervals)
    _put_percentiles(found, "interval", intervals)
    share = 100 / max(1, len(outcome.jobs))
    found["preempted"] = share * sum(job.preemptions > 0 for job in outcome.jobs)
    for count in COUNTS:
        found[f"preempted-{count}"] = share * sum(job.preemptions == count for job in outcome.jobs)
    return found


def _put_percentiles(found: dict[str, float], name: str, ordered: Sequence[float]) -> None:
    for percent in PERCENTILES:
        value = percentile(ordered, percent)
        if value is not None:
            found[f"{name}-{percent}"] = value


def runs(quick: bool) -> Sequence[Run]:  # noqa: FBT001  (the interface of reproductions)
    """Return the runs; quick, the tables on a small cluster and the ends of the figures' ranges."""
    if quick:
        return tuple(_quick())
    return tuple(_full())


def _quick() -> Iterator[Run]:
    small = "fitgpp:config=A,jobs=900,nodes=24"
    yield from _tables(small, seeds=(1,), default_seeds=(1,))
    yield from _list_unlimited(small, seeds=(1,))
    yield from _figures(small, _Ranges((0.0, 4.0), (1, None), (0.3,), (1, 8)), seeds=(1,))


def _full() -> Iterator[Run]:
    whole, part = f"fitgpp:config=A,jobs={TABLE_JOBS}", "fitgpp:config=A,jobs=8000"
    yield from _tables(whole, seeds=(1, 2, 3, 4, 5), default_seeds=(1, 2))
    yield from _list_unlimited(whole, seeds=(1, 2, 3, 4, 5))
    yield from _figures(part, _Ranges(WEIGHTS, CAPS, PROPORTIONS, GRACE_FACTORS), seeds=(1, 2))
    for jobs in (SIZES[0], SIZES[-1]):
        for policy in ("fifo", "lrtp", "fitgpp"):
            yield _run(size(jobs, policy), f"fitgpp:config=A,jobs={jobs}", 1, policy, _literal(policy))
    for seed in (1, 2, 3, 4, 5):
        for policy in POLICIES:
            yield _run(trace(policy, "literal"), TRACE, seed, policy, _literal(policy))
            if policy == "fitgpp":
                yield _run(trace(policy, "default"), TRACE, seed, policy, {}, settings=DEFAULT)


def _tables(workload: str, *, seeds: Sequence[int], default_seeds: Sequence[int]) -> Iterator[Run]:
    for policy in POLICIES:
        for seed in seeds:
            yield _run(table(policy, "literal"), workload, seed, policy, _literal(policy))
        for seed in default_seeds if policy != "fifo" else ():
            yield _run(table(policy, "default"), workload, seed, policy, {}, settings=DEFAULT)


def _list_unlimited(workload: str, *, seeds: Sequence[int]) -> Iterator[Run]:
    for policy in PREEMPTIVE:
        for seed in seeds:
            parameters = _literal(policy) | {"max_preemptions": None}
            yield _run(unlimited_key(policy), workload, seed, policy, parameters)


class _Ranges(NamedTuple):
    """What the figures vary."""

    weights: Sequence[float]
    caps: Sequence[int | None]
    proportions: Sequence[float]
    factors: Sequence[int]


def _figures(workload: str, ranges: _Ranges, *, seeds: Sequence[int]) -> Iterator[Run]:
    """Yield the runs of Figures 4 to 7; one seed each for the last two, whose effects are large."""
    for seed in seeds:
        for value in ranges.weights:
            yield _run(weight(value), workload, seed, "fitgpp", {"literal": True, "grace_weight": value})
        for most in ranges.caps:
            yield _run(cap(most), workload, seed, "fitgpp", {"literal": True, "max_preemptions": most})
    for share in ranges.proportions:
        for policy in POLICIES:
            varied = f"{workload},trials={share}"
            yield _run(proportion(share, policy), varied, seeds[0], policy, _literal(policy))
    for times in ranges.factors:
        varied = f"{workload},grace_factor={times}"
        for policy in ("lrtp", "rand"):
            yield _run(grace(times, policy), varied, seeds[0], policy, _literal(policy))
        for value in (4.0, 8.0):
            given = {"literal": True, "grace_weight": value}
            yield _run(grace(times, "fitgpp", value), varied, seeds[0], "fitgpp", given)


def _literal(policy: str) -> dict[str, Any]:
    return {} if policy == "fifo" else {"literal": True}


def _run(
    key: str,
    workload: str,
    seed: int,
    policy: str,
    parameters: dict[str, Any],
    *,
    settings: Settings = LITERAL,
) -> Run:
    return Run(
        key=key,
        workload=workload,
        seed=seed,
        policy=policy,
        measure=measure_outcome,
        parameters=parameters,
        settings=settings,
        ticks_only=True,
    )
