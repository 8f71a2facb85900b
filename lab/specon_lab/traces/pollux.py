"""The workloads of Pollux: jobs that name an application, whose training was measured; and published results.

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021; the
public artifact is the branch osdi21-artifact of github.com/petuum/adaptdl.

Columns: name, time (seconds), application, num_replicas, batch_size. The measurements are looked for in the
option `traces`, in a folder `traces` beside the file, or beside its folder. The cluster is the published
one, 16 nodes with four GPUs, where nothing else is asked for.

As published: how many steps each application needs with a batch, the seconds of a step with so many
replicas, and 30 s for each start and change. Approximated: the batch stays what the row asks for (Pollux
itself changes it, the baselines Tiresias and Optimus do not); replicas are taken to fill one node after the
other, wherever the policy under test puts them; numbers of replicas that were not measured lie on straight
lines between those that were; the loss is an exponential whose rate is read from the validation curve at 63
% of its way. With `elastic` a job may have one replica up to as many as its batch can be divided among, 64
at most (ncf only as many as it asks for, as in the artifact); else just as many as the row says. Cores and
memory are not told: 12 cores and 48 GB come with each GPU, chosen here.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_lab.traces.form import Duration, Form, Shape, job_name
from specon_lab.traces.measured import Application
from specon_lab.traces.mistakes import FieldError, TraceError
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.records import json_document
from specon_lab.traces.row import TraceRow

MOST_REPLICAS: Final = 64
RESTART_SECONDS: Final = 30.0
RIGID: Final = frozenset({"ncf"})
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]


class PolluxRow(Struct, frozen=True, kw_only=True):
    """One row of a workload."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    time: Duration
    application: Name
    num_replicas: Annotated[int, Meta(ge=1, le=MOST_REPLICAS)]
    batch_size: Annotated[int, Meta(ge=1, le=10**9)]


class Timing(Struct, frozen=True):
    """How one kind of job trains."""

    seconds: float
    speedup: tuple[float, ...]
    decay: float


def measurements_beside(path: Path) -> str | None:
    """Return the folder of measurements that belongs to a workload's file, if there is one."""
    for folder in (path.parent / "traces", path.parent.parent / "traces"):
        if folder.is_dir():
            return str(folder)
    return None


def translate(row: PolluxRow, options: TraceOptions, shape: Shape) -> TraceRow:
    """Return the job; raises FieldError where its application was not measured."""
    if options.traces is None:
        raise FieldError("application", "nobody says where it was measured: give the option traces=FOLDER")
    timing = _timing(options.traces, row.application, row.batch_size, row.num_replicas)
    cpu, memory = shape.per_gpu()
    return TraceRow(
        name=job_name(row.name),
        at=row.time,
        seconds=timing.seconds,
        workers=row.num_replicas,
        min_workers=1 if options.elastic else row.num_replicas,
        max_workers=len(timing.speedup) if options.elastic else row.num_replicas,
        cpu=cpu,
        memory=memory,
        gpu=1.0,
        kind=f"{row.application}-{row.batch_size}",
        checkpointing="on-termination",
        speedup=timing.speedup,
        curve_rate=timing.decay,
        start_seconds=RESTART_SECONDS,
        stop_seconds=0.0,
        resize_seconds=RESTART_SECONDS,
    )


@cache
def _application(traces: str, name: str) -> Application:
    return Application(Path(traces) / name)


@cache
def _timing(traces: str, name: str, batch: int, replicas: int) -> Timing:
    if not (Path(traces) / name).is_dir():
        raise FieldError("application", f"{name!r} was not measured: {traces} has no such folder")
    application = _application(traces, name)
    divisible = 1 if name in RIGID else batch // application.smallest_local
    most = max(replicas, min(MOST_REPLICAS, divisible))
    seconds = [application.seconds(batch, count) for count in range(1, most + 1)]
    return Timing(
        seconds=seconds[replicas - 1],
        speedup=tuple(seconds[0] / each for each in seconds),
        decay=application.decay(batch),
    )


class Summary(Struct, frozen=True, kw_only=True):
    """Results that were published with the artifact: seconds from submission to completion."""

    jcts: dict[str, dict[str, Annotated[float, Meta(ge=0, le=1e12)]]]
    """By workload, by job."""


def read_summary(path: Path) -> Mapping[str, Mapping[str, float]]:
    """Return each job's completion time by workload, of a `summary.json`; raises TraceError."""
    try:
        jcts = msgspec.convert(json_document(path), Summary).jcts
    except msgspec.ValidationError as error:
        raise TraceError([f"{path.name}: is no summary of results: {error}"]) from error
    return {workload: {job_name(job): jct for job, jct in jobs.items()} for workload, jobs in jcts.items()}


POLLUX: Final = Form(
    name="pollux",
    columns=frozenset({"name", "time", "application", "num_replicas", "batch_size"}),
    row=PolluxRow,
    translate=translate,
    relative=False,
    shape=Shape(gpus=4, cpu=48.0, memory=192e9, nodes=16),
)
