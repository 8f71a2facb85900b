"""The workload of KOD2: ten parameter-server jobs, one every 30 s, on three nodes.

Jeong and Yu, "KOD2", KIPS Transactions on Computer and Communication Systems 11(7), 2022, section 5.

Printed there: three nodes with 10 cores, 32 GB and one GPU; ten jobs, one every 30 s, each with one
parameter server; CIFAR-10 with 60,000 images; four models; batches of 8 to 128.

Chosen here, because the table of requests and all speeds are missing in print: one core and 2 GB for the
server; workers with 1, 2 or 3 cores and 2, 4 or 6 GB, a minimum of 1 or 2, a maximum of 2 to 6, and as many
requested as lie between; images per second of one worker, rising with the batch as b / (b + 8); one epoch;
the speed of n workers, n^0.9; 1 Gb/s between the nodes. Workers compute on processors: three GPUs are not
enough for so many pods. The table of requests depends on the seed only, so that the cells of one seed differ
in nothing but model and batch. What a step sends are the parameters of each model as published (`MODELS`);
that the authors had other ones for the small images of CIFAR-10 is possible, they do not say so.

Fitted, with the default scheduler as baseline (nodes and retries as if at random, gangs put back after half
an hour in part): the images per second, the one epoch and the 8 of the batch, so that with batch 64 (Figure
8) the baseline goes on for "about 30 minutes to over an hour" after KOD2 is through, in the mean over the
seeds 0 to 7. Three values for the batch and four sets of speeds were tried, and the largest reduction of
the completion time was seen in doing so. Nothing was fitted for a single cell; the reproduction uses other
seeds. The parameters were smaller then, and nothing was fitted to the published ones.
"""

from random import Random
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from specon_lab.workloads.records import GB, NAMESPACE, equal_nodes, replica_names, seed_random
from specon_lab.workloads.workload import Network, Submission, Training, Workload
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources

IMAGES: Final = 60_000
HALF_SPEED_BATCH: Final = 8


class Model(Struct, frozen=True):
    """A model: images per second of one worker with large batches, and the bytes of its parameters."""

    images: float
    parameters: float


MODELS: Final = {
    "cnn-rand": Model(150.0, 4 * 5_990_402),
    "vgg-16": Model(120.0, 4 * 138_357_544),
    "resnet-50": Model(120.0, 4 * 25_636_712),
    "resnext-110": Model(75.0, 4 * 44_177_704),
}
"""Parameters of four bytes, as published: VGG-16 and ResNet-50 in the table of Keras Applications (138.4 and
25.6 million). ResNeXt with 110 layers is published nowhere; this is ResNeXt-101 (32x4d) of Xie et al.,
"Aggregated Residual Transformations for Deep Neural Networks", CVPR 2017, in torchvision. CNN-rand: Kim,
"Convolutional Neural Networks for Sentence Classification", EMNLP 2014, with 18,765 words of 300 numbers, 100
filters each of 3, 4 and 5 words, two classes."""


class KOD2Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cell of the paper's grid of four models and five batches."""

    model: Literal["cnn-rand", "vgg-16", "resnet-50", "resnext-110"] = "vgg-16"
    batch: Annotated[int, Meta(ge=1, le=1_000_000)] = 128
    jobs: Annotated[int, Meta(ge=1, le=100_000)] = 10
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 3
    interval: Annotated[float, Meta(ge=0, le=1e9)] = 30.0
    """Seconds from one arrival to the next."""
    epochs: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    exponent: Annotated[float, Meta(ge=0, le=1)] = 0.9
    """n workers without a network are n^exponent times as fast as one."""
    copies: Annotated[float, Meta(ge=0, le=100)] = 2.0
    """How many times a step sends the parameters: pull and push."""
    bandwidth: Annotated[float, Meta(gt=0, le=1e15)] = 117e6
    """Bytes per second between two nodes."""
    start_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 5.0
    resize_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 10.0
    """Pause when the number of workers changes."""


def generate(settings: KOD2Workload, seed: int) -> Workload:
    """Return the ten jobs with requests drawn from the seed."""
    draw = seed_random(f"kod2 {seed}")
    return Workload(
        name=f"kod2-{settings.model}-{settings.batch}",
        nodes=equal_nodes(settings.nodes, Resources(cpu=10.0, memory=32 * GB, gpu=1.0)),
        jobs=tuple(
            Submission(at=settings.interval * index, spec=spec, training=_training(settings, spec))
            for index, spec in enumerate(
                _spec(number, settings, draw) for number in range(1, settings.jobs + 1)
            )
        ),
        bandwidth=settings.bandwidth,
        seed=seed,
    )


def _spec(number: int, settings: KOD2Workload, draw: Random) -> JobSpec:
    cpu, memory = draw.choice((1.0, 2.0, 3.0)), draw.choice((2.0, 4.0, 6.0))
    fewest, most = draw.choice((1, 2)), draw.randint(2, 6)
    name = f"{NAMESPACE}/job-{number}"
    return JobSpec(
        name=name,
        replicas=replica_names(name, most, ps=1),
        requests=Resources(cpu=cpu, memory=memory * GB),
        ps_requests=Resources(cpu=1.0, memory=2 * GB),
        workers=draw.randint(fewest, most),
        min_workers=fewest,
        kind=settings.model,
        checkpointing="on-termination",
    )


def _training(settings: KOD2Workload, spec: JobSpec) -> Training:
    model = MODELS[settings.model]
    rate = model.images * settings.batch / (settings.batch + HALF_SPEED_BATCH)
    images = settings.epochs * IMAGES
    speedup = tuple(count**settings.exponent for count in range(1, len(spec.worker_names) + 1))
    return Training(
        seconds=images / rate / speedup[spec.wanted_workers - 1],
        speedup=speedup,
        network=Network(step_bytes=settings.copies * model.parameters, step_seconds=settings.batch / rate),
        steps=max(1, round(images / settings.batch)),
        start_seconds=settings.start_seconds,
        stop_seconds=0.0,
        resize_seconds=settings.resize_seconds,
    )
