"""The manager's state made again from the custom resources. Pure.

What pods and jobs say comes afterwards, as events, and wins. Until then:

- A replica is as its TrainingProgress has it, or as the record in one of its Migrations where that is newer:
  the first is written a little late, the second before anything is ordered.
- A transaction whose record is whole and not over is in flight, and its replicas stand where that record has
  them, whatever else is written: TrainingProgress objects do not know which were told to end.
- One that is not over and makes no sense is closed, and nothing is ordered because of it. Where it is known
  that nothing was told to end it is RolledBack; else it is Failed, and its replicas are their owner's, who is
  told so: what lives is believed, and nothing is started beside it. So there are never two.
- Of two that are about the same replica one goes on: a move before a change of the whole job, of two moves
  the one that came furthest, of equals the one that began last.

The facts about jobs come from the TrainingJobs: see `restored_jobs`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.decoding import Problem
from specon_manager.backends.kube.records.external import MoveState, state_of_move
from specon_manager.backends.kube.records.job_record import Recorded
from specon_manager.backends.kube.records.migration_record import Migrated
from specon_manager.backends.kube.records.pins import is_queued
from specon_manager.backends.kube.records.progress_record import Progressed
from specon_manager.backends.kube.records.records import to_measured, with_record
from specon_manager.backends.kube.records.restored_jobs import (
    WholeRestored,
    jobs_of,
    restore_whole,
)
from specon_manager.backends.kube.records.transaction_text import Member, note_told_to_end, with_member
from specon_manager.backends.kube.transport.resources import MIGRATIONS
from specon_manager.core.gang import group_replicas
from specon_manager.core.state import HISTORY, Measured, State
from specon_manager.core.transaction.ends import remember_move
from specon_manager.core.transaction.promise import not_resumed
from specon_manager.model.cluster import Node, Phase, Replica, index_of, job_of, role_of
from specon_manager.model.resources import NOTHING
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import (
    UNTOUCHED_STATES,
    Kind,
    Request,
    Transaction,
    TransactionState,
)

_COURSE: Final = tuple(TransactionState)
_ROUNDED: Final = 1e-3
"""Seconds; by less a time that was written down may be another one than it was."""
_PATIENCE: Final = 60.0
"""Seconds until overdue work is looked at: it is ordered again before that."""


class Closing(Struct, frozen=True, kw_only=True):
    """A Migration that is to be closed because it cannot go on."""

    name: Name
    state: MoveState
    message: str


class Restored(Struct, frozen=True, kw_only=True):
    """A state, and the mistakes found on the way."""

    state: State
    open: Mapping[str, Migrated]
    """The Migrations of the moves in flight, by the id of the move."""
    closings: tuple[Closing, ...]
    whole: WholeRestored
    """What the TrainingJobs told, with the closed transactions."""
    problems: tuple[Problem, ...]
    last_at: float
    """The latest time that was written down, seconds since the epoch: the clock must not begin before it."""


def restore(
    progresses: Iterable[Progressed],
    migrations: Iterable[Migrated],
    settings: Settings,
    now: float,
    *,
    recorded: Iterable[Recorded] = (),
) -> Restored:
    """Return the state that the custom resources tell of."""
    recorded = list(recorded)
    answered = {over.id for job in recorded for over in (*job.history, job.transaction) if over is not None}
    found = [
        _apart(each) if str(each.name) in answered else each
        for each in sorted(migrations, key=lambda each: (each.created_at, str(each.name)))
    ]
    known = {each.replica.name: each for each in progresses}
    written = {name: each.updated_at for name, each in known.items()}
    ended = _list_ended(found)
    replicas = _replicas(known, found, ended, written, now)
    kept, closings, problems = _open_moves(found)
    moving = {name for each in kept.values() for name in _move_of(each).concerned}
    whole = restore_whole(recorded, moving, now)
    replicas = _with_gang_moves(replicas, whole.history, written, settings)
    lost = {closed.name for closed in closings if closed.state is MoveState.FAILED}
    given_up = {each.replica for each in found if each.name in lost and each.replica} - moving
    for name in given_up:
        replicas[name] = _to_run(replicas.get(name) or _unknown(name))
    transactions = {each.id: each for each in map(_move_of, kept.values())}
    transactions |= {each.id: each for each in whole.transactions.values()}
    transactions = {name: _patient(each, now) for name, each in transactions.items()}
    jobs, replicas = jobs_of(
        whole, replicas, written, apart=moving | given_up, known=known, settings=settings, now=now
    )
    for members, flying in (
        *((each.members, transactions[name]) for name, each in kept.items()),
        *((whole.members[job], transactions[each.id]) for job, each in whole.transactions.items()),
    ):
        replicas |= _restore_members(replicas, flying, members, now)
    for name in given_up:
        job = jobs[job_of(name)]
        jobs[job.name] = msgspec.structs.replace(job, release_due=now)
    state = State(
        settings=settings,
        nodes=_nodes_of(transactions.values()),
        jobs=jobs,
        job_count=len(jobs),
        replicas=_holding(replicas, now),
        transactions=transactions,
        transaction_count=max(whole.count, *map(_number, found), 0),
        history=_history(ended, whole.history, transactions),
        measured=_restore_measured(ended, recorded),
        requests=_requests(found),
    )
    for name in jobs:
        state = group_replicas(state, name, now, occupied=False)
    at = (each.updated_at for each in whole.by_job.values())
    return Restored(
        state=state.flatten(),
        open=kept,
        closings=closings,
        whole=whole,
        problems=(*problems, *whole.problems),
        last_at=max((*written.values(), *map(_find_update, found), *at), default=0.0),
    )


# -- replicas ------------------------------------------------------------------------------------


def _replicas(
    known: Mapping[str, Progressed],
    found: list[Migrated],
    ended: list[Migrated],
    written: dict[str, float],
    now: float,
) -> dict[str, Replica]:
    """Return the replicas as they were written down last; `written` says when, and is brought up to date."""
    replicas = {name: _sound(each.replica, now) for name, each in known.items()}
    for each in sorted(found, key=_find_update):
        # A record that is newer than the TrainingProgress, which is written in the background.
        if each.replica is None or each.status.record is None:
            continue
        if _find_update(each) > written.get(each.replica, 0.0):
            known_one = replicas.get(each.replica) or _unknown(each.replica)
            replicas[each.replica] = _sound(with_record(known_one, each.status.record), now)
            written[each.replica] = _find_update(each)
    for each in ended:
        if each.replica in replicas:
            replicas[each.replica] = _with_past(replicas[each.replica], each)
    return replicas


def _with_past(replica: Replica, over: Migrated) -> Replica:
    """Return the replica with what a schema of version 0.1 did not keep of it, from one of its former moves.

    Called for each of them, oldest first; the record of the replica itself counts more.
    """
    move, record = over.transaction, over.status.record
    if move is None or record is None or record.disrupted is not None:
        return replica
    if move.gone_at is not None:
        replica = msgspec.structs.replace(replica, disrupted=replica.disrupted + 1)
    witness = move.witnesses.get(replica.name)
    first, saved = (None, None) if witness is None else (witness.first_step, witness.checkpoint)
    anew = move.state is TransactionState.FAILED and over.status.attempt == 1
    if anew and first is not None and saved is not None and first < saved.step:
        return msgspec.structs.replace(replica, unproven=move.note)
    succeeded = move.state is TransactionState.SUCCEEDED
    return msgspec.structs.replace(replica, unproven="") if succeeded else replica


def _with_gang_moves(
    replicas: Mapping[str, Replica],
    history: Iterable[Transaction],
    written: Mapping[str, float],
    settings: Settings,
) -> dict[str, Replica]:
    """Return the replicas with what they remember of moves of their whole jobs, oldest first.

    That is written with the job before its replicas are written down, in the background.
    """
    found = dict(replicas)
    for over in history:
        if over.kind is not Kind.MOVE or over.ended_at is None:
            continue
        anew = any(not_resumed(name, witness) for name, witness in over.witnesses.items())
        unproven = over.note if anew and over.state is TransactionState.FAILED else ""
        for name in over.concerned:
            if over.ended_at > written.get(name, 0.0) + _ROUNDED:
                known = found.get(name) or _unknown(name)
                found[name] = remember_move(known, over, settings.budgets, over.ended_at, unproven=unproven)
    return found


def _unknown(name: str) -> Replica:
    return Replica(name=name, job=job_of(name), role=role_of(name), index=index_of(name), phase=Phase.AWAITED)


def _sound(replica: Replica, now: float) -> Replica:
    """Return the replica without what contradicts itself: what of it is true is for the pods to say."""
    if replica.phase is Phase.RUNNING and replica.incarnation is not None and replica.node is not None:
        return msgspec.structs.replace(replica, ended_at=None, deadline=None)
    if replica.ended:
        ended_at = now if replica.ended_at is None else replica.ended_at
        return msgspec.structs.replace(replica, incarnation=None, ended_at=ended_at, deadline=None)
    return _to_run(replica)


def _to_run(replica: Replica) -> Replica:
    """Return the replica as one that its owner is to run, wherever its scheduler puts it."""
    return msgspec.structs.replace(
        replica, phase=Phase.AWAITED, incarnation=None, ended_at=None, deadline=None
    )


def _restore_members(
    replicas: Mapping[str, Replica], transaction: Transaction, members: tuple[Member, ...], now: float
) -> dict[str, Replica]:
    """Return the replicas of a transaction as its record has them, and what has to end with them."""
    beside = (replicas.get(name) for name in transaction.ending.keys() - set(transaction.concerned))
    return {
        name: with_member(replicas.get(name) or _unknown(name), transaction, member, now)
        for name, member in zip(transaction.concerned, members, strict=True)
    } | {
        each.name: msgspec.structs.replace(each, leaving=note_told_to_end(each, transaction, now))
        for each in beside
        if each is not None and each.active
    }


def _holding(replicas: Mapping[str, Replica], now: float) -> dict[str, Replica]:
    """Let missing replicas keep their room while another part of their job is there, as before."""
    active = {each.job for each in replicas.values() if each.active}
    return {
        name: msgspec.structs.replace(each, lost_at=now, holds=True)
        if each.phase is Phase.AWAITED and each.node is not None and each.job in active
        else each
        for name, each in replicas.items()
    }


def _apart(each: Migrated) -> Migrated:
    """Return a Migration whose move a TrainingJob records: it tells of that, whatever its schema has kept."""
    status = msgspec.structs.replace(each.status, job=each.status.job or each.job or str(each.name))
    return msgspec.structs.replace(each, status=status, transaction=None, members=(), broken="")


# -- moves ---------------------------------------------------------------------------------------


def _find_update(each: Migrated) -> float:
    at = each.status.updated_at
    return 0.0 if at is None else at.timestamp()


def _move_of(each: Migrated) -> Transaction:
    assert each.transaction is not None
    return each.transaction


def _list_ended(found: list[Migrated]) -> list[Migrated]:
    """Return the Migrations of moves that ended, in the order in which they did."""
    ended = [each for each in found if each.transaction is not None and not each.transaction.in_flight]

    def at(each: Migrated) -> tuple[float, str]:
        ended_at = _move_of(each).ended_at
        return _find_update(each) if ended_at is None else ended_at, str(each.name)

    return sorted(ended, key=at)


def _number(each: Migrated) -> int:
    """Return the number of a move that the manager made, 0 for others; saves have a time instead."""
    called = each.transaction.id if each.transaction is not None else (each.status.id or "")
    if not each.ours or called.startswith("kueue-"):
        return 0
    number = (called or each.name.name).rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0  # noqa: PLR2004


def _open_moves(
    found: list[Migrated],
) -> tuple[dict[str, Migrated], tuple[Closing, ...], tuple[Problem, ...]]:
    """Return the moves in flight by id, and those closed instead."""
    kept: dict[str, Migrated] = {}
    closed: list[tuple[Migrated, str]] = []
    for each in found:
        move, status = each.transaction, each.status
        if (move is not None and not move.in_flight) or each.status.job is not None:
            continue
        if move is None:
            if not each.ours and status.state is None and status.manager is None:
                continue  # asked for, and not begun
            if status.state is None or not _is_over(status.state):
                closed.append((each, _why_unreadable(each)))
            continue
        if each.broken or move.id in kept:
            closed.append((each, each.broken or f"another Migration records {move.id}"))
            continue
        rival = next((n for n, other in kept.items() if _is_shared(_move_of(other), move)), None)
        if rival is not None:
            less, more = sorted((each, kept.pop(rival)), key=_read_progress)
            closed.append((less, f"{more.name} moves the same replica"))
            each = more  # noqa: PLW2901
        kept[_move_of(each).id] = each
    closings = tuple(
        Closing(name=each.name, state=_close_as(each), message=f"closed after a restart: {why}")
        for each, why in closed
    )
    problems = tuple(
        Problem(
            kind=MIGRATIONS.kind,
            namespace=each.name.namespace,
            name=each.name.name,
            field="status",
            text=f"{why}; it is closed as {_close_as(each)}",
        )
        for each, why in closed
    )
    return kept, closings, problems


def _is_over(told: MoveState) -> bool:
    return told in {MoveState.SUCCEEDED, MoveState.ROLLED_BACK, MoveState.FAILED, MoveState.REFUSED}


def _is_shared(one: Transaction, other: Transaction) -> bool:
    return not set(one.concerned).isdisjoint(other.concerned)


def _read_progress(each: Migrated) -> tuple[int, float, str]:
    move = _move_of(each)
    return _COURSE.index(move.state), move.proposed_at, str(each.name)


def _close_as(each: Migrated) -> MoveState:
    begun = each.status.state
    # Ours without a status was never begun: the status is written before anything is ordered.
    never = begun is None and each.ours and each.status.manager is None
    untouched = never or (begun is not None and state_of_move(begun) in UNTOUCHED_STATES)
    return MoveState.ROLLED_BACK if untouched else MoveState.FAILED


def _why_unreadable(each: Migrated) -> str:
    status = each.status
    if status.state is None and status.manager is None:
        return "it was not begun"
    fields = {
        "replica": each.replica,
        "state": status.state,
        "source": status.source,
        "target": status.target,
    }
    missing = [field for field, value in fields.items() if value is None]
    return f"its status has no usable {' and no '.join(missing)}"


def _requests(found: list[Migrated]) -> dict[str, Request]:
    """Return the moves that were asked for and wait for others, oldest first."""
    requests = {}
    for each in found:
        if not (each.replica or each.job) or not is_queued(each):
            continue
        target, reason, at = each.spec.get("target"), each.spec.get("reason"), each.status.proposed_at
        assert at is not None
        requests[str(each.name)] = Request(
            id=str(each.name),
            replica=each.replica or "",
            target=target if isinstance(target, str) and target else None,
            job="" if each.replica else each.job,
            targets=() if each.replica else each.targets,
            leave=each.leave if each.replica else "",
            reason=reason if isinstance(reason, str) and reason else "it was asked for",
            at=at.timestamp(),
        )
    return requests


# -- transactions in flight, and former ones -----------------------------------------------------


def _patient(transaction: Transaction, now: float) -> Transaction:
    """Return the transaction with time for its repeated orders, where its own has passed."""
    overdue = transaction.deadline <= now
    return msgspec.structs.replace(transaction, deadline=now + _PATIENCE) if overdue else transaction


def _nodes_of(transactions: Collection[Transaction]) -> dict[str, Node]:
    """Return the nodes of transactions in flight, which are told again: none is taken for lost before."""
    named = {node for each in transactions for node in (*each.before.values(), *each.after.values()) if node}
    return {name: Node(name=name, capacity=NOTHING) for name in sorted(named)}


def _history(
    moves: list[Migrated], whole: Iterable[Transaction], flying: Collection[str]
) -> tuple[Transaction, ...]:
    """Return what ended, oldest first, each id once: a copy of an object is no other transaction."""
    history: dict[str, Transaction] = {}
    for each in (*map(_move_of, moves), *whole):
        if each.id not in flying:
            history.setdefault(each.id, each)
    ordered = sorted(history.values(), key=lambda each: (each.ended_at or 0.0, each.id))
    return tuple(ordered[-HISTORY:])


def _restore_measured(ended: list[Migrated], recorded: Iterable[Recorded]) -> Measured:
    """Return the means that were written with the move that ended last: those of the most moves."""
    last = next((each.status.averages for each in reversed(ended) if each.status.averages), None)
    of_jobs = (job.text.averages for job in recorded if job.text is not None)
    found = [each for each in (last, *of_jobs) if each is not None]
    return to_measured(max(found, key=lambda each: each.moves)) if found else Measured()
