"""The workloads of DRAGON: parameter-server jobs on GPUs that can train with fewer or more workers.

Lin, Yeh and Chou, "DRAGON: A Dynamic Scheduling and Scaling Controller for Managing Distributed Deep
Learning Jobs in Kubernetes Cluster", CLOSER 2019, section 4.

Printed there: two nodes with four GPUs, 16 cores and 64 GB, 1 Gb/s Ethernet; Table 1 (models, workers,
minimum, maximum, steps, arrivals); the throughput of each model with one to four workers (Figure 2); for the
simulation four nodes with eight GPUs, 100 jobs, exponential inter-arrival times with a mean of 62 to 400 s,
and numbers of workers between 2 and 8.

Restored: the arrivals of Table 1 are minutes (its header says seconds; the axis of Figure 8 and what the
text says of it do not allow that); "steps" is the total over the workers, and a parameter server reserves
nothing, both as the authors' public controller has it.

Fitted, once and for all jobs alike, to all that Figures 6 to 8 print: of the baseline, of the scheduler that
never scales, and of DRAGON too, so that these figures are no independent test of it (Figures 9 and 10 are).
With the default scheduler that spreads pods, and on other draws than those of the reported runs: the batch
size B (`batch`, 64), how many times a step sends the parameters over the network (`copies`, 1), and in which
part of the jobs the slowest worker decides (`quota`, one half). Tried were B = 40 to 80, 0.25 to 3 copies and
0 to 1. That the slowest decides in all jobs gives the waiting, that it decides in none the long run of the
last job; no one value does both.

Chosen here: the sizes of the parameters, what a worker reserves beside its GPU (an equal share of its node),
the pause of a restart (the middle of the printed 40 s to 1 min), the throughput with five to eight workers
(the power law through one and four), and how many steps the 100 random jobs have (uniform between the least
and the most that Table 1 gives their model).
"""

import math
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_lab.workloads.records import GB, NAMESPACE, equal_nodes, replica_names, seed_random
from specon_lab.workloads.workload import Network, Submission, Training, Workload
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING, Resources

SHARE: Final = Resources(cpu=4.0, memory=16 * GB, gpu=1.0)
"""What a worker reserves: one GPU, and its part of the cores and the memory of a node."""


class MeasuredModel(Struct, frozen=True):
    """A model as Figure 2 measured it."""

    name: str
    images: tuple[float, float, float, float]
    """Images per second with one, two, three and four workers."""
    parameters: float
    """Bytes."""
    steps: tuple[int, int]
    """The least and the most in Table 1."""

    def speedup(self, most: int) -> tuple[float, ...]:
        """Return the speed with 1 to `most` workers in units of the speed with one."""
        measured = tuple(rate / self.images[0] for rate in self.images)
        exponent = math.log(measured[-1]) / math.log(len(measured))
        return tuple(
            measured[count - 1] if count <= len(measured) else count**exponent for count in range(1, most + 1)
        )


INCEPTION: Final = MeasuredModel("inception3", (92.12, 154.14, 192.01, 280.79), 95e6, (1000, 3600))
RESNET: Final = MeasuredModel("resnet50", (115.06, 176.65, 277.37, 346.51), 102e6, (2100, 2800))
ALEXNET: Final = MeasuredModel("alexnet", (38.09, 59.1, 77.76, 97.69), 244e6, (450, 1200))

TABLE_1: Final = (
    # model, workers, minimum, steps, arrival in minutes; the maximum is 4 for all
    (RESNET, 4, 2, 2800, 0.0),
    (INCEPTION, 4, 2, 3600, 0.56),
    (INCEPTION, 2, 2, 1000, 2.53),
    (ALEXNET, 2, 2, 450, 6.34),
    (RESNET, 3, 2, 2100, 7.58),
    (ALEXNET, 2, 2, 1000, 13.11),
    (INCEPTION, 2, 2, 2000, 19.01),
    (RESNET, 1, 1, 2400, 27.54),
    (INCEPTION, 2, 2, 2500, 34.56),
    (ALEXNET, 2, 2, 800, 42.58),
    (INCEPTION, 1, 1, 1000, 47.58),
    (ALEXNET, 1, 1, 1200, 51.19),
)


class DragonWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both workloads share."""

    batch: Annotated[int, Meta(ge=1, le=1_000_000)] = 64
    """Images in one step of one worker, B."""
    copies: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """How many times a step sends the parameters (k): 2 for pull and push, 1 where both go at once."""
    quota: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """The share of the jobs, drawn, whose workers each have a fixed number of steps, so that the slowest
    decides; the steps of the others are one pool."""
    bandwidth: Annotated[float, Meta(gt=0, le=1e15)] = 117e6
    """Bytes per second between two nodes."""
    resize_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 50.0
    """Pause when workers are added (the controller restarts the whole job)."""
    scale_in_seconds: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """Pause when workers are taken away; none: as for adding."""
    start_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 0.0


class DragonTable1(DragonWorkload, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The twelve jobs of Table 1."""

    minute: Annotated[float, Meta(gt=0, le=1e6)] = 60.0
    """Seconds in one unit of the arrivals: 1 takes the header of Table 1 at its word."""


class DragonRandom(DragonWorkload, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulated jobs."""

    jobs: Annotated[int, Meta(ge=1, le=100_000)] = 100
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 4
    gpus: Annotated[int, Meta(ge=1, le=1024)] = 8
    """Of each node."""
    interarrival: Annotated[float, Meta(gt=0, le=1e9)] = 248.0
    """Mean seconds from one arrival to the next; the workload's intensity is 248 / this."""
    fewest: Annotated[int, Meta(ge=1, le=1024)] = 2
    most: Annotated[int, Meta(ge=1, le=1024)] = 8
    """Minimum, requested and maximum number of workers are drawn between `fewest` and `most`."""


def table_1(settings: DragonTable1, seed: int) -> Workload:
    """Return the twelve jobs on two nodes; nothing but whose slowest worker decides is random."""
    draw = seed_random(f"dragon quota {seed}")
    return Workload(
        name="dragon-table1",
        nodes=equal_nodes(2, Resources(cpu=16.0, memory=64 * GB, gpu=4.0)),
        jobs=tuple(
            _submission(
                number,
                model,
                (fewest, workers, 4),
                steps=steps,
                at=at * settings.minute,
                quota=draw.random() < settings.quota,
                settings=settings,
            )
            for number, (model, workers, fewest, steps, at) in enumerate(TABLE_1, start=1)
        ),
        bandwidth=settings.bandwidth,
        seed=seed,
    )


def draw_workload(settings: DragonRandom, seed: int) -> Workload:
    """Return jobs of random models and sizes; raises ValueError where `fewest` is more than `most`."""
    if settings.fewest > settings.most:
        raise ValueError(f"fewest: {settings.fewest} is more than most, {settings.most}")
    draw, draw_quota = seed_random(f"dragon-random {seed}"), seed_random(f"dragon quota {seed}")
    at, jobs = 0.0, []
    for number in range(1, settings.jobs + 1):
        model = draw.choice((INCEPTION, RESNET, ALEXNET))
        sizes = sorted(draw.randint(settings.fewest, settings.most) for _ in range(3))
        steps = draw.randint(*model.steps)
        jobs.append(
            _submission(
                number,
                model,
                (sizes[0], sizes[1], sizes[2]),
                steps=steps,
                at=at,
                quota=draw_quota.random() < settings.quota,
                settings=settings,
            )
        )
        at += draw.expovariate(1.0 / settings.interarrival)
    capacity = Resources(cpu=4.0 * settings.gpus, memory=16 * GB * settings.gpus, gpu=float(settings.gpus))
    return Workload(
        name="dragon-random",
        nodes=equal_nodes(settings.nodes, capacity),
        jobs=tuple(jobs),
        bandwidth=settings.bandwidth,
        seed=seed,
    )


def _submission(
    number: int,
    model: MeasuredModel,
    sizes: tuple[int, int, int],
    *,
    steps: int,
    at: float,
    quota: bool,
    settings: DragonWorkload,
) -> Submission:
    """Return a job with one parameter server; `sizes` are the fewest, the requested and the most workers."""
    fewest, workers, most = sizes
    name = f"{NAMESPACE}/job-{number}"
    speedup = model.speedup(most)
    alone = settings.batch / model.images[0]
    spec = JobSpec(
        name=name,
        replicas=replica_names(name, most, ps=1),
        requests=SHARE,
        ps_requests=NOTHING,
        workers=workers,
        min_workers=fewest,
        kind=model.name,
        checkpointing="on-termination",
    )
    training = Training(
        seconds=steps * alone / speedup[workers - 1],
        speedup=speedup,
        network=Network(step_bytes=settings.copies * model.parameters, step_seconds=alone, fixed_quota=quota),
        steps=steps,
        start_seconds=settings.start_seconds,
        stop_seconds=0.0,
        resize_seconds=settings.resize_seconds,
        scale_in_seconds=settings.scale_in_seconds,
    )
    return Submission(at=at, spec=spec, training=training)
