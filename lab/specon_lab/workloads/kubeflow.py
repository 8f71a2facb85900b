"""Three scenarios for the Kubeflow dynamic scheduler: jobs with utilities on a small cluster.

M. Fadhriga Bestari, "Dynamic Resource Scheduler for Distributed Deep Learning Training on Kubeflow", 2020.

Nothing is printed there: the specifications of its three experiments and their results are pictures. The one
figure that its abstract tells, more than 26 % faster training than with the default scheduler, is of these
lost experiments. All of this is therefore chosen here, after the three things that the article names:

1. gang scheduling: equal jobs that arrive almost together and do not fit all at once;
2. priority: long jobs of low utility fill the cluster, then short ones of high utility arrive;
3. autoscaling: jobs of all sizes and utilities arrive at random, and at the end few are left.

Three nodes with 8 cores and 32 GB; one parameter server with 1 core and 1 GB; 1 Gb/s between nodes.
"""

from random import Random
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from specon_lab.workloads.records import GB, NAMESPACE, equal_nodes, replica_names, seed_random
from specon_lab.workloads.workload import Network, Submission, Training, Workload
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources

STEP_SECONDS: Final = 0.5


class KubeflowWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the three scenarios."""

    scenario: Literal[1, 2, 3] = 1
    jobs: Annotated[int, Meta(ge=1, le=100_000)] = 12
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 3
    scale: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    """Factor of all durations."""
    exponent: Annotated[float, Meta(ge=0, le=1)] = 0.9
    """n workers without a network are n^exponent times as fast as one."""
    step_bytes: Annotated[float, Meta(ge=0, le=1e15)] = 50e6
    """What one worker exchanges with its server in a step of half a second."""
    bandwidth: Annotated[float, Meta(gt=0, le=1e15)] = 117e6
    start_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 5.0
    resize_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 10.0


class _Wish(Struct, frozen=True, kw_only=True):
    """What one job asks for; `seconds` with the workers that it asks for."""

    at: float
    utility: float
    cpu: float
    memory: float
    fewest: int
    workers: int
    most: int
    seconds: float


def generate(settings: KubeflowWorkload, seed: int) -> Workload:
    """Return the scenario; the first two are random only in sizes and durations, the third throughout."""
    draw = seed_random(f"kubeflow {settings.scenario} {seed}")
    wishes = (_together, _by_utility, _of_all_sizes)[settings.scenario - 1](settings.jobs, draw)
    return Workload(
        name=f"kubeflow-{settings.scenario}",
        nodes=equal_nodes(settings.nodes, Resources(cpu=8.0, memory=32 * GB)),
        jobs=tuple(_submission(number, wish, settings) for number, wish in enumerate(wishes, start=1)),
        bandwidth=settings.bandwidth,
        seed=seed,
    )


def _together(jobs: int, draw: Random) -> list[_Wish]:
    """Scenario 1: each wants four workers, one arrives every ten seconds."""
    return [
        _Wish(
            at=10.0 * index,
            utility=1.0,
            cpu=2.0,
            memory=4.0,
            fewest=2,
            workers=4,
            most=6,
            seconds=draw.uniform(240.0, 480.0),
        )
        for index in range(jobs)
    ]


def _by_utility(jobs: int, draw: Random) -> list[_Wish]:
    """Scenario 2: the first half long and of utility 1, the second half short and of utility 10."""
    long = (jobs + 1) // 2
    return [
        _Wish(
            at=15.0 * index,
            utility=1.0 if index < long else 10.0,
            cpu=2.0 if index < long else 1.0,
            memory=4.0,
            fewest=1,
            workers=3,
            most=4,
            seconds=draw.uniform(600.0, 900.0) if index < long else draw.uniform(120.0, 240.0),
        )
        for index in range(jobs)
    ]


def _of_all_sizes(jobs: int, draw: Random) -> list[_Wish]:
    """Scenario 3: Poisson arrivals, one a minute."""
    at, wishes = 0.0, []
    for _ in range(jobs):
        fewest = draw.randint(1, 2)
        most = draw.randint(fewest, 6)
        wishes.append(
            _Wish(
                at=at,
                utility=float(draw.randint(1, 10)),
                cpu=draw.choice((1.0, 2.0)),
                memory=draw.choice((2.0, 4.0)),
                fewest=fewest,
                workers=draw.randint(fewest, most),
                most=most,
                seconds=draw.uniform(120.0, 900.0),
            )
        )
        at += draw.expovariate(1.0 / 60.0)
    return wishes


def _submission(number: int, wish: _Wish, settings: KubeflowWorkload) -> Submission:
    name = f"{NAMESPACE}/job-{number}"
    speedup = tuple(count**settings.exponent for count in range(1, wish.most + 1))
    seconds = wish.seconds * settings.scale
    spec = JobSpec(
        name=name,
        replicas=replica_names(name, wish.most, ps=1),
        requests=Resources(cpu=wish.cpu, memory=wish.memory * GB),
        ps_requests=Resources(cpu=1.0, memory=1 * GB),
        workers=wish.workers,
        min_workers=wish.fewest,
        utility=wish.utility,
        kind=f"utility-{wish.utility:g}",
        checkpointing="on-termination",
    )
    training = Training(
        seconds=seconds,
        speedup=speedup,
        network=Network(step_bytes=settings.step_bytes, step_seconds=STEP_SECONDS),
        steps=max(1, round(seconds * speedup[wish.workers - 1] / STEP_SECONDS)),
        start_seconds=settings.start_seconds,
        stop_seconds=0.0,
        resize_seconds=settings.resize_seconds,
    )
    return Submission(at=wish.at, spec=spec, training=training)
