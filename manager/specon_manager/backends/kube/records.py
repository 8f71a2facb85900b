"""Replicas and moves as the custom resources have them, and back. Pure.

A status may have been edited by hand to anything that its schema allows, or by a manager with another schema:
reading never raises. What cannot be read becomes a Problem and is as if it were not there.
"""

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.lenient import (
    Problem,
    bounded,
    moment,
    read_fields,
    rounded,
    seconds_of,
)
from specon_manager.backends.kube.names import Name, migration_name, namespace_of, slug
from specon_manager.backends.kube.resources import MIGRATIONS, TRAINING_PROGRESSES, Object
from specon_manager.core.state import Measured
from specon_manager.model.cluster import Phase, Progress, Replica, index_of, role_of
from specon_manager.model.moves import Move, MoveState
from specon_sidecar.classify import Category
from specon_sidecar.curve import Estimate
from specon_sidecar.wire import Checkpoint

MOVE_LABEL: Final = "specon.io/manager-move"
"""On a Migration that the manager made: the id of the move."""
MANIFEST_BYTES: Final = 256 * 1024
_PURPOSES: Final = 64
_REPLICA: Final = re.compile(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?/(worker|ps)/(0|[1-9][0-9]{0,5})"
)
_NUMBERED: Final = re.compile(r"move-[0-9]{1,15}")

_Node = Annotated[str, Meta(max_length=253)]
_Uid = Annotated[str, Meta(min_length=1, max_length=128)]
_Text = Annotated[str, Meta(max_length=1024)]
_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Small = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Amount = Annotated[float, Meta(ge=0, le=1e18)]
_Purposes = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=_PURPOSES)]


class _Part(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Fields of a status; the unknown ones of other versions are passed over."""


class CheckpointStatus(_Part, frozen=True):
    """A checkpoint, and since when it is known."""

    step: _Count
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    time: datetime | None = None


class ReplicaRecord(_Part, frozen=True):
    """What a Migration keeps of its replica: the TrainingProgress is written a little later."""

    phase: Phase | None = None
    node: _Node | None = None
    incarnation: _Uid | None = None
    former_incarnation: _Uid | None = None
    starts: _Small | None = None
    crashes: _Small | None = None
    moves: _Small | None = None
    failed_moves: _Small | None = None
    moved_for: _Purposes | None = None
    cooldown_until: datetime | None = None


class ProgressStatus(ReplicaRecord, frozen=True):
    """The status of a TrainingProgress."""

    category: Category | None = None
    since: datetime | None = None
    reason: _Text | None = None
    message: _Text | None = None
    metric: Annotated[str, Meta(max_length=512)] | None = None
    loss: float | None = None
    step: _Count | None = None
    step_at: datetime | None = None
    total_steps: _Count | None = None
    gain: _Amount | None = None
    expected_gain: Estimate | None = None
    remaining_seconds: Estimate | None = None
    cpu_seconds_per_step: _Amount | None = None
    pod: _Node | None = None
    checkpoint: CheckpointStatus | None = None
    reported_at: datetime | None = None
    ended_at: datetime | None = None
    updated_at: datetime | None = None


class Averages(_Part, frozen=True):
    """What moves cost on average, up to and including one."""

    moves: _Small = 0
    downtime_seconds: _Amount = 0.0
    steps_lost: _Amount = 0.0


class MigrationStatus(_Part, frozen=True):
    """The status of a Migration: the whole record of a move, and what else the next manager needs."""

    id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    state: MoveState | None = None
    replica: Annotated[str, Meta(max_length=600)] | None = None
    source: _Node | None = None
    target: _Node | None = None
    destination: _Node | None = None
    destination_hostname: _Node | None = None
    policy: Annotated[str, Meta(max_length=64)] | None = None
    purpose: Annotated[str, Meta(max_length=64)] | None = None
    reason: _Text | None = None
    message: _Text | None = None
    attempt: Annotated[int, Meta(ge=1, le=2)] | None = None
    incarnation: _Uid | None = None
    checkpoint: CheckpointStatus | None = None
    proposed_at: datetime | None = None
    deadline: datetime | None = None
    evicted_at: datetime | None = None
    gone_at: datetime | None = None
    restarted_at: datetime | None = None
    ended_at: datetime | None = None
    last_step: _Count | None = None
    last_step_at: datetime | None = None
    first_step: _Count | None = None
    resumed_from: _Count | None = None
    downtime_seconds: _Amount | None = None
    steps_lost: _Count | None = None
    record: ReplicaRecord | None = None
    averages: Averages | None = None
    manifest: Annotated[str, Meta(max_length=MANIFEST_BYTES)] | None = None
    manager: _Node | None = None
    updated_at: datetime | None = None


class Progressed(Struct, frozen=True, kw_only=True):
    """What a TrainingProgress says."""

    name: Name
    replica: Replica
    created_at: float
    updated_at: float
    checkpoint_at: float | None = None
    """Since when the checkpoint is known."""


class Migrated(Struct, frozen=True, kw_only=True):
    """What a Migration says; `move` is None where that is not enough for one."""

    name: Name
    uid: str
    version: str
    """Its resourceVersion."""
    ours: bool
    """Whether the manager made it, and nobody asked for it."""
    created_at: float
    status: MigrationStatus
    replica: str | None
    move: Move | None


def is_replica(name: str) -> bool:
    """Whether that is the name of a replica."""
    return len(name) <= 600 and _REPLICA.fullmatch(name) is not None  # noqa: PLR2004  (as on the wire)


def progress_object(replica: str) -> Object:
    """Return the TrainingProgress of a replica as it is created, without a status."""
    return {
        "apiVersion": TRAINING_PROGRESSES.api_version,
        "kind": TRAINING_PROGRESSES.kind,
        "metadata": {"name": slug(replica), "namespace": namespace_of(replica)},
        "spec": {"replica": replica},
    }


def migration_object(move: Move) -> Object:
    """Return the Migration of a move as it is created, without a status.

    One that was asked for has its object already; it is made again where somebody deleted that meanwhile.
    """
    name = migration_name(move)
    labels = {} if "/" in move.id else {"labels": {MOVE_LABEL: move.id}}
    spec = {
        "replica": move.replica,
        "target": move.target or None,
        "reason": bounded(move.reason),
    }
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {"name": name.name, "namespace": name.namespace, **labels},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def status_of(status: ProgressStatus | MigrationStatus) -> Object:
    """Return the status as JSON has it."""
    built: Object = msgspec.to_builtins(status)
    return built


def patch_of(status: ProgressStatus) -> Object:
    """Return the status for a merge patch: null takes away what is not there any more."""
    built = status_of(status)
    whole: Object = {
        field.encode_name: built.get(field.encode_name) for field in msgspec.structs.fields(ProgressStatus)
    }
    if whole["checkpoint"] is not None:
        whole["checkpoint"] = {"digest": None, **whole["checkpoint"]}
    return whole


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
        moved_for=_purposes(replica),
        cooldown_until=moment(replica.cooldown_until),
    )


def progress_status(
    replica: Replica, *, now: float, pod: str | None = None, checkpoint_at: float | None = None
) -> ProgressStatus:
    """Return the status of the TrainingProgress; times in seconds since the epoch."""
    progress = replica.progress
    return ProgressStatus(
        phase=replica.phase,
        node=replica.node,
        incarnation=replica.incarnation,
        former_incarnation=replica.former,
        starts=replica.starts,
        crashes=replica.crashes,
        moves=replica.moves,
        failed_moves=replica.attempts,
        moved_for=_purposes(replica),
        cooldown_until=moment(replica.cooldown_until),
        category=progress.category,
        since=moment(progress.category_since),
        reason=bounded(progress.reason, 512),
        message=bounded(replica.note),
        metric=progress.metric,
        loss=rounded(progress.value),
        step=progress.step,
        step_at=moment(progress.step_at),
        total_steps=progress.total_steps,
        gain=rounded(progress.gain),
        expected_gain=progress.expected_gain,
        remaining_seconds=progress.remaining_seconds,
        cpu_seconds_per_step=progress.cpu_per_step,
        pod=pod,
        checkpoint=_checkpoint_status(progress.checkpoint, checkpoint_at),
        reported_at=moment(progress.reported_at),
        ended_at=moment(replica.ended_at),
        updated_at=moment(now),
    )


def _purposes(replica: Replica) -> tuple[str, ...]:
    return tuple(dict.fromkeys(purpose[:64] for purpose in reversed(replica.moved_for)))[:_PURPOSES][::-1]


def _checkpoint_status(checkpoint: Checkpoint | None, at: float | None = None) -> CheckpointStatus | None:
    if checkpoint is None:
        return None
    return CheckpointStatus(
        step=checkpoint.step, path=checkpoint.path, digest=checkpoint.digest, time=moment(at)
    )


def migration_status(
    move: Move,
    replica: Replica | None,
    *,
    hostname: str | None,
    measured: Measured,
    manifest: str | None,
    manager: str,
    now: float,
) -> MigrationStatus:
    """Return the status of the Migration.

    `hostname` is the label of the node on which the present attempt is to run; `replica` is None where there
    is none of that name, `manifest` where no pod has to be created again.
    """
    return MigrationStatus(
        id=move.id,
        state=move.state,
        replica=move.replica,
        source=move.source,
        target=move.target,
        destination=move.destination,
        destination_hostname=hostname,
        policy=bounded(move.policy, 64),
        purpose=bounded(move.purpose, 64),
        reason=bounded(move.reason),
        message=bounded(move.note),
        attempt=move.attempt,
        incarnation=move.incarnation,
        checkpoint=_checkpoint_status(move.checkpoint),
        proposed_at=moment(move.proposed_at),
        deadline=moment(move.deadline),
        evicted_at=moment(move.evicted_at),
        gone_at=moment(move.gone_at),
        restarted_at=moment(move.restarted_at),
        ended_at=moment(move.ended_at),
        last_step=move.last_step_before,
        last_step_at=moment(move.last_step_at),
        first_step=move.first_step_after,
        resumed_from=move.resumed_from,
        downtime_seconds=None if move.downtime is None else round(move.downtime, 3),
        steps_lost=move.steps_lost,
        record=None if replica is None else record_of(replica),
        averages=None if move.in_flight else _averages(measured),
        manifest=manifest,
        manager=bounded(manager, 253),
        updated_at=moment(now),
    )


def _averages(measured: Measured) -> Averages:
    return Averages(moves=measured.moves, downtime_seconds=measured.downtime, steps_lost=measured.steps_lost)


def read_progress(item: Object) -> tuple[Progressed | None, list[Problem]]:
    """Return what a TrainingProgress says, None where it is not that of a replica in its namespace."""
    name, created_at = _metadata(item)
    replica = _of(item, "spec").get("replica")
    if not isinstance(replica, str) or not is_replica(replica):
        return None, [_problem(TRAINING_PROGRESSES.kind, name, "spec.replica", f"{replica!r} is no replica")]
    if Name(namespace_of(replica), slug(replica)) != name:
        text = f"{replica!r} has its TrainingProgress at {namespace_of(replica)}/{slug(replica)}"
        return None, [_problem(TRAINING_PROGRESSES.kind, name, "spec.replica", text)]
    status, wrong = read_fields(ProgressStatus, item.get("status"), at="status")
    problems = [
        _problem(TRAINING_PROGRESSES.kind, name, field, text) for field, text in sorted(wrong.items())
    ]
    saved = status.checkpoint
    read = Progressed(
        name=name,
        replica=with_record(_replica(replica, status), status),
        created_at=created_at,
        updated_at=seconds_of(status.updated_at) or 0.0,
        checkpoint_at=None if saved is None else seconds_of(saved.time),
    )
    return read, problems


def _replica(name: str, status: ProgressStatus) -> Replica:
    return Replica(
        name=name,
        job="/".join(name.split("/")[:2]),
        role=role_of(name),
        index=index_of(name),
        phase=Phase.AWAITED,
        ended_at=seconds_of(status.ended_at),
        note=status.message or "",
        progress=Progress(
            category=status.category or Category.UNKNOWN,
            category_since=seconds_of(status.since) or 0.0,
            reason=status.reason or "",
            metric=status.metric,
            value=status.loss,
            step=status.step,
            step_at=seconds_of(status.step_at),
            total_steps=status.total_steps,
            gain=status.gain,
            expected_gain=status.expected_gain,
            remaining_seconds=status.remaining_seconds,
            checkpoint=_checkpoint(status.checkpoint),
            cpu_per_step=status.cpu_seconds_per_step,
            reported_at=seconds_of(status.reported_at),
        ),
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
        moved_for=replica.moved_for if record.moved_for is None else record.moved_for,
        cooldown_until=seconds_of(record.cooldown_until) or replica.cooldown_until,
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _checkpoint(status: CheckpointStatus | None) -> Checkpoint | None:
    if status is None:
        return None
    return Checkpoint(step=status.step, path=status.path, digest=status.digest)


def read_migration(item: Object) -> tuple[Migrated, list[Problem]]:
    """Return what a Migration says, and which of its fields make no sense."""
    name, created_at = _metadata(item)
    metadata = _of(item, "metadata")
    labels = metadata.get("labels")
    label = labels.get(MOVE_LABEL) if isinstance(labels, dict) else None
    if not isinstance(label, str) or _NUMBERED.fullmatch(label) is None:
        label = None
    status, wrong = read_fields(MigrationStatus, item.get("status"), at="status")
    replica = status.replica or _of(item, "spec").get("replica")
    if not isinstance(replica, str) or not is_replica(replica) or namespace_of(replica) != name.namespace:
        if replica is not None:
            wrong["replica"] = f"{replica!r} is no replica of the namespace {name.namespace}"
        replica = None
    read = Migrated(
        name=name,
        uid=str(metadata.get("uid") or ""),
        version=str(metadata.get("resourceVersion") or ""),
        ours=label is not None,
        created_at=created_at,
        status=status,
        replica=replica,
        move=_move(status, replica, label or str(name), created_at),
    )
    return read, [_problem(MIGRATIONS.kind, name, field, text) for field, text in sorted(wrong.items())]


def _move(status: MigrationStatus, replica: str | None, called: str, created_at: float) -> Move | None:
    """Return the move that the status records, or None where something is missing that it cannot be without.

    Its id is the object's own, by label or name: nobody can rename a move by a look-alike.
    """
    if replica is None or status.state is None or status.source is None or status.target is None:
        return None
    return Move(
        id=called,
        replica=replica,
        source=status.source,
        target=status.target,
        policy=status.policy or "",
        purpose=status.purpose or "",
        reason=status.reason or "",
        state=status.state,
        proposed_at=seconds_of(status.proposed_at) or created_at,
        deadline=seconds_of(status.deadline) or 0.0,
        incarnation=status.incarnation,
        attempt=status.attempt or 1,
        checkpoint=_checkpoint(status.checkpoint),
        last_step_before=status.last_step,
        last_step_at=seconds_of(status.last_step_at),
        first_step_after=status.first_step,
        resumed_from=status.resumed_from,
        evicted_at=seconds_of(status.evicted_at),
        gone_at=seconds_of(status.gone_at),
        restarted_at=seconds_of(status.restarted_at),
        ended_at=seconds_of(status.ended_at),
        downtime=status.downtime_seconds,
        steps_lost=status.steps_lost,
        note=status.message or "",
    )


def _metadata(item: Object) -> tuple[Name, float]:
    metadata = _of(item, "metadata")
    try:
        created = msgspec.convert(metadata.get("creationTimestamp"), datetime)
    except msgspec.ValidationError:
        created = None
    name = Name(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    return name, seconds_of(created) or 0.0


def _of(item: Object, key: str) -> Object:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def _problem(kind: str, name: Name, field: str, text: str) -> Problem:
    return Problem(kind=kind, namespace=name.namespace, name=name.name, field=field, text=text)
