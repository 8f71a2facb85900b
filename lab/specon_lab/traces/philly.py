"""Microsoft's Philly trace, as the authors of Pollux cleaned it: 82,247 jobs in 2017.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019.

Columns: timestamp (of submission), duration (seconds that it ran), num_gpus, gpu_time, cluster (the virtual
cluster). A job of more GPUs than a node has becomes a gang of workers with as many GPUs each as a node has.
Nothing is told of cores, memory or models: a job reserves the part of a node that belongs to its GPUs, its
queue is its virtual cluster, and jobs are of one kind that have the virtual cluster and the number of GPUs
in common.
"""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_lab.traces.form import Count, Duration, Form, Shape, gangs, timestamp
from specon_lab.traces.mistakes import LeftOut
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.row import TraceRow


class PhillyRow(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    timestamp: datetime
    duration: Duration
    num_gpus: Count
    cluster: Annotated[str, Meta(max_length=100)] = ""


def translate(row: PhillyRow, _options: TraceOptions, shape: Shape) -> TraceRow:
    """Return the job; it has no name yet."""
    if not row.duration:
        raise LeftOut("duration is 0")
    if not row.num_gpus:
        raise LeftOut("num_gpus is 0")
    workers, gpus = gangs(row.num_gpus, shape)
    cpu, memory = shape.per_gpu()
    return TraceRow(
        name="",
        at=timestamp(row.timestamp),
        seconds=row.duration,
        workers=workers,
        cpu=cpu * gpus,
        memory=memory * gpus,
        gpu=float(gpus),
        queue=row.cluster,
        kind=f"{row.cluster}-{row.num_gpus}",
    )


PHILLY: Final = Form(
    name="philly",
    columns=frozenset({"timestamp", "duration", "num_gpus"}),
    row=PhillyRow,
    translate=translate,
    shape=Shape(gpus=8, cpu=64.0, memory=512e9),
)
