"""The workloads of SpeCon: single jobs that use every core they can get, and curves that flatten.

Mao et al., "SpeCon: Speculative Container Scheduling for Deep Learning Applications in a Kubernetes
Cluster", arXiv 2010.11307, section V.

Printed there: 4 or 8 workers with 8 cores and 64 GB; 20 VAE jobs, one every 50 s ("fixed"); 20 VAE jobs at
random within 300 s; 20, 30 and 50 mixed jobs at random within 300, 600 and 1200 s (the last on 8 workers);
five models on two platforms; an evaluation interval of 30 s; less than 5 s for saving and resuming (standard
deviation 1.43 s). Figure 1, read as exponential decay, gives the rates 5.2 (VAE), 19.6 (Bi-RNN) and 11.5
(GRU).

Not printed, chosen here: the rates of the two other RNNs, the noise of the evaluation function, how long each
model trains alone (`seconds`) and `contention`, how much replicas disturb each other beyond sharing the
cores. With `contention=0` and equal durations no policy can gain anything by moving jobs between equally full
nodes.

Fitted, all of it to the paper's runs without migration and nothing to those with it: given `contention` 0.1,
the mean duration of the two VAE types to the mean and the makespan of the fixed run (275.2 s and 1260 s; that
one takes three times as long as the other is a choice); mean and spread of the other eight types to the mean
and the makespan of the three mixed runs (710 s, which follows from the printed gains, and 1421 s; 865.7 s and
1760 s; 596.3 s and 2070 s). The baseline does not tell how large `contention` is: with durations fitted again
(`UNDISTURBED`, the same way for 0) it is matched as well.
"""

from random import Random
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_lab.workloads.records import GB, NAMESPACE, equal_nodes, replica_names, seed_random
from specon_lab.workloads.workload import LossCurve, Sharing, Submission, Training, Workload
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources

PLATFORMS: Final = ("pytorch", "tensorflow")
RATES: Final = {"vae": 5.2, "gru": 11.5, "bi-rnn": 19.6, "rnn": 15.0, "dynamic-rnn": 9.0}
TYPES: Final = tuple((model, platform) for model in RATES for platform in PLATFORMS)
"""VAE on both platforms first, then GRU, Bi-RNN, RNN and Dynamic-RNN."""

VAE_SECONDS: Final = (90.0, 265.0)
MIXED_SECONDS: Final = (*VAE_SECONDS, 100.0, 195.0, 125.0, 355.0, 30.0, 90.0, 175.0, 440.0)
UNDISTURBED: Final = (90.0, 270.0, 145.0, 250.0, 175.0, 405.0, 60.0, 135.0, 230.0, 485.0)
"""Fitted like MIXED_SECONDS, whose first two are those of VAE alone, with a contention of 0."""

Alone = Annotated[float, Meta(gt=0, le=1e9)]


class SpeConWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the five runs of the paper share."""

    jobs: Annotated[int, Meta(ge=1, le=100_000)] = 20
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 4
    cores: Annotated[float, Meta(gt=0, le=1e6)] = 8.0
    """Of each node; each job uses all of them when it can."""
    seconds: Annotated[tuple[Alone, ...], Meta(min_length=1, max_length=len(TYPES))] = VAE_SECONDS
    """How long each type trains alone, in the order of TYPES; so many types there are."""
    spread: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Relative standard deviation of the duration among jobs of one type."""
    contention: Annotated[float, Meta(ge=0, le=10)] = 0.1
    """Factor 1 / (1 + contention (n - 1)) of everybody's speed with n replicas on a node."""
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.002
    """Standard deviation of the evaluation function, of its whole range."""
    start_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 2.0
    move_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 5.0
    """How long a move pauses a job on average, its start included."""
    move_deviation: Annotated[float, Meta(ge=0, le=1e6)] = 1.43
    report_seconds: Annotated[float, Meta(gt=0, le=1e6)] = 30.0
    """The interval dt of Algorithm 1."""


class SpeConFixed(SpeConWorkload, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One VAE job every 50 seconds."""

    interval: Annotated[float, Meta(ge=0, le=1e9)] = 50.0
    """Seconds from one arrival to the next."""


class SpeConRandom(SpeConWorkload, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that arrive at random within a window."""

    window: Annotated[float, Meta(ge=0, le=1e9)] = 300.0
    """Seconds; arrivals are uniform in it."""


class SpeConMixed20(SpeConRandom, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Twenty mixed jobs within 300 seconds."""

    seconds: Annotated[tuple[Alone, ...], Meta(min_length=1, max_length=len(TYPES))] = MIXED_SECONDS


class SpeConMixed30(SpeConMixed20, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Thirty mixed jobs within 600 seconds."""

    jobs: Annotated[int, Meta(ge=1, le=100_000)] = 30
    window: Annotated[float, Meta(ge=0, le=1e9)] = 600.0


class SpeConMixed50(SpeConMixed20, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fifty mixed jobs within 1200 seconds on eight nodes."""

    jobs: Annotated[int, Meta(ge=1, le=100_000)] = 50
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 8
    window: Annotated[float, Meta(ge=0, le=1e9)] = 1200.0


def make_regular_arrivals(settings: SpeConFixed, seed: int) -> Workload:
    """Return the run in which one job arrives every `interval` seconds."""
    times = [settings.interval * index for index in range(settings.jobs)]
    return _workload("specon-fixed", settings, times, seed_random(f"specon-fixed {seed}"), seed)


def draw_arrivals(name: str, settings: SpeConRandom, seed: int) -> Workload:
    """Return the run in which jobs arrive within the window; numbered by arrival."""
    draw = seed_random(f"{name} {seed}")
    times = sorted(draw.uniform(0.0, settings.window) for _ in range(settings.jobs))
    return _workload(name, settings, times, draw, seed)


def _workload(name: str, settings: SpeConWorkload, times: list[float], draw: Random, seed: int) -> Workload:
    capacity = Resources(cpu=settings.cores, memory=64 * GB)
    return Workload(
        name=name,
        nodes=equal_nodes(settings.nodes, capacity),
        jobs=tuple(
            Submission(at=at, spec=spec, training=training)
            for at, (spec, training) in zip(
                times, (_job(number, settings, draw) for number in range(1, len(times) + 1)), strict=True
            )
        ),
        sharing=Sharing(contention=settings.contention),
        report_seconds=settings.report_seconds,
        seed=seed,
    )


def _job(number: int, settings: SpeConWorkload, draw: Random) -> tuple[JobSpec, Training]:
    """Return one job of a random type; what a draw gives does not depend on the settings' other values."""
    kind = draw.randrange(len(settings.seconds))
    stretch, pause = draw.gauss(0.0, 1.0), draw.gauss(0.0, 1.0)
    model, platform = TYPES[kind]
    name = f"{NAMESPACE}/job-{number}"
    move = max(0.0, settings.move_seconds + settings.move_deviation * pause)
    spec = JobSpec(name=name, replicas=replica_names(name, 1), kind=f"{model}-{platform}")
    training = Training(
        seconds=settings.seconds[kind] * max(0.1, 1.0 + settings.spread * stretch),
        demand=settings.cores,
        curve=LossCurve(rate=RATES[model], noise=settings.noise),
        start_seconds=settings.start_seconds,
        restore_seconds=max(0.0, move - settings.start_seconds),
        stop_seconds=0.0,
    )
    return spec, training
