"""How long jobs wait at most, without and with the bound of `docs/elastic.md#how-long-a-job-waits-at-most`.

`python benchmarks/waiting.py [--json FILE]`. Small jobs keep a cluster of 8 nodes nearly full for six hours,
and every hour a gang comes that needs half of it. For each policy it prints the longest wait of a gang and of
a small job, and, with the bound, the longest wait as a share of that job's bound. Every run can be
repeated; no job runs for longer than an hour.
"""

from random import Random

import msgspec

import figure
from figure import Figure
from specon_lab.engine.outcome import Outcome
from specon_lab.engine.run import settings_for, simulate
from specon_lab.workloads.workload import Submission, Training, Workload
from specon_manager.model.cluster import JobSpec, Node
from specon_manager.model.resources import Resources

STARVATION = 1800.0
LONGEST = 3600.0
_ENDS = 21_600.0
_GANG_EVERY = 3600.0
_NODES, _CPUS = 8, 8.0
_LOAD = 0.9
"""Of the CPUs, by small jobs alone."""
_MEAN = 900.0
POLICIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("fitgpp", {}),
    ("dragon", {"scaling": False}),
    ("quota-fifo", {}),
    ("progress", {}),
)


def workload(seed: int, ends: float = _ENDS) -> Workload:
    """Return the jobs that come."""
    rng = Random(seed)
    jobs, at, number = list[Submission](), 0.0, 0
    while at < ends:
        at += rng.expovariate(_LOAD * _NODES * _CPUS / (2.0 * _MEAN))
        seconds = min(LONGEST, max(60.0, rng.expovariate(1 / _MEAN)))
        jobs.append(_job(f"small-{number}", at, seconds, workers=1, cpu=2.0))
        number += 1
    count = int(ends / _GANG_EVERY)
    jobs += [
        _job(f"gang-{n}", (n + 0.5) * _GANG_EVERY, 1200.0, workers=_NODES // 2, cpu=_CPUS)
        for n in range(count)
    ]
    capacity = Resources(cpu=_CPUS)
    nodes = tuple(Node(name=f"node-{index}", capacity=capacity) for index in range(1, _NODES + 1))
    return Workload(name="waiting", nodes=nodes, jobs=tuple(jobs), seed=seed)


def _job(name: str, at: float, seconds: float, *, workers: int, cpu: float) -> Submission:
    full = f"default/{name}"
    spec = JobSpec(
        name=full,
        replicas=tuple(f"{full}/worker/{index}" for index in range(workers)),
        requests=Resources(cpu=cpu),
        workers=workers,
        checkpointing="none",
    )
    return Submission(at=at, spec=spec, training=Training(seconds=seconds))


def share_of_bound(waits: list[tuple[float, float]], tick: float) -> float:
    """Return the largest wait as a share of its bound, S + (k + 1) (L + a Tick), of those that starved.

    `waits` are, by job, when it came and for how long it waited; k are those before it that still waited
    when it starved.
    """
    worst = 0.0
    for came, wait in waits:
        if wait <= STARVATION:
            continue
        starves = came + STARVATION
        before = sum(other < came and other + waited > starves for other, waited in waits)
        worst = max(worst, wait / (STARVATION + (before + 1) * (LONGEST + tick) + tick))
    return worst


def measure(ends: float = _ENDS) -> list[Figure]:
    """Run every policy on the same jobs, without and with the bound."""
    given, figures = workload(0, ends), list[Figure]()
    for policy, parameters in POLICIES:
        for starvation in (None, STARVATION):
            settings = msgspec.structs.replace(settings_for(given), starvation=starvation)
            outcome = simulate(given, policy, parameters=parameters, settings=settings)
            title = f"{policy}, {'no bound' if starvation is None else f'S = {starvation:g} s'}"
            figures += _figures(title, outcome)
            if starvation is not None:
                waits = [
                    (job.submitted_at, _waited(job.started_at, job.submitted_at)) for job in outcome.jobs
                ]
                share = share_of_bound(waits, settings.tick)
                what = f"{title}: longest wait as a share of its bound"
                figures.append(Figure(what=what, value=share, unit="", at_most=1.0))
    return figures


def _figures(title: str, outcome: Outcome) -> list[Figure]:
    found = []
    for kind in ("gang", "small"):
        waits = [
            _waited(job.started_at, job.submitted_at)
            for job in outcome.jobs
            if job.name.startswith(f"default/{kind}")
        ]
        note = f"mean {sum(waits) / len(waits):.0f} s, {100 * outcome.used:.0f} % of the CPUs used"
        found.append(Figure(what=f"{title}: longest wait of a {kind}", value=max(waits), unit="s", note=note))
    return found


def _waited(started_at: float | None, submitted_at: float) -> float:
    if started_at is None:
        raise RuntimeError("a job never started")
    return started_at - submitted_at


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(_GANG_EVERY)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
