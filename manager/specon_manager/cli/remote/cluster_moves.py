"""Migrations as rows: moves on record, requests, and the answers to requests for whole jobs."""

from collections.abc import Mapping
from typing import Final

import msgspec

from specon_manager.backends.kube.records.migration_record import Migrated, stuck_of
from specon_manager.backends.kube.records.queued import WAITS
from specon_manager.core.state import State
from specon_manager.model.cluster import job_of
from specon_manager.model.transactions import Kind, TransactionState
from specon_manager.views.times import iso
from specon_manager.views.transactions import TransactionRow, row_of, row_of_wish, what
from specon_manager.views.words import ASKED, QUEUED, word_of_state

_STATES: Final[Mapping[str, str]] = {
    "Evicting": str(TransactionState.LEAVING),
    "Restoring": str(TransactionState.COMING),
}
"""What states of a Migration are called that have another name inside."""


def row_of_migration(migration: Migrated, known: State) -> TransactionRow:
    """Return the move that a Migration records, or what it asks for and was answered."""
    name, status = str(migration.name), migration.status
    if migration.transaction is not None:
        return row_of(migration.transaction, known, name=name)
    at = None if status.proposed_at is None else status.proposed_at.timestamp()
    state = _STATES.get(str(status.state), str(status.state))
    if status.state is None:
        state = QUEUED if status.message else ASKED
    waits = state == QUEUED
    return msgspec.structs.replace(
        _wish(migration, known) if status.job is None else _answer(migration, status.job, known),
        id=name,
        state=state,
        word=word_of_state(state),
        reason=status.reason or str(migration.spec.get("reason") or ""),
        note="" if waits or stuck_of(status) else status.message or "",
        awaited=(status.message or "").removeprefix(WAITS) if waits else "",
        proposed_at=iso(at or migration.created_at),
        ended_at=None if status.ended_at is None else iso(status.ended_at.timestamp()),
    )


def _wish(migration: Migrated, known: State) -> TransactionRow:
    """Return what a Migration asks for, unchecked: its author may be anybody with that permission."""
    if migration.job:
        return row_of_wish(known, migration.job, None, migration.targets)
    spec = migration.spec
    replica, target = (
        migration.replica or str(spec.get("pod") or spec.get("replica") or ""),
        spec.get("target"),
    )
    return row_of_wish(known, job_of(replica), replica, (target,) if isinstance(target, str) else ())


def _answer(migration: Migrated, job: str, known: State) -> TransactionRow:
    """Return what a Migration says of the move of a whole job, whose record is elsewhere."""
    status, row = migration.status, row_of_wish(known, job, None, ())
    checkpoint, deadline, over = status.checkpoint, status.deadline, status.ended_at is not None
    return msgspec.structs.replace(
        row,
        what=what(str(Kind.MOVE), status.source, status.target, 0, 0, gang=0),
        source=status.source,
        target=status.target,
        policy=status.policy or "",
        purpose=status.purpose or "",
        attempt=status.attempt or 1,
        stuck="" if over else stuck_of(status),
        deadline=None if over or deadline is None else iso(deadline.timestamp()),
        checkpoint_step=None if checkpoint is None else checkpoint.step,
        checkpoint_read=None if checkpoint is None else checkpoint.read,
        first_step_after=status.first_step,
        downtime_seconds=status.downtime_seconds,
        steps_lost=status.steps_lost,
    )


def is_refused(row: TransactionRow) -> bool:
    """Whether it never began; a manager of version 0.1 calls that rolled back."""
    late = row.state == str(TransactionState.ROLLED_BACK) and row.ended_at == row.proposed_at
    return late or row.state == str(TransactionState.REFUSED)
