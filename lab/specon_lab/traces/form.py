"""A form of trace: how it is recognised, and how one of its records becomes a job."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from specon_lab.traces.mistakes import FieldError
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.row import MOST_WORKERS, TraceRow

Duration = Annotated[float, Meta(ge=0, le=1e12)]
Count = Annotated[int, Meta(ge=0, le=4096)]


class Shape(Struct, frozen=True, kw_only=True):
    """A node of the cluster where jobs run whose trace does not tell everything that they reserve."""

    gpus: int
    cpu: float
    memory: float
    nodes: int | None = None
    """How many there are; None: not known."""

    def per_gpu(self) -> tuple[float, float]:
        """Return the cores and bytes that come with one GPU, so that GPUs always run out first."""
        gpus = max(1, self.gpus)
        return math.floor(1000 * self.cpu / gpus) / 1000, float(math.floor(self.memory / gpus))


class Form(Struct, frozen=True, kw_only=True):
    """A form of trace in a table."""

    name: str
    columns: frozenset[str]
    """It is recognised by these."""
    row: type[Struct]
    translate: Callable[[Any, TraceOptions, Shape], TraceRow]
    """Raises LeftOut where there is no job in a row, and FieldError."""
    relative: bool = True
    """Whether its times begin at any moment, so that they are counted from the first job."""
    strict: bool = False
    """Whether columns that it does not know are worth a warning."""
    shape: Shape


def gangs(gpus: int, shape: Shape, least: int = 1) -> tuple[int, int]:
    """Return workers and GPUs of each: as few as the nodes allow, but at least `least`, all alike."""
    workers = max(least, math.ceil(gpus / max(1, shape.gpus)))
    return workers, math.ceil(gpus / workers)


def split_over_nodes(row: TraceRow, shape: Shape) -> TraceRow:
    """Return a job whose workers ask for more GPUs than a node has as one of more workers that fit.

    Each becomes as few as the nodes allow, all alike, with equal parts of its cores and memory; of a number
    of GPUs that does not divide evenly each gets one more. A job that is elastic, or whose workers exchange
    so much that a network is said for them, stays as it is. Raises FieldError where there would be too many.
    """
    workers = row.workers or row.max_workers or row.min_workers or 1
    rigid = {row.min_workers or workers, row.max_workers or workers} == {workers}
    if row.gpu <= max(1, shape.gpus) or not rigid or row.ps or row.step_bytes is not None:
        return row
    parts, gpus = gangs(math.ceil(row.gpu), shape)
    if parts * workers > MOST_WORKERS:
        raise FieldError("gpu", f"{row.gpu:g} for each of {workers} are more than {MOST_WORKERS} nodes have")
    return msgspec.structs.replace(
        row,
        workers=workers * parts,
        min_workers=None,
        max_workers=None,
        gpu=float(gpus),
        cpu=row.cpu / parts,
        memory=row.memory / parts,
        speedup=(),
    )


def timestamp(moment: datetime) -> float:
    """Return seconds since 1970, or since 1970 of the local time where no zone is given."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def job_name(text: str) -> str:
    """Return the text as the name of a job: `-` for what names must not have, a letter at its begin."""
    kept = re.sub(r"[^a-z0-9.-]", "-", text.lower()).strip("-.")
    return kept if kept[:1].isalpha() else f"job-{kept}" if kept else "job"
