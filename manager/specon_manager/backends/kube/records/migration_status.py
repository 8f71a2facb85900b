"""The status of a Migration, as it is written. Pure.

The fields are those of the first schema, for people and for managers of version 0.1. The text beside them has
the whole of a move; a server with the first schema drops it.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from specon_manager.backends.kube.objects.names import migration_name
from specon_manager.backends.kube.records.decoding import cut_text, moment
from specon_manager.backends.kube.records.external import REFUSED, MoveState, move_state
from specon_manager.backends.kube.records.records import (
    Averages,
    CheckpointStatus,
    Count,
    Part,
    RecordedAmount,
    RecordedNode,
    RecordedText,
    ReplicaRecord,
    Uid,
    averages_of,
    checkpoint_status,
    record_of,
)
from specon_manager.backends.kube.records.transaction_text import RECORD_CHARACTERS, to_placed
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.core.state import Measured
from specon_manager.model.cluster import Replica
from specon_manager.model.transactions import UNTOUCHED_STATES, Transaction, TransactionState, Witness

MOVE_LABEL: Final = "specon.io/manager-move"
EVICTED_POD: Final = "specon.io/evicted-pod"
"""Annotation of a Migration that an eviction was turned into: NAME/UID of the pod."""
LEAVES: Final = "specon.io/leaves"
"""Annotation: the node that the replica is to leave, over with once it is not there. Not a field, for Helm
does not upgrade schemas, and a server with an older one would drop it."""
MANIFEST_BYTES: Final = 256 * 1024
STUCK: Final = "stuck: "
"""With this the message of a move begins that cannot come to an end."""


class MigrationStatus(Part, frozen=True):
    """The status of a Migration: the whole record of a move, and what else the next manager needs."""

    id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """Under which its checkpoint is asked for."""
    state: MoveState | None = None
    replica: Annotated[str, Meta(max_length=600)] | None = None
    job: Annotated[str, Meta(max_length=512)] | None = None
    """Where all of a job moves, which: its TrainingJob is the record then, and this tells of it."""
    source: RecordedNode | None = None
    target: RecordedNode | None = None
    destination: RecordedNode | None = None
    destination_hostname: RecordedNode | None = None
    policy: Annotated[str, Meta(max_length=64)] | None = None
    purpose: Annotated[str, Meta(max_length=64)] | None = None
    reason: RecordedText | None = None
    message: RecordedText | None = None
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
    downtime_seconds: RecordedAmount | None = None
    steps_lost: Count | None = None
    record: ReplicaRecord | None = None
    averages: Averages | None = None
    manifest: Annotated[str, Meta(max_length=MANIFEST_BYTES)] | None = None
    transaction: Annotated[str, Meta(max_length=RECORD_CHARACTERS)] | None = None
    manager: RecordedNode | None = None
    updated_at: datetime | None = None


def migration_object(move: Transaction) -> Object:
    """Return the Migration of a move as it is created, without a status.

    One that was asked for has its object already; it is made again where somebody deleted that meanwhile.
    """
    name = migration_name(move)
    labels = {} if "/" in move.id else {"labels": {MOVE_LABEL: move.id}}
    spec = {
        "replica": move.replica,
        "target": move.target or None,
        "reason": cut_text(move.reason),
    }
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {"name": name.name, "namespace": name.namespace, **labels},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def describe_move(move: Transaction, *, manager: str, now: float) -> MigrationStatus:
    """Return what every Migration says of its move, whatever it is about; `now` in seconds."""
    return MigrationStatus(
        id=cut_text(move.request, 128),
        state=move_state(move.state),
        policy=cut_text(move.policy, 64),
        purpose=cut_text(move.purpose, 64),
        reason=cut_text(move.reason),
        message=cut_text(message_of(move)),
        attempt=move.attempt,
        proposed_at=moment(move.proposed_at),
        deadline=moment(move.deadline),
        evicted_at=moment(move.changing_at),
        gone_at=moment(move.gone_at),
        restarted_at=moment(move.running_at),
        ended_at=moment(move.ended_at),
        downtime_seconds=None if move.downtime is None else round(move.downtime, 3),
        steps_lost=move.steps_lost,
        manager=cut_text(manager, 253),
        updated_at=moment(now),
    )


def migration_status(
    move: Transaction,
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
    witness = move.witnesses.get(move.replica, Witness())
    known = {} if replica is None else {replica.name: replica}
    return msgspec.structs.replace(
        describe_move(move, manager=manager, now=now),
        replica=move.replica,
        source=move.source,
        target=move.target,
        destination=move.destination,
        destination_hostname=hostname,
        incarnation=_incarnation(move, replica),
        checkpoint=checkpoint_status(witness.checkpoint),
        last_step=witness.last_step,
        last_step_at=moment(witness.last_step_at),
        first_step=witness.first_step,
        resumed_from=witness.resumed_from,
        record=None if replica is None else record_of(replica),
        averages=None if move.in_flight else averages_of(measured),
        manifest=manifest,
        transaction=_text(move, known),
    )


def to_first_schema(status: MigrationStatus) -> MigrationStatus:
    """Return the same for a server whose schema does not know that a move was refused."""
    if status.state is not MoveState.REFUSED:
        return status
    message = cut_text(f"{REFUSED}{status.message or ''}")
    return msgspec.structs.replace(status, state=MoveState.ROLLED_BACK, message=message)


def message_of(move: Transaction) -> str:
    """Return what people read: why it is stuck, where it is, else what befell it last."""
    return f"{STUCK}{move.stuck}" if move.stuck and move.in_flight else move.note


def _incarnation(move: Transaction, replica: Replica | None) -> str | None:
    """Return which pod is to be evicted, or, from Restoring on, which one was started."""
    if move.state in UNTOUCHED_STATES:
        return next((each.incarnation for each in move.witnesses.values()), None)
    if move.state is TransactionState.LEAVING:
        return move.ending.get(move.replica) or (None if replica is None else replica.incarnation)
    if replica is not None and replica.incarnation is None and move.state is TransactionState.VERIFYING:
        return replica.former  # it is missing for a moment, and its owner starts it again
    return None if replica is None else replica.incarnation


def _text(move: Transaction, known: dict[str, Replica]) -> str | None:
    """Return the whole of it as text; None where that is too long: its fields have all that is needed."""
    text = msgspec.json.encode(to_placed(move, known)).decode()
    return text if len(text) <= RECORD_CHARACTERS else None
