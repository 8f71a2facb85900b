"""SenseTime's Helios traces: `cluster_log.csv` of Earth, Saturn, Uranus and Venus, 2020.

Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC
2021; the columns are those that github.com/S-Lab-System-Group/HeliosData documents: job_id, user, vc,
gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time, duration, queue (seconds of waiting).

A job becomes a gang of at least `node_num` workers with equal numbers of GPUs and cores. It ends as it did,
whether completed, cancelled or failed. Its queue is its virtual cluster, its kind the user with the number
of GPUs. Memory is not told: a job reserves the part of a node that belongs to its GPUs. Jobs without GPUs
are left out unless asked for.
"""

import math
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_lab.traces.form import Count, Duration, Form, Shape, gangs, job_name, timestamp
from specon_lab.traces.mistakes import LeftOut
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.row import TraceRow

Label = Annotated[str, Meta(max_length=100)]


class HeliosRow(Struct, frozen=True, kw_only=True):
    """One row of the table; the times of start and end are not needed, since both are in `duration`."""

    job_id: Annotated[str, Meta(min_length=1, max_length=100)]
    user: Label = ""
    vc: Label = ""
    gpu_num: Count
    cpu_num: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    node_num: Count = 1
    submit_time: datetime
    duration: Duration


def translate(row: HeliosRow, options: TraceOptions, shape: Shape) -> TraceRow:
    """Return the job."""
    if not row.duration:
        raise LeftOut("duration is 0")
    if not row.gpu_num and not options.cpu_jobs:
        raise LeftOut("gpu_num is 0 (cpu_jobs=true takes them too)")
    workers, gpus = gangs(row.gpu_num, shape, least=max(1, row.node_num))
    _, memory = shape.per_gpu()
    return TraceRow(
        name=job_name(row.job_id),
        at=timestamp(row.submit_time),
        seconds=row.duration,
        workers=workers,
        cpu=float(math.ceil(row.cpu_num / workers)),
        memory=memory * gpus,
        gpu=float(gpus),
        queue=row.vc,
        kind=f"{row.user}-{row.gpu_num}",
    )


HELIOS: Final = Form(
    name="helios",
    columns=frozenset({"job_id", "gpu_num", "submit_time", "duration"}),
    row=HeliosRow,
    translate=translate,
    shape=Shape(gpus=8, cpu=64.0, memory=512e9),
)
