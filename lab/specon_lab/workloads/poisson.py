"""A workload for anybody's questions: jobs that arrive independently, with many short and few long ones.

After no paper; everything is a setting. Arrivals are a Poisson process, durations are log-normal (the form
that traces of training clusters show), numbers of GPUs are powers of two.
"""

import math
from random import Random
from typing import Annotated

from msgspec import Meta, Struct

from specon_lab.workloads.records import GB, NAMESPACE, equal_nodes, replica_names, seed_random
from specon_lab.workloads.workload import LossCurve, Submission, Training, Workload
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources

Share = Annotated[float, Meta(ge=0, le=1)]


class PoissonWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of jobs, their sizes, and the cluster at which they arrive."""

    jobs: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    nodes: Annotated[int, Meta(ge=1, le=100_000)] = 16
    gpus: Annotated[int, Meta(ge=1, le=1024)] = 4
    """Of each node; 8 cores and 64 GB come with each."""
    interarrival: Annotated[float, Meta(gt=0, le=1e9)] = 120.0
    """Mean seconds from one arrival to the next."""
    median: Annotated[float, Meta(gt=0, le=1e9)] = 1800.0
    """Seconds that half of the jobs do not reach."""
    sigma: Annotated[float, Meta(ge=0, le=5)] = 1.2
    """Standard deviation of the durations' natural logarithm."""
    sizes: Annotated[tuple[Annotated[float, Meta(ge=0, le=1e9)], ...], Meta(min_length=1, max_length=8)] = (
        70.0,
        12.0,
        10.0,
        8.0,
    )
    """How often a job asks for 1, 2, 4, 8 ... GPUs, in any unit."""
    elastic: Share = 0.5
    """Share of jobs that train with one worker up to twice as many as they ask for."""
    exponent: Share = 0.9
    """n workers are n^exponent times as fast as one."""
    curves: Share = 0.5
    """Share of jobs whose log has an evaluation function; their rates are uniform in 3 to 20."""
    noise: Share = 0.002
    trials: Share = 0.0
    """Share of jobs that are trials, which train for at most a tenth of the time that is drawn for them."""
    grace: Annotated[float, Meta(ge=0, le=1e6)] = 30.0
    """Seconds from being told to end until the job is gone."""
    start_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 10.0
    resize_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 30.0


def generate(settings: PoissonWorkload, seed: int) -> Workload:
    """Return the jobs; raises ValueError where no size has any weight."""
    if not any(settings.sizes):
        raise ValueError("sizes: all are 0")
    draw = seed_random(f"poisson {seed}")
    capacity = Resources(cpu=8.0 * settings.gpus, memory=64 * GB * settings.gpus, gpu=float(settings.gpus))
    at, jobs = 0.0, []
    for number in range(1, settings.jobs + 1):
        jobs.append(_submission(number, at, settings, draw))
        at += draw.expovariate(1.0 / settings.interarrival)
    return Workload(name="poisson", nodes=equal_nodes(settings.nodes, capacity), jobs=tuple(jobs), seed=seed)


def _submission(number: int, at: float, settings: PoissonWorkload, draw: Random) -> Submission:
    """Draw one job, always the same number of draws, so that one setting leaves the others' draws alone."""
    sizes = [2**power for power in range(len(settings.sizes))]
    workers = draw.choices(sizes, settings.sizes)[0]
    seconds = settings.median * math.exp(settings.sigma * draw.gauss(0.0, 1.0))
    elastic, trial = draw.random() < settings.elastic, draw.random() < settings.trials
    has_curve, rate = draw.random() < settings.curves, draw.uniform(3.0, 20.0)
    kind = draw.randrange(10)
    most = 2 * workers if elastic else workers
    name = f"{NAMESPACE}/job-{number}"
    spec = JobSpec(
        name=name,
        replicas=replica_names(name, most),
        requests=Resources(cpu=8.0, memory=64 * GB, gpu=1.0),
        workers=workers,
        min_workers=1 if elastic else workers,
        job_class="trial" if trial else "best-effort",
        kind=f"kind-{kind}",
        grace_seconds=settings.grace,
    )
    training = Training(
        seconds=max(1.0, min(seconds, 1e9) / (10.0 if trial else 1.0)),
        speedup=tuple(count**settings.exponent for count in range(1, most + 1)),
        curve=LossCurve(rate=rate, noise=settings.noise) if has_curve else None,
        start_seconds=settings.start_seconds,
        resize_seconds=settings.resize_seconds,
    )
    return Submission(at=at, spec=spec, training=training)
