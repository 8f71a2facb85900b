"""What the statuses of a TrainingProgress and a Migration have in common: records of a replica. Pure.

A status may have been edited by hand to anything that its schema allows, or by a manager with another schema:
reading never raises. What cannot be read becomes a Problem and is as if it were not there.
"""

import re
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.decoding import (
    Problem,
    cut_text,
    moment,
    seconds_of,
)
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.core.state import Measured
from specon_manager.model.cluster import Phase, Replica
from specon_sidecar.wire import Checkpoint

_PURPOSES: Final = 64
_JOB: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_REPLICA: Final = re.compile(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?/(worker|ps)/(0|[1-9][0-9]{0,5})"
)
RecordedNode = Annotated[str, Meta(max_length=253)]
Uid = Annotated[str, Meta(min_length=1, max_length=128)]
RecordedText = Annotated[str, Meta(max_length=1024)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
SmallCount = Annotated[int, Meta(ge=0, le=2**31 - 1)]
RecordedAmount = Annotated[float, Meta(ge=0, le=1e18)]
Purposes = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=_PURPOSES)]


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Fields of a status; the unknown ones of other versions are passed over."""


class CheckpointStatus(Part, frozen=True):
    """A checkpoint, and since when it is known."""

    step: Count
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    read: Literal["whole", "sampled"] | None = None
    time: datetime | None = None


class ReplicaRecord(Part, frozen=True):
    """What a Migration keeps of its replica: the TrainingProgress is written a little later."""

    phase: Phase | None = None
    node: RecordedNode | None = None
    incarnation: Uid | None = None
    former_incarnation: Uid | None = None
    starts: SmallCount | None = None
    crashes: SmallCount | None = None
    moves: SmallCount | None = None
    failed_moves: SmallCount | None = None
    disrupted: SmallCount | None = None
    unproven: RecordedText | None = None
    moved_for: Purposes | None = None
    cooldown_until: datetime | None = None


class Averages(Part, frozen=True):
    """What moves cost on average, up to and including one."""

    moves: SmallCount = 0
    downtime_seconds: RecordedAmount = 0.0
    steps_lost: RecordedAmount = 0.0


def averages_of(measured: Measured) -> Averages:
    """Return what moves have cost on average."""
    return Averages(moves=measured.moves, downtime_seconds=measured.downtime, steps_lost=measured.steps_lost)


def to_measured(averages: Averages) -> Measured:
    """Return the same as the core has it."""
    return Measured(moves=averages.moves, downtime=averages.downtime_seconds, steps_lost=averages.steps_lost)


def is_job(name: str) -> bool:
    """Whether that is the name of a job."""
    return len(name) <= 512 and _JOB.fullmatch(name) is not None  # noqa: PLR2004  (as in a TrainingJob)


def is_replica(name: str) -> bool:
    """Whether that is the name of a replica."""
    return len(name) <= 600 and _REPLICA.fullmatch(name) is not None  # noqa: PLR2004  (as on the wire)


def status_of(status: Part) -> Object:
    """Return the status as JSON has it."""
    built: Object = msgspec.to_builtins(status)
    return built


def record_of(replica: Replica) -> ReplicaRecord:
    """Return what a Migration keeps of its replica."""
    return ReplicaRecord(
        phase=replica.phase,
        node=replica.node,
        incarnation=replica.incarnation,
        former_incarnation=replica.former,
        starts=replica.starts,
        crashes=replica.crashes,
        moves=replica.moves,
        failed_moves=replica.attempts,
        disrupted=replica.disrupted,
        unproven=cut_text(replica.unproven),
        moved_for=purposes_of(replica),
        cooldown_until=moment(replica.cooldown_until),
    )


def purposes_of(replica: Replica) -> tuple[str, ...]:
    """Return for what it was moved, each once, the latest ones."""
    return tuple(dict.fromkeys(purpose[:64] for purpose in reversed(replica.moved_for)))[:_PURPOSES][::-1]


def checkpoint_status(checkpoint: Checkpoint | None, at: float | None = None) -> CheckpointStatus | None:
    """Return the checkpoint as a status has it; `at` is since when it is known, seconds since the epoch."""
    if checkpoint is None:
        return None
    return CheckpointStatus(
        step=checkpoint.step,
        path=checkpoint.path,
        digest=checkpoint.digest,
        read=checkpoint.read,
        time=moment(at),
    )


def with_record(replica: Replica, record: ReplicaRecord) -> Replica:
    """Return the replica with what the record says of it; what the record does not say stays.

    A record with a phase says where the replica is too: nowhere, where it names no node.
    """
    told = record.phase is not None
    return msgspec.structs.replace(
        replica,
        phase=replica.phase if record.phase is None else record.phase,
        node=record.node if told else replica.node,
        incarnation=record.incarnation if told else replica.incarnation,
        former=record.former_incarnation or replica.former,
        starts=_or(record.starts, replica.starts),
        crashes=_or(record.crashes, replica.crashes),
        moves=_or(record.moves, replica.moves),
        attempts=_or(record.failed_moves, replica.attempts),
        disrupted=_or(record.disrupted, replica.disrupted),
        unproven=record.unproven or ("" if record.disrupted is not None else replica.unproven),
        moved_for=replica.moved_for if record.moved_for is None else record.moved_for,
        cooldown_until=seconds_of(record.cooldown_until) or replica.cooldown_until,
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def checkpoint_of(status: CheckpointStatus | None) -> Checkpoint | None:
    """Return the checkpoint that a status names."""
    if status is None:
        return None
    return Checkpoint(step=status.step, path=status.path, digest=status.digest, read=status.read)


def metadata_of(item: Object) -> tuple[Name, float]:
    """Return where the object is, and when it was created, seconds since the epoch; 0: unknown."""
    metadata = part_of(item, "metadata")
    try:
        created = msgspec.convert(metadata.get("creationTimestamp"), datetime)
    except msgspec.ValidationError:
        created = None
    name = Name(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    return name, seconds_of(created) or 0.0


def owner_uid(metadata: Object) -> str:
    """Return the UID of the first owner that an object refers to; empty where it refers to none."""
    owners = metadata.get("ownerReferences")
    first = owners[0] if isinstance(owners, list) and owners else None
    return str(first.get("uid") or "") if isinstance(first, dict) else ""


def part_of(item: Object, key: str) -> Object:
    """Return the object below that key, an empty one where it is none."""
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def problem_of(kind: str, name: Name, field: str, text: str) -> Problem:
    """Return the mistake in a field of an object."""
    return Problem(kind=kind, namespace=name.namespace, name=name.name, field=field, text=text)
