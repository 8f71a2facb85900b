"""The synthetic workloads of FitGpp: trials and best-effort jobs, submitted so that the cluster stays full.

Yabuuchi, Taniwaki and Omura, "Low-latency job scheduling with preemption for the development of deep
learning", OpML 2019 and arXiv 1902.01613, section 4.2.

Printed there: 84 nodes with 32 CPUs, 256 GB and 8 GPUs; decisions every minute; 30 % of the jobs are trials;
durations, demands and grace periods are truncated normal distributions; jobs are submitted at such a rate
that the load, the demand of all jobs present relative to the capacity, would be kept at 2.0 under FIFO; for
Figure 7 the mean, deviation and truncation of the grace periods are multiplied.

Restored, because the numbers are lost in the text: durations with means of 5 and 30 minutes, truncated at 30
minutes and 24 hours; grace periods with a mean of 3 minutes, truncated at 20; 2^16 jobs.

Fitted, because they never were in the text. To FIFO's row of Table 1: the deviations of the durations and
their lower bound of a minute (durations are not rounded to minutes: with a bound, the three percentiles of
trials come out together). To Table 2: the deviation of the grace periods, which end between the minutes at
which the scheduler decides. To Tables 1 and 3 as a whole: the demands, in two configurations. A keeps the
mean of the three resources' loads and belongs to 24,000 jobs; B keeps the load of GPUs, for 65,536 jobs,
and is further from the paper under preemption. Since the submissions are frozen from a run that is always
full, slowdowns under other policies grow with the number of jobs: change `jobs` together with the
configuration.

Submission minutes come from a run under FIFO: one queue, the head blocks, the first node with room is taken.
"""

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from statistics import NormalDist
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from specon_lab.workloads.records import GB, NAMESPACE, equal_nodes, replica_names, seed_random
from specon_lab.workloads.workload import Submission, Training, Workload
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources

MINUTE: Final = 60
CAPACITY: Final = (32, 256, 8)
"""CPUs, GB and GPUs of a node."""

Demand = tuple[int, int, int]
"""CPUs, GB and GPUs."""


class Normal(Struct, frozen=True):
    """A normal distribution before it is truncated."""

    mean: float
    deviation: float

    def draw(self, least: float, most: float, uniform: float) -> float:
        """Return the quantile at `uniform` (0 to 1) of what lies between `least` and `most`."""
        whole = NormalDist(self.mean, self.deviation)
        low, high = whole.cdf(least), whole.cdf(most)
        quantile = min(max(low + uniform * (high - low), 1e-12), 1 - 1e-12)
        return min(most, max(least, whole.inv_cdf(quantile)))


class Configuration(Struct, frozen=True, kw_only=True):
    """The fitted values: for trials and for best-effort jobs, minutes and demands."""

    jobs: int
    minutes: tuple[Normal, Normal]
    grace: Normal
    cpu: tuple[Normal, Normal]
    memory: tuple[Normal, Normal]
    gpu: tuple[Normal, Normal]
    load_of: Literal["mean", "gpu"]


CONFIGURATIONS: Final = {
    "A": Configuration(
        jobs=24_000,
        minutes=(Normal(5.0, 4.7), Normal(30.0, 10.0)),
        grace=Normal(3.0, 1.2),
        cpu=(Normal(6.57, 5.48), Normal(12.86, 2.66)),
        memory=(Normal(25.5, 15.96), Normal(36.76, 13.06)),
        gpu=(Normal(0.8, 3.35), Normal(0.42, 1.95)),
        load_of="mean",
    ),
    "B": Configuration(
        jobs=65_536,
        minutes=(Normal(5.0, 4.7), Normal(30.0, 10.0)),
        grace=Normal(3.0, 1.2),
        cpu=(Normal(4.91, 4.18), Normal(4.77, 7.2)),
        memory=(Normal(13.05, 61.15), Normal(105.52, 26.26)),
        gpu=(Normal(1.66, 2.51), Normal(1.19, 1.55)),
        load_of="gpu",
    ),
}
SHORTEST: Final = 1.0
"""Minutes below which no duration is drawn."""
LONGEST: Final = (30.0, 1440.0)
"""Minutes at which the durations of trials and best-effort jobs are truncated."""
LONGEST_GRACE: Final = 20.0
SMALLEST: Final = 0.5
"""A demand drawn below this would be rounded to nothing."""


class FitGppWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the generated workloads."""

    config: Literal["A", "B"] = "A"
    jobs: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """None: the number that the configuration was fitted with."""
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 84
    load: Annotated[float, Meta(gt=0, le=100)] = 2.0
    """Demand of all running and waiting jobs, relative to the capacity, that FIFO would see."""
    trials: Annotated[float, Meta(ge=0, le=1)] = 0.3
    """Share of trials."""
    grace_factor: Annotated[float, Meta(ge=0, le=1000)] = 1.0
    """Factor of the grace periods' mean, deviation and truncation (Figure 7)."""
    prints_total: bool = False
    """Whether logs name the total number of steps, so that policies learn how much is left of a job."""
    report_seconds: Annotated[float, Meta(gt=0, le=1e9)] = float(MINUTE)


class _Drawn(Struct, frozen=True, kw_only=True, gc=False):
    """One job before it is known when it is submitted."""

    trial: bool
    seconds: int
    grace: int
    demand: Demand


def generate(settings: FitGppWorkload, seed: int) -> Workload:
    """Return the jobs with the minutes at which FIFO's load lets them in, in the order of submission."""
    configuration = CONFIGURATIONS[settings.config]
    draw = seed_random(f"fitgpp {settings.config} {seed}")
    drawn = [_draw(configuration, settings, draw) for _ in range(settings.jobs or configuration.jobs)]
    submitted = submission_minutes(
        [job.demand for job in drawn],
        [-(-job.seconds // MINUTE) for job in drawn],  # the room is given to the next at the end of a minute
        nodes=settings.nodes,
        load=settings.load,
        load_of=configuration.load_of,
    )
    requests: dict[Demand, Resources] = {}
    cpu, memory, gpu = CAPACITY
    return Workload(
        name=f"fitgpp-{settings.config}",
        nodes=equal_nodes(settings.nodes, Resources(cpu=float(cpu), memory=memory * GB, gpu=float(gpu))),
        jobs=tuple(
            _submission(number, job, minute, settings, requests)
            for number, (job, minute) in enumerate(zip(drawn, submitted, strict=True), start=1)
        ),
        report_seconds=settings.report_seconds,
        seed=seed,
    )


def submission_minutes(
    demands: Sequence[Demand],
    minutes: Sequence[int],
    *,
    nodes: int,
    load: float,
    load_of: Literal["mean", "gpu"],
) -> list[int]:
    """Return when each job is submitted so that the load under FIFO never stays below `load`.

    Each minute, jobs end, new ones are submitted while the load is below the target, and the queue is served
    in order until its head fits nowhere. Raises ValueError where a job is larger than a node.
    """
    free = [list(CAPACITY) for _ in range(nodes)]
    shares = (1 / 3, 1 / 3, 1 / 3) if load_of == "mean" else (0.0, 0.0, 1.0)
    weights = [share / (amount * nodes) for share, amount in zip(shares, CAPACITY, strict=True)]
    loads = [sum(weight * amount for weight, amount in zip(weights, job, strict=True)) for job in demands]
    if any(amount > most for job in demands for amount, most in zip(job, CAPACITY, strict=True)):
        raise ValueError(f"demands: a job is larger than a node, {CAPACITY}")
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    submitted: list[int] = []
    present, head, now = 0.0, 0, 0
    while len(submitted) < len(demands):
        for job, place in ends.pop(now, ()):
            present -= loads[job]
            for index, amount in enumerate(demands[job]):
                free[place][index] += amount
        while len(submitted) < len(demands) and present < load:
            present += loads[len(submitted)]
            submitted.append(now)
        while head < len(submitted):
            if (node := _first_fit(free, demands[head])) is None:
                break
            for index, amount in enumerate(demands[head]):
                free[node][index] -= amount
            ends[now + minutes[head]].append((head, node))
            head += 1
        now += 1
    return submitted


def _first_fit(free: Sequence[Sequence[int]], demand: Demand) -> int | None:
    """Return the first node with room."""
    cpu, memory, gpu = demand
    for node, room in enumerate(free):
        if cpu <= room[0] and memory <= room[1] and gpu <= room[2]:
            return node
    return None


def _draw(configuration: Configuration, settings: FitGppWorkload, draw: Random) -> _Drawn:
    trial = draw.random() < settings.trials
    which = 0 if trial else 1
    minutes = configuration.minutes[which].draw(SHORTEST, LONGEST[which], draw.random())
    amounts = [
        max(1, round(normal[which].draw(SMALLEST, float(most), draw.random())))
        for normal, most in zip(
            (configuration.cpu, configuration.memory, configuration.gpu), CAPACITY, strict=True
        )
    ]
    # A factor of mean, deviation and truncation alike is a factor of the drawn value.
    grace = settings.grace_factor * configuration.grace.draw(0.0, LONGEST_GRACE, draw.random())
    return _Drawn(
        trial=trial,
        seconds=round(minutes * MINUTE),
        grace=round(grace * MINUTE),
        demand=(amounts[0], amounts[1], amounts[2]),
    )


def _submission(
    number: int, job: _Drawn, minute: int, settings: FitGppWorkload, requests: dict[Demand, Resources]
) -> Submission:
    name = f"{NAMESPACE}/job-{number}"
    if (amounts := requests.get(job.demand)) is None:
        cpu, memory, gpu = job.demand
        amounts = requests[job.demand] = Resources(cpu=float(cpu), memory=memory * GB, gpu=float(gpu))
    spec = JobSpec(
        name=name,
        replicas=replica_names(name, 1),
        requests=amounts,
        job_class="trial" if job.trial else "best-effort",
        kind="trial" if job.trial else "best-effort",
        grace_seconds=float(job.grace),
        checkpointing="on-termination",
    )
    training = Training(seconds=float(job.seconds), prints_total=settings.prints_total)
    return Submission(at=float(minute * MINUTE), spec=spec, training=training)
