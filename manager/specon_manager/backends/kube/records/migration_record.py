"""A move as its Migration has it, and back. Pure."""

import re
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_manager.backends.kube.records.lenient import (
    Problem,
    bounded,
    moment,
    read_fields,
    seconds_of,
)
from specon_manager.backends.kube.records.names import Name, migration_name, namespace_of
from specon_manager.backends.kube.records.records import (
    Amount,
    CheckpointStatus,
    Count,
    NodeName,
    Part,
    ReplicaRecord,
    SmallCount,
    Text,
    Uid,
    checkpoint_of,
    checkpoint_status,
    is_replica,
    metadata_of,
    part_of,
    problem_of,
    record_of,
)
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.core.state import Measured
from specon_manager.model.cluster import Replica
from specon_manager.model.moves import Move, MoveState

MOVE_LABEL: Final = "specon.io/manager-move"
MANIFEST_BYTES: Final = 256 * 1024
_NUMBERED: Final = re.compile(r"move-[0-9]{1,15}")


class Averages(Part, frozen=True):
    """What moves cost on average, up to and including one."""

    moves: SmallCount = 0
    downtime_seconds: Amount = 0.0
    steps_lost: Amount = 0.0


class MigrationStatus(Part, frozen=True):
    """The status of a Migration: the whole record of a move, and what else the next manager needs."""

    id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    state: MoveState | None = None
    replica: Annotated[str, Meta(max_length=600)] | None = None
    source: NodeName | None = None
    target: NodeName | None = None
    destination: NodeName | None = None
    destination_hostname: NodeName | None = None
    policy: Annotated[str, Meta(max_length=64)] | None = None
    purpose: Annotated[str, Meta(max_length=64)] | None = None
    reason: Text | None = None
    message: Text | None = None
    attempt: Annotated[int, Meta(ge=1, le=2)] | None = None
    incarnation: Uid | None = None
    checkpoint: CheckpointStatus | None = None
    proposed_at: datetime | None = None
    deadline: datetime | None = None
    evicted_at: datetime | None = None
    gone_at: datetime | None = None
    restarted_at: datetime | None = None
    ended_at: datetime | None = None
    last_step: Count | None = None
    last_step_at: datetime | None = None
    first_step: Count | None = None
    resumed_from: Count | None = None
    downtime_seconds: Amount | None = None
    steps_lost: Count | None = None
    record: ReplicaRecord | None = None
    averages: Averages | None = None
    manifest: Annotated[str, Meta(max_length=MANIFEST_BYTES)] | None = None
    manager: NodeName | None = None
    updated_at: datetime | None = None


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
        checkpoint=checkpoint_status(move.checkpoint),
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


def read_migration(item: Object) -> tuple[Migrated, list[Problem]]:
    """Return what a Migration says, and which of its fields make no sense."""
    name, created_at = metadata_of(item)
    metadata = part_of(item, "metadata")
    labels = metadata.get("labels")
    label = labels.get(MOVE_LABEL) if isinstance(labels, dict) else None
    if not isinstance(label, str) or _NUMBERED.fullmatch(label) is None:
        label = None
    status, wrong = read_fields(MigrationStatus, item.get("status"), at="status")
    replica = status.replica or part_of(item, "spec").get("replica")
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
    return read, [problem_of(MIGRATIONS.kind, name, field, text) for field, text in sorted(wrong.items())]


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
        checkpoint=checkpoint_of(status.checkpoint),
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
