"""A move as its Migration has it, read. Pure.

It is read from the text beside the fields, which has the whole of it; where a server with the first schema
has dropped that, from the fields.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.objects.names import Name, namespace_of
from specon_manager.backends.kube.records.decoding import Problem, read_fields, seconds_of
from specon_manager.backends.kube.records.external import REFUSED, MoveState, move_state, state_of_move
from specon_manager.backends.kube.records.migration_status import (
    EVICTED_POD,
    LEAVES,
    MOVE_LABEL,
    STUCK,
    MigrationStatus,
)
from specon_manager.backends.kube.records.records import (
    ReplicaRecord,
    checkpoint_of,
    is_job,
    is_replica,
    metadata_of,
    part_of,
    problem_of,
    with_record,
)
from specon_manager.backends.kube.records.transaction_text import (
    Member,
    Placed,
    member_of,
    objection,
    transaction_of,
)
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.model.cluster import Leaving, Phase, Replica, job_of
from specon_manager.model.transactions import (
    ASKING_STATES,
    UNTOUCHED_STATES,
    Kind,
    Transaction,
    TransactionState,
    Witness,
)

_LONGEST_NAMED: Final = 253 + 1 + 64
_OWN: Final = re.compile(r"move-[0-9]{1,15}|kueue-[0-9a-f]{12}-[0-9]{1,15}")
"""Ids of moves that nobody made an object for: those of policies, and the saves before Kueue preempts."""
_ASKED_AGAIN: Final = re.compile(r"[.:]([1-9][0-9]{0,3})")
_MOST_TARGETS: Final = 1024
"""Nodes to which a job may be asked to go."""


class Migrated(Struct, frozen=True, kw_only=True):
    """What a Migration says; `transaction` is None where that is not enough for one."""

    name: Name
    uid: str
    version: str
    """Its resourceVersion."""
    ours: bool
    """Whether the manager made it, and nobody asked for it."""
    created_at: float
    status: MigrationStatus
    replica: str | None
    job: str = ""
    """The job that is to move as a whole; empty where one replica is named."""
    targets: tuple[str, ...] = ()
    """The nodes to which it may go."""
    leave: str = ""
    """The node that the replica is to leave."""
    evicted: str = ""
    """NAME/UID of the pod whose eviction it was."""
    transaction: Transaction | None
    members: tuple[Member, ...] = ()
    """Where its replicas stand, by name; while it is in flight."""
    broken: str = ""
    """Why a move in flight cannot go on; empty where it can."""
    spec: Object = {}

    @property
    def about(self) -> str:
        """What it is about: the replica that it names, else the job; empty for none."""
        return self.replica or self.job


def stuck_of(status: MigrationStatus) -> str:
    """Return why a move in flight is stuck, of what people read; empty where it is not."""
    message = status.message or ""
    return message.removeprefix(STUCK) if message.startswith(STUCK) else ""


def read_migration(item: Object) -> tuple[Migrated, list[Problem]]:
    """Return what a Migration says, and which of its fields make no sense."""
    name, created_at = metadata_of(item)
    metadata, spec = part_of(item, "metadata"), part_of(item, "spec")
    labels = metadata.get("labels")
    label = labels.get(MOVE_LABEL) if isinstance(labels, dict) else None
    if not isinstance(label, str) or _OWN.fullmatch(label) is None:
        label = None
    status, wrong = read_fields(MigrationStatus, item.get("status"), at="status")
    replica = status.replica or spec.get("replica")
    if not isinstance(replica, str) or not is_replica(replica) or namespace_of(replica) != name.namespace:
        if replica is not None:
            wrong["replica"] = f"{replica!r} is no replica of the namespace {name.namespace}"
        replica = None
    job = status.job or spec.get("job") or ""
    if not isinstance(job, str) or not is_job(job) or namespace_of(job) != name.namespace:
        if job:
            wrong["job"] = f"{job!r} is no job of the namespace {name.namespace}"
        job = ""
    # Its id is the object's own, by label or name: nobody can rename a move by a look-alike.
    called = label or str(name)
    apart = status.job is not None
    move, members, broken = (None, (), "") if apart else _move(status, replica, called, created_at, wrong)
    read = Migrated(
        name=name,
        uid=str(metadata.get("uid") or ""),
        version=str(metadata.get("resourceVersion") or ""),
        ours=label is not None,
        created_at=created_at,
        status=status,
        replica=replica,
        job=job,
        targets=_targets(spec.get("targets")),
        leave=_read_annotation(metadata, LEAVES),
        evicted=_read_annotation(metadata, EVICTED_POD),
        transaction=move,
        members=members,
        broken=broken,
        spec=spec,
    )
    return read, [problem_of(MIGRATIONS.kind, name, field, text) for field, text in sorted(wrong.items())]


def _read_annotation(metadata: Object, key: str) -> str:
    """Return a name that an annotation gives; empty where it gives none."""
    annotations = metadata.get("annotations")
    found = annotations.get(key) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) and len(found) <= _LONGEST_NAMED else ""


def _targets(given: object) -> tuple[str, ...]:
    """Return the nodes that are named, each once."""
    nodes = [each for each in given if isinstance(each, str) and each] if isinstance(given, list) else []
    return tuple(dict.fromkeys(nodes[:_MOST_TARGETS]))


def _move(
    status: MigrationStatus, replica: str | None, called: str, created_at: float, wrong: dict[str, str]
) -> tuple[Transaction | None, tuple[Member, ...], str]:
    """Return the move that the status records, where its replicas stand, and why it cannot go on.

    The text counts as long as it says what the fields say: somebody may have edited those, or a manager of
    version 0.1 have written an older text's object.
    """
    told = _of_fields(status, replica, called, created_at)
    if told is None:
        return None, (), ""
    if status.transaction is not None:
        try:
            placed = msgspec.json.decode(status.transaction, type=Placed)
            move = transaction_of(told.job, placed)
        except (ValueError, msgspec.ValidationError, RecursionError) as error:
            wrong["status.transaction"] = str(error)[:200]
        else:
            if _outline(move) == _outline(told):
                broken = (objection(move, placed) or "") if move.in_flight else ""
                return move, placed.members, broken
            wrong["status.transaction"] = "it contradicts the other fields"
    if not told.in_flight:
        return told, (), ""
    return told, (_member(status, told),), _objection(told, status)


def _outline(move: Transaction) -> tuple[object, ...]:
    """Return what the text and the fields have in common, whatever a schema may drop."""
    return move.id, move.kind, move_state(move.state), move.replica, move.source, move.target, move.attempt


def _of_fields(
    status: MigrationStatus, replica: str | None, called: str, created_at: float
) -> Transaction | None:
    """Return the move as its fields have it, or None where one is missing that it cannot be without."""
    if replica is None or status.state is None or status.source is None or status.target is None:
        return None
    state, note, stuck = state_of_move(status.state), status.message or "", ""
    if status.state is MoveState.ROLLED_BACK and note.startswith(REFUSED):
        state, note = TransactionState.REFUSED, note.removeprefix(REFUSED)
    elif note.startswith(STUCK):
        note, stuck = "", note.removeprefix(STUCK)
    untouched = state in UNTOUCHED_STATES
    leaving = state is TransactionState.LEAVING
    again = _ASKED_AGAIN.fullmatch((status.id or "").removeprefix(called))
    return Transaction(
        id=called,
        kind=Kind.MOVE,
        job=job_of(replica),
        before={replica: status.source},
        after={replica: status.target},
        policy=status.policy or "",
        purpose=status.purpose or "",
        reason=status.reason or "",
        state=state,
        proposed_at=seconds_of(status.proposed_at) or created_at,
        deadline=seconds_of(status.deadline) or 0.0,
        attempt=status.attempt or 1,
        witnesses={replica: _witness(status, asking=state in ASKING_STATES, untouched=untouched)},
        held=() if state is TransactionState.PROPOSED else (replica,),
        asks=1 if again is None else int(again[1]),
        ending={replica: status.incarnation or ""} if leaving else {},
        stuck=stuck,
        changing_at=seconds_of(status.evicted_at),
        gone_at=seconds_of(status.gone_at),
        running_at=seconds_of(status.restarted_at),
        ended_at=seconds_of(status.ended_at),
        note=note,
    )


def _witness(status: MigrationStatus, *, asking: bool, untouched: bool) -> Witness:
    """Return whose checkpoint permits the move; later on the pod that was asked is the former one."""
    record = status.record or ReplicaRecord()
    stays = untouched or status.gone_at is None
    evicted_at = seconds_of(status.evicted_at)
    return Witness(
        incarnation=status.incarnation if stays else record.former_incarnation,
        checkpoint=checkpoint_of(status.checkpoint),
        # When it was verified is not among the fields; the eviction was ordered right after that.
        checkpoint_at=None if status.checkpoint is None else evicted_at,
        answered=not (asking or untouched),
        last_step=status.last_step,
        last_step_at=seconds_of(status.last_step_at),
        first_step=status.first_step,
        resumed_from=status.resumed_from,
        downtime=status.downtime_seconds,
        steps_lost=status.steps_lost,
    )


def _member(status: MigrationStatus, move: Transaction) -> Member:
    """Return where the replica stands while its move is in that state."""
    known = with_record(Replica(name=move.replica, job=move.job), status.record or ReplicaRecord())
    runs = {
        **dict.fromkeys(UNTOUCHED_STATES, move.source),
        # The second time it is evicted where the first attempt started it.
        TransactionState.LEAVING: move.source if move.attempt == 1 else move.target,
        TransactionState.VERIFYING: move.destination,
    }
    node, incarnation = runs.get(move.state), status.incarnation
    if known.phase is Phase.RUNNING and known.incarnation == incarnation and node is not None:
        node = known.node  # where its scheduler put it
    if node is not None and incarnation is not None:
        there = msgspec.structs.replace(known, phase=Phase.RUNNING, node=node, incarnation=incarnation)
    else:
        where = move.destination if node is None else node
        starts = max(1, known.starts)
        there = msgspec.structs.replace(
            known, phase=Phase.STARTING, node=where, incarnation=None, starts=starts
        )
    if move.state is TransactionState.LEAVING:
        told = Leaving(purpose="restart", since=0.0, deadline=move.deadline, reason=move.id)
        there = msgspec.structs.replace(there, leaving=told)
    return member_of(there, move)


def _objection(move: Transaction, status: MigrationStatus) -> str:
    """Return what a move in that state cannot be without, by its fields; empty where it is whole."""
    if not move.source:
        return "its status has no source"
    if not move.target:
        return "its status has no target"
    needs_one = move.state in UNTOUCHED_STATES or move.state is TransactionState.VERIFYING
    if needs_one and status.incarnation is None:
        return f"its status has no incarnation, which a move that is {status.state} has"
    if move.state is TransactionState.LEAVING and move.attempt == 1 and status.incarnation is None:
        return "its status has no incarnation to evict"
    if status.checkpoint is not None and checkpoint_of(status.checkpoint).digest is None:  # type: ignore[union-attr]
        return "its checkpoint has no digest"
    return ""
