"""Alibaba's openb trace of 2023: pods that share GPUs, with the list of its nodes.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.

Pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli (of each GPU), gpu_spec, qos, pod_phase, creation_time,
deletion_time, scheduled_time (seconds). Nodes: sn, cpu_milli, memory_mib, gpu, model. Each pod is a job of
one worker that trains from its scheduling to its deletion; pods that were never scheduled are left out,
since nobody knows how long they would have run. Its queue and kind are its quality of service.

Approximated: a share of a GPU is taken from the sum of a node's GPUs, not from one device, and `gpu_spec`,
which names the models of GPU that would do, is not looked at.
"""

import math
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_lab.traces.form import Count, Duration, Form, Shape, job_name
from specon_lab.traces.mistakes import LeftOut
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.row import TraceRow

MIB: Final = 2.0**20
Milli = Annotated[float, Meta(ge=0, le=1e9)]


class PodRow(Struct, frozen=True, kw_only=True):
    """One row of the list of pods."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    cpu_milli: Milli
    memory_mib: Annotated[float, Meta(ge=0, le=1e9)]
    num_gpu: Count
    gpu_milli: Milli = 0.0
    qos: Annotated[str, Meta(max_length=100)] = ""
    creation_time: Duration
    deletion_time: Duration | None = None
    scheduled_time: Duration | None = None


def translate(row: PodRow, options: TraceOptions, _shape: Shape) -> TraceRow:
    """Return the pod as a job of one worker."""
    if row.scheduled_time is None:
        raise LeftOut("was never scheduled, so that nobody knows how long it would have run")
    if row.deletion_time is None:
        raise LeftOut("has no deletion_time")
    if row.deletion_time <= row.scheduled_time:
        raise LeftOut("was deleted when it was scheduled, or before")
    gpus = row.num_gpu * row.gpu_milli / 1000
    return TraceRow(
        name=job_name(row.name),
        at=row.creation_time,
        seconds=row.deletion_time - row.scheduled_time,
        cpu=row.cpu_milli / 1000,
        memory=row.memory_mib * MIB,
        gpu=float(math.ceil(gpus)) if options.whole_gpus else gpus,
        queue=row.qos,
        kind=row.qos,
    )


ALIBABA: Final = Form(
    name="alibaba",
    columns=frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "creation_time"}),
    row=PodRow,
    translate=translate,
    shape=Shape(gpus=8, cpu=96.0, memory=393_216 * MIB),
)
