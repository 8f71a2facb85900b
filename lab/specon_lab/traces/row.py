"""One job of a trace: the columns of the project's own form, to which every other form is translated."""

import re
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from specon_lab.traces.mistakes import FieldError
from specon_lab.workloads.records import NAMESPACE, replica_names
from specon_lab.workloads.workload import LossCurve, Network, Seconds, Submission, Training
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Amount, Resources

MOST_WORKERS: Final = 4096
Workers = Annotated[int, Meta(ge=1, le=MOST_WORKERS)]
Positive = Annotated[float, Meta(gt=0, le=1e12)]
Factor = Annotated[float, Meta(gt=0, le=1e6)]
NAME: Final = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z"
Text = Annotated[str, Meta(max_length=253)]


class TraceRow(Struct, frozen=True, kw_only=True):
    """A job as a row tells it: seconds, cores, bytes and devices."""

    name: Annotated[str, Meta(max_length=253, pattern=NAME)]
    """Unique; `job` or `namespace/job`, lower case letters, digits, `-` and `.`."""
    at: Seconds
    """When it arrives."""
    seconds: Positive
    """How long it trains with `workers`, alone on its nodes and without a network."""
    job_class: Literal["trial", "best-effort"] = field(default="best-effort", name="class")
    workers: Workers | None = None
    """How many it asks for; none: `max_workers`, else `min_workers`, else 1."""
    min_workers: Workers | None = None
    """With how many it can train; none: `workers`."""
    max_workers: Workers | None = None
    """How many it can use; none: `workers`."""
    ps: Annotated[int, Meta(ge=0, le=256)] = 0
    """Parameter servers."""
    cpu: Amount = 0.0
    """Cores that one worker reserves."""
    memory: Amount = 0.0
    """Bytes that one worker reserves; also 4G or 4Gi."""
    gpu: Amount = 0.0
    """GPUs that one worker reserves, also a part of one."""
    ps_cpu: Amount | None = None
    """What one parameter server reserves; none of the three: as much as a worker."""
    ps_memory: Amount | None = None
    ps_gpu: Amount | None = None
    grace_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 30.0
    """From being told to end until it is killed."""
    utility: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0
    """How much its owner values it."""
    queue: Text = ""
    """Whose quota it counts against."""
    priority: Annotated[int, Meta(ge=-(10**9), le=2 * 10**9)] = 0
    """It is not preempted for a job of lower priority."""
    resizing: Literal["at-once", "live", "restart", "none"] = "at-once"
    """How its number of workers changes: worker by worker; after a checkpoint, beside the others or with all
    of it started again; not at all."""
    kind: Text = ""
    """What jobs like it have in common; durations are learnt by kind."""
    checkpointing: Literal["asked", "on-termination", "none"] = "asked"
    """When it writes a checkpoint for a move."""
    migratable: bool = True
    restarts: Annotated[int, Meta(ge=0, le=1_000_000)] = 3
    """Crashes that are put up with."""
    demand: Amount = 0.0
    """Cores that one replica uses when it can; 0: what it reserves, never shared."""
    speedup: Annotated[tuple[Positive, ...], Meta(max_length=4096)] = ()
    """Speed with 1, 2, ... workers in units of the speed with one, with spaces between; none: linear."""
    paces: Annotated[dict[Text, Factor], Meta(max_length=100)] = field(default_factory=dict)
    """How many times as long a step takes, by model of accelerator; on others: once. Also `K80=4 P100=2`."""
    step_bytes: Amount | None = None
    """What a worker exchanges with its servers in a step; given together with `step_seconds`."""
    step_seconds: Positive | None = None
    """How long a step takes with one worker, without a network."""
    fixed_quota: bool = False
    """Whether the slowest worker decides."""
    curve_rate: Annotated[float, Meta(gt=0, le=1000)] | None = None
    """How fast its loss falls, exp(-rate p) over the progress p; none: its log cannot be judged."""
    curve_first: Annotated[float, Meta(ge=-1e15, le=1e15)] = 1.0
    curve_floor: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0
    curve_noise: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Standard deviation, in units of first - floor."""
    prints_total: bool = True
    """Whether its log names the total number of steps."""
    steps: Annotated[int, Meta(ge=1, le=10**12)] = 1000
    start_seconds: Seconds = 0.0
    save_seconds: Seconds = 0.0
    restore_seconds: Seconds = 0.0
    stop_seconds: Seconds | None = None
    """From being told to end until it is gone; none: its whole grace period."""
    resize_seconds: Seconds = 0.0
    """How long it pauses when the number of its workers changes."""
    scale_in_seconds: Seconds | None = None
    """The same for fewer workers only; none: `resize_seconds`."""
    checkpoint_seconds: Seconds = 600.0
    """How often it saves by itself."""


_FACTORS: Final = {
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_BYTES: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(Ki|Mi|Gi|Ti|K|M|G|T)B?")
Amounts = dict[Resources, Resources]
_TEMPLATE: Final[dict[str, Any]] = {}


def prepare_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with amounts of bytes and lists in the form that a row takes."""
    for column in ("memory", "ps_memory"):
        if isinstance(text := record.get(column), str) and (found := _BYTES.fullmatch(text.strip())):
            record[column] = float(found[1]) * _FACTORS[found[2]]
    if isinstance(text := record.get("speedup"), str):
        record["speedup"] = text.split()
    if isinstance(text := record.get("paces"), str):
        record["paces"] = {model: pace for model, _, pace in (part.rpartition("=") for part in text.split())}
    return record


def submission_of(row: TraceRow, amounts: Amounts) -> Submission:
    """Return the job; `amounts` keeps one record of equal amounts.

    Raises FieldError where fields do not agree with each other.
    """
    workers, fewest, most = _sizes(row)
    if (row.step_bytes is None) != (row.step_seconds is None):
        missing = "step_bytes" if row.step_bytes is None else "step_seconds"
        raise FieldError(missing, "is missing: a network needs step_bytes and step_seconds")
    name = row.name if "/" in row.name else f"{NAMESPACE}/{row.name}"
    requests = Resources(cpu=row.cpu, memory=row.memory, gpu=row.gpu)
    spec = JobSpec(
        name=name,
        replicas=replica_names(name, most, row.ps),
        requests=amounts.setdefault(requests, requests),
        ps_requests=_server(row),
        workers=workers,
        min_workers=fewest,
        job_class=row.job_class,
        utility=row.utility,
        queue=row.queue,
        priority=row.priority,
        resizing=row.resizing,
        kind=row.kind,
        restarts=row.restarts,
        grace_seconds=row.grace_seconds,
        checkpointing=row.checkpointing,
        migratable=row.migratable,
        template=_TEMPLATE,
    )
    return Submission(at=row.at, spec=spec, training=_training(row))


def _sizes(row: TraceRow) -> tuple[int, int, int]:
    """Return how many workers it asks for, the fewest and the most."""
    workers = row.workers or row.max_workers or row.min_workers or 1
    fewest, most = row.min_workers or workers, row.max_workers or workers
    if fewest > workers:
        raise FieldError("min_workers", f"{fewest} is more than workers, {workers}")
    if most < workers:
        raise FieldError("max_workers", f"{most} is less than workers, {workers}")
    return workers, fewest, most


def _server(row: TraceRow) -> Resources | None:
    if row.ps_cpu is None and row.ps_memory is None and row.ps_gpu is None:
        return None
    return Resources(cpu=row.ps_cpu or 0.0, memory=row.ps_memory or 0.0, gpu=row.ps_gpu or 0.0)


def _training(row: TraceRow) -> Training:
    network = curve = None
    if row.step_bytes is not None and row.step_seconds is not None:
        network = Network(
            step_bytes=row.step_bytes, step_seconds=row.step_seconds, fixed_quota=row.fixed_quota
        )
    if row.curve_rate is not None:
        curve = LossCurve(
            first=row.curve_first, floor=row.curve_floor, rate=row.curve_rate, noise=row.curve_noise
        )
    return Training(
        seconds=row.seconds,
        demand=row.demand,
        speedup=row.speedup,
        paces=row.paces,
        network=network,
        curve=curve,
        prints_total=row.prints_total,
        steps=row.steps,
        start_seconds=row.start_seconds,
        save_seconds=row.save_seconds,
        restore_seconds=row.restore_seconds,
        stop_seconds=row.stop_seconds,
        resize_seconds=row.resize_seconds,
        scale_in_seconds=row.scale_in_seconds,
        checkpoint_seconds=row.checkpoint_seconds,
    )
