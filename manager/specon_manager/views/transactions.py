"""Transactions, and requests for them, as rows: one type for every screen, list and program."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.gang import is_gang
from specon_manager.core.state import State
from specon_manager.core.transaction.members import workers
from specon_manager.model.cluster import job_of
from specon_manager.model.transactions import FINAL_STATES, Kind, Request, Transaction, TransactionState
from specon_manager.views.awaited import describe_wait
from specon_manager.views.names import job_label, list_names, replica_label
from specon_manager.views.times import iso
from specon_manager.views.words import ASKED, QUEUED, word_of_state
from specon_sidecar.counts import format_count

_NODES: Final = 4  # that are named of a job that moves
_UNBEGUN: Final = frozenset({ASKED, QUEUED})


class Way(Struct, frozen=True, kw_only=True):
    """From where to where one replica of a job goes that is moved as a whole; None is not known."""

    replica: str
    source: str | None
    target: str | None


class TransactionRow(Struct, frozen=True, kw_only=True):
    """A transaction, or a request for one, as people and programs see it. Times are ISO 8601 in UTC."""

    id: str
    kind: str
    job: str
    replica: str | None = None
    """Of a move of one replica; None where it is about the job as a whole."""
    label: str = ""
    """What the replica, or the job, is called."""
    what: str = ""
    """What it changes, in a few characters: `node-0 -> node-1`, `all 2 replicas: node-0 -> node-1, node-2`,
    `scale-in 4 -> 2`."""
    state: str
    word: str = ""
    """The state in plain English."""
    source: str | None = None
    target: str | None = None
    ways: tuple[Way, ...] = ()
    """Of a move of a whole job: where each of its replicas goes, by name; of a request none."""
    workers_before: int = 0
    workers_after: int = 0
    restart: bool = False
    """Whether all that it is about ends before any of it starts."""
    policy: str = ""
    purpose: str = ""
    reason: str = ""
    note: str = ""
    """Why it ended as it did, or what befell it last."""
    attempt: int = 1
    """2: it goes back."""
    stuck: str = ""
    """Why it cannot come to an end; empty where it can."""
    awaited: str = ""
    """What it waits for, in words; empty where it has ended."""
    deadline: str | None = None
    """When the present state is overdue."""
    beneficiary: str | None = None
    """The job for which room is made."""
    checkpoint_step: int | None = None
    checkpoint_read: str | None = None
    """How much of it was read when it was verified: `whole` or `sampled`."""
    first_step_after: int | None = None
    proposed_at: str | None = None
    ended_at: str | None = None
    downtime_seconds: float | None = None
    steps_lost: int | None = None
    killed: int = 0
    """How many replicas did not end within their grace period, and were killed."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in _FINAL

    @property
    def begun(self) -> bool:
        """Whether it is more than a request."""
        return self.state not in _UNBEGUN

    @property
    def in_flight(self) -> bool:
        """Whether it has begun and not ended."""
        return self.begun and not self.ended

    @property
    def succeeded(self) -> bool:
        """Whether the goal has been reached."""
        return self.state == str(TransactionState.SUCCEEDED)

    @property
    def is_move(self) -> bool:
        """Whether it is a move; anything else changes a job as a whole."""
        return self.kind == str(Kind.MOVE)

    @property
    def destination(self) -> str | None:
        """Of a move, where it goes on its present way."""
        return self.target if self.attempt == 1 else self.source

    def destination_of(self, replica: str) -> str | None:
        """Of a move, where one of its replicas goes on its present way."""
        for way in self.ways:
            if way.replica == replica:
                return way.target if self.attempt == 1 else way.source
        return self.destination


_FINAL: Final = frozenset(str(state) for state in FINAL_STATES)


def row_of(transaction: Transaction, state: State, *, name: str | None = None) -> TransactionRow:
    """Return a transaction as a row, under its id or another name."""
    flying = transaction.in_flight
    moves = transaction.kind is Kind.MOVE
    alone = moves and not transaction.whole
    gang = len(transaction.concerned) if moves and not alone else None
    source, target = _join(nodes_of(transaction.before)), _join(nodes_of(transaction.after))
    before, after = workers(transaction.before), workers(transaction.after)
    return TransactionRow(
        id=transaction.id if name is None else name,
        kind=str(transaction.kind),
        job=transaction.job,
        replica=transaction.replica if alone else None,
        label=replica_label(state, transaction.replica) if alone else job_label(transaction.job),
        what=what(transaction.kind, source, target, before, after, gang=gang),
        state=str(transaction.state),
        word=word_of_state(transaction.state),
        source=source,
        target=target,
        ways=() if gang is None else _ways(transaction),
        workers_before=before,
        workers_after=after,
        restart=transaction.restart,
        policy=transaction.policy,
        purpose=transaction.purpose,
        reason=transaction.reason,
        note=transaction.note,
        attempt=transaction.attempt,
        stuck=transaction.stuck if flying else "",
        awaited=describe_wait(transaction, state) if flying else "",
        deadline=iso(transaction.deadline) if flying else None,
        beneficiary=transaction.beneficiary or None,
        checkpoint_step=None if transaction.checkpoint is None else transaction.checkpoint.step,
        checkpoint_read=None if transaction.checkpoint is None else transaction.checkpoint.read,
        first_step_after=transaction.first_step_after,
        proposed_at=iso(transaction.proposed_at),
        ended_at=iso(transaction.ended_at),
        downtime_seconds=None if transaction.downtime is None else round(transaction.downtime, 3),
        steps_lost=transaction.steps_lost,
        killed=len(transaction.killed),
    )


def row_of_request(request: Request, state: State, *, name: str | None = None) -> TransactionRow:
    """Return a requested move that waits for the transactions in flight."""
    targets = request.targets if request.job else () if request.target is None else (request.target,)
    row = row_of_wish(state, request.job or job_of(request.replica), request.replica or None, targets)
    return msgspec.structs.replace(
        row,
        id=request.id if name is None else name,
        state=QUEUED,
        word=word_of_state(QUEUED),
        reason=request.reason,
        awaited=request.waits_for,
        proposed_at=iso(request.at),
    )


def row_of_wish(state: State, job: str, replica: str | None, targets: Collection[str]) -> TransactionRow:
    """Return a move that somebody wants, before anything became of it; without a replica, of a whole job.

    One replica of a job that trains as one stands for the job.
    """
    known = state.jobs.get(job)
    if known is not None and is_gang(state, known):
        replica = None
    names = () if known is None else known.spec.replicas
    found = (state.replicas.get(name) for name in (names if replica is None else (replica,)))
    members = {each.name: each.node or "" for each in found if each is not None and each.active}
    source, target = _join(nodes_of(members)), _join(targets)
    return TransactionRow(
        id="",
        kind=str(Kind.MOVE),
        job=job,
        replica=replica,
        label=job_label(job) if replica is None else replica_label(state, replica),
        what=what(Kind.MOVE, source, target, 0, 0, gang=len(members) if replica is None else None),
        state="",
        source=source,
        target=target,
    )


def rows_of(state: State) -> tuple[TransactionRow, ...]:
    """Return every transaction and request that a state has, in the order in which they were proposed."""
    known = (*state.history, *state.transactions.values())
    found = [(each.proposed_at, len(each.id), each.id, row_of(each, state)) for each in known]
    found += [
        (each.at, len(each.id), each.id, row_of_request(each, state)) for each in state.requests.values()
    ]
    return tuple(row for *_, row in sorted(found, key=lambda item: item[:3]))


def choose_rows(
    rows: Iterable[TransactionRow],
    *,
    moves: bool | None = None,
    job: str | None = None,
    namespace: str | None = None,
    ended: bool = True,
) -> list[TransactionRow]:
    """Return the moves, the other ones, or (None) all; of a job, of a namespace; perhaps those not ended."""
    home = None if namespace is None else f"{namespace}/"
    return [
        row
        for row in rows
        if (moves is None or row.is_move is moves)
        and (job is None or row.job == job)
        and (home is None or row.job.startswith(home))
        and (ended or not row.ended)
    ]


def find_ended(before: State, after: State) -> tuple[Transaction, ...]:
    """Return the transactions that ended from one state to a later one."""
    if after.history is before.history:
        return ()
    known = {each.id for each in before.history}
    return tuple(each for each in after.history if each.id not in known)


def news(known: Mapping[str, TransactionRow], rows: Iterable[TransactionRow]) -> list[TransactionRow]:
    """Return the rows that are new, or that have come further than is known."""
    return [row for row in rows if row.id not in known or _stands(known[row.id]) != _stands(row)]


def nodes_of(placement: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes of a placement, each once, in the order of the replicas."""
    return tuple(dict.fromkeys(node for _, node in sorted(placement.items()) if node))


def side_words(nodes: str | None) -> str:
    """Return the nodes that a row names, the first of them; ? where it names none."""
    return list_names([each.strip() for each in nodes.split(",")], _NODES) if nodes else "?"


def what(
    kind: str, source: str | None, target: str | None, before: int, after: int, *, gang: int | None = None
) -> str:
    """Return what a transaction changes, in a few characters.

    `gang` is how many replicas a job has that is moved as a whole, 0 where nobody knows; None: it is not.
    """
    if kind == str(Kind.MOVE) and gang is None:
        return f"{source or '?'} -> {target or '?'}"
    if kind == str(Kind.MOVE):
        way = " -> ".join(side_words(side) for side in (source, target))
        return f"all {f'{gang} ' * bool(gang)}replicas: {way}"
    if kind == str(Kind.ADMIT):
        return f"{kind} {format_count(after, 'worker')}"
    return f"{kind} {before} -> {after}" if kind in {str(Kind.SCALE_IN), str(Kind.SCALE_OUT)} else kind


def _join(nodes: Iterable[str]) -> str | None:
    return ",".join(nodes) or None


def _stands(row: TransactionRow) -> tuple[str, int, bool]:
    return row.state, row.attempt, bool(row.stuck)


def _ways(move: Transaction) -> tuple[Way, ...]:
    return tuple(
        Way(replica=name, source=move.before.get(name) or None, target=move.after.get(name) or None)
        for name in move.concerned
    )
