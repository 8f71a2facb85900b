"""What the present state of a transaction orders; the same again after a restart of the manager."""

from collections.abc import Iterable

from specon_manager.core.gang import gang_of
from specon_manager.core.state import State
from specon_manager.core.transaction import members
from specon_manager.core.transaction.table import HUNG_GRACE
from specon_manager.model.actions import (
    Action,
    EvictReplica,
    HoldRoom,
    PlaceJob,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.transactions import (
    ASKING_STATES,
    IN_PLACE,
    UNTOUCHED_STATES,
    Kind,
    Transaction,
    TransactionState,
)


def orders(state: State, transaction: Transaction) -> list[Action]:
    """Return the orders; every one may be carried out twice."""
    job = state.jobs[transaction.job]
    if transaction.state is TransactionState.PROPOSED:
        return _rooms_held(state, transaction)
    if transaction.state in ASKING_STATES:
        return _ask(state, transaction)
    if transaction.state not in {TransactionState.LEAVING, TransactionState.COMING}:
        return []
    if job.owned:
        nothing_new = transaction.state is TransactionState.COMING and not transaction.wanted
        return [] if nothing_new else [place_order(state, job, transaction)]
    if transaction.state is TransactionState.LEAVING:
        return evictions(state, transaction)
    return _start(state, job, transaction)


def place_order(state: State, job: Job, transaction: Transaction) -> PlaceJob:
    """Return the order for the owner of a job: which of its replicas are to run now, each on its node."""
    flying = {name: each for each in state.transactions_of(job.name) for name in each.concerned}
    placement: dict[str, str | None] = {}
    for name in transaction.concerned if transaction.whole else job.spec.replicas:
        if name not in state.replicas:
            continue
        node = _place(state.replicas[name], flying.get(name))
        if node is not None:
            placement[name] = node or None
    leaving = [each for each in state.transactions_of(job.name) if each.state is TransactionState.LEAVING]
    ending = {name: told for each in leaving for name, told in each.ending.items()}
    missing = {name: count for each in flying.values() for name, count in each.missing_sidecars.items()}
    fresh = [until for each in leaving if (until := fresh_until(state, each)) is not None]
    return PlaceJob(
        job=job.name,
        transaction=transaction.id,
        placement=placement,
        grace_seconds=_grace(job, transaction),
        reason=reason_of(transaction),
        ending=dict(sorted(ending.items())),
        fresh_until=min(fresh, default=None),
        gang=transaction.whole and transaction.kind in {Kind.MOVE, Kind.RESTART},
        missing_sidecars=dict(sorted(missing.items())),
    )


def release_order(state: State, job: Job, reason: str = "") -> PlaceJob:
    """Return the order for the owner of a job without a change in flight: it runs as its owner says."""
    found = (state.replicas[name] for name in job.spec.replicas)
    why = reason or "no change of it is in flight, and it does not wait to be admitted"
    return PlaceJob(
        job=job.name,
        transaction="",
        placement={each.name: None for each in found if each.active or each.phase is Phase.AWAITED},
        grace_seconds=job.spec.grace_seconds,
        reason=why,
    )


def evictions(state: State, transaction: Transaction) -> list[Action]:
    """Return the orders to end what has to go, of a job whose replicas the manager places."""
    return [
        EvictReplica(
            replica=each.name,
            incarnation=each.incarnation,
            grace_seconds=_grace(state.jobs[transaction.job], transaction),
            reason=reason_of(transaction),
            transaction=transaction.id,
            fresh_until=fresh_until(state, transaction),
        )
        for each in members.leavers(state, transaction)
    ]


def fresh_until(state: State, transaction: Transaction) -> float | None:
    """Return until when what permits the ends is fresh enough; None where nothing hangs on that.

    On the way back the running replicas have proven nothing, and earlier steps are saved. Once one is gone
    the rest has to go too: else it would wait for what cannot come, forever.
    """
    if transaction.attempt > 1 or not members.is_untouched(state, transaction):
        return None
    times = [witness.checkpoint_at for witness in transaction.witnesses.values()]
    known = [at for at in times if at is not None]
    return min(known) + state.settings.deadlines.checkpoint_age if known else None


def withdrawn(transaction: Transaction, *, release: bool = False) -> list[Action]:
    """Return that nobody waits for the checkpoints of a transaction any more.

    `release`: whether trainers that pause since they saved train on, for nobody is told to end. What may go
    keeps its pause, which ends by itself: its eviction comes in a few seconds.
    """
    if transaction.purpose in IN_PLACE and all(each.answered for each in transaction.witnesses.values()):
        release = False
    why = f"{transaction.id}: {transaction.state}"
    return [
        WithdrawRequest(id=transaction.request, replica=name, reason=why, release=release)
        for name in sorted(transaction.witnesses)
    ]


def room_released(transaction: Transaction, why: str, replicas: Iterable[str] | None = None) -> list[Action]:
    """Return that no room is held for a transaction any more, or none for these replicas of it."""
    if transaction.kind is not Kind.MOVE:
        return []
    # What landed where it ran before is moved no more, and that its room was given back may be forgotten.
    held = {*transaction.moved, *transaction.held}
    names = sorted(held if replicas is None else held & set(replicas))
    return [
        ReleaseRoom(transaction=transaction.id, replica=name, node=node, reason=f"{transaction.id}: {why}")
        for name in names
        if (node := transaction.after[name])
    ]


def reason_of(transaction: Transaction) -> str:
    """Return why something is ordered for a transaction, with its id."""
    return f"{transaction.id}: {transaction.note if transaction.attempt > 1 else transaction.reason}"


def _grace(job: Job, transaction: Transaction) -> float:
    """Return how long replicas may take to end, seconds."""
    seconds = job.spec.grace_seconds
    return min(seconds, HUNG_GRACE) if transaction.kind is Kind.RESTART else seconds


def _place(replica: Replica, transaction: Transaction | None) -> str | None:
    """Return where its owner is to run a replica now, "" for anywhere; None: it is not to run."""
    if transaction is None or transaction.state in UNTOUCHED_STATES:
        if replica.active:
            return replica.node or ""
        return "" if replica.phase is Phase.AWAITED else None
    if transaction.state is TransactionState.LEAVING and (
        transaction.restart or replica.name in transaction.ending
    ):
        return None
    return transaction.wanted.get(replica.name)


def _rooms_held(state: State, transaction: Transaction) -> list[Action]:
    return [
        HoldRoom(
            transaction=transaction.id,
            replica=name,
            node=node,
            requests=state.replicas[name].requests,
            reason=reason_of(transaction),
        )
        for name in transaction.moved
        if name not in transaction.held and (node := transaction.after[name])
    ]


def _ask(state: State, transaction: Transaction) -> list[Action]:
    seconds = state.settings.deadlines.pause
    why = f"{transaction.id} needs a checkpoint: {transaction.kind}, {transaction.reason}"
    return [
        RequestCheckpoint(
            id=transaction.request,
            transaction=transaction.id,
            replica=name,
            incarnation=witness.incarnation,
            deadline=transaction.deadline,
            reason=why,
            # What trains on while others come or go has nothing to lose.
            pause=seconds if _ends(transaction, name) else 0.0,
        )
        for name, witness in sorted(transaction.witnesses.items())
        if witness.incarnation is not None and not witness.answered
    ]


def _ends(transaction: Transaction, name: str) -> bool:
    """Whether the replica is to end once it has saved."""
    return transaction.restart or transaction.purpose in IN_PLACE or name not in _staying(transaction)


def _staying(transaction: Transaction) -> set[str]:
    return {name for name, node in transaction.before.items() if transaction.after.get(name) == node}


def _start(state: State, job: Job, transaction: Transaction) -> list[Action]:
    gang = gang_of(state, job) if transaction.whole else ()
    return [
        StartReplica(
            replica=each.name,
            start=each.starts,
            node=transaction.wanted[each.name] or None,
            template=job.spec.template,
            reason=reason_of(transaction),
            gang=gang,
        )
        for each in members.wanted_replicas(state, transaction)
        if each.phase is Phase.STARTING and not state.has_unwanted(each.name)
    ]
