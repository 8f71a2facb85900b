"""How a transaction ends: the room given back, the memory of its job and replicas, who waits again."""

from typing import Final

import msgspec

from specon_manager.core.restarts import await_owner
from specon_manager.core.state import HISTORY, Measured, State, Step
from specon_manager.core.transaction import members
from specon_manager.core.transaction.orders import place_order, release_order, room_released, withdrawn
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, Leaving, Phase, Replica
from specon_manager.model.settings import Budgets
from specon_manager.model.transactions import (
    ASKING_STATES,
    SAVED,
    UNTOUCHED_STATES,
    Kind,
    Transaction,
    TransactionState,
)

_DOUBLINGS: Final = 10  # of the pause after what did not succeed


def close_transaction(
    state: State,
    transaction: Transaction,
    how: TransactionState,
    now: float,
    *,
    note: str = "",
    anew: bool = False,
) -> Step:
    """Move a transaction into the history, and let its replicas be what they are without it.

    `anew`: whether it ends since something did not resume from its checkpoint; it trains where it is.
    """
    actions = list[Action]()
    if transaction.state in ASKING_STATES or transaction.state is TransactionState.LEAVING:
        actions += withdrawn(transaction, release=True)
    if transaction.attempt == 1:
        actions += room_released(transaction, f"{how}, {note}" if note else str(how))
    over = msgspec.structs.replace(
        transaction, state=how, ended_at=now, note=_note(state, transaction, how, note), trouble=""
    )
    state = _record(state, over, now)
    job = state.jobs.get(transaction.job)
    if job is None:
        return state, actions
    state = _remember(state, over, now, unproven=note if anew else "")
    if how is TransactionState.SUCCEEDED:
        state = _as_wanted(state, over, now)
    elif transaction.attempt > 1 and not transaction.wanted:
        state = _let_wait(state, state.jobs[job.name], now)  # an admission that was turned back
    elif transaction.state in UNTOUCHED_STATES or (
        transaction.state is TransactionState.LEAVING and members.is_untouched(state, transaction)
    ):
        state = _let_stay(state, transaction)
    elif how is TransactionState.FAILED and not anew:
        state = _give_up(state, over, now)
    else:
        state = _let_go(state, over, now)
    job = state.jobs[job.name]
    if job.owned and transaction.changing_at is not None and not _waits_for_admission(state, job):
        state, ordered = _owner_released(state, job, over, now)
        actions += ordered
    return state, actions


def forgotten(state: State, transaction: Transaction, why: str, now: float) -> Step:
    """Close the transaction of a job that is not there any more."""
    return close_transaction(state, transaction, TransactionState.ROLLED_BACK, now, note=why)


def _note(state: State, transaction: Transaction, how: TransactionState, note: str) -> str:
    """Return why it ended as it did; what turned it back says more than that it is back."""
    if how is TransactionState.SUCCEEDED:
        return transaction.note if transaction.attempt == 1 else ""
    if how is TransactionState.ROLLED_BACK and transaction.attempt > 1:
        return transaction.note or note
    if how is TransactionState.FAILED and transaction.attempt > 1 and transaction.note:
        return f"{transaction.note}; then on the way back: {note}"
    del state
    return note


def _record(state: State, over: Transaction, now: float) -> State:
    """Return the state with the transaction in the history, and what it cost in the means."""
    transactions = {name: each for name, each in state.transactions.items() if name != over.id}
    return msgspec.structs.replace(
        state,
        transactions=transactions,
        history=(*state.history, over)[-HISTORY:],
        measured=_average(state.measured, over, now),
    )


def _average(measured: Measured, over: Transaction, now: float) -> Measured:
    """Return the running means, the latest move weighing at least a fifth.

    A move that did not succeed has cost as well: where nothing has trained since, all the time until now.
    """
    if over.kind is not Kind.MOVE or over.changing_at is None:
        return measured
    downtime, lost = over.downtime, over.steps_lost
    if over.state is TransactionState.SUCCEEDED and (downtime is None or lost is None):
        return measured
    if downtime is None:
        downtime = 0.0 if over.gone_at is None else max(0.0, now - over.changing_at)
    share = max(1 / (measured.moves + 1), 0.2)
    return Measured(
        moves=measured.moves + 1,
        downtime=measured.downtime + share * (downtime - measured.downtime),
        steps_lost=measured.steps_lost + share * ((lost or 0) - measured.steps_lost),
    )


def _remember(state: State, over: Transaction, now: float, *, unproven: str) -> State:
    """Return the state in which the job and the replicas rest: twice as long after each failure."""
    if over.note == SAVED:
        return state  # nothing was disturbed, and nothing has failed
    budgets, succeeded = state.settings.budgets, over.state is TransactionState.SUCCEEDED
    if over.whole:
        job = state.jobs[over.job]
        if succeeded:
            job = msgspec.structs.replace(job, failures=0)
        else:
            pause = budgets.retry_cooldown * 2 ** min(job.failures, _DOUBLINGS)
            job = msgspec.structs.replace(job, failures=job.failures + 1, cooldown_until=now + pause)
        state = state.with_job(job)
    if over.kind is not Kind.MOVE:
        return state
    for replica in members.records(state, over):
        state = state.with_replica(remember_move(replica, over, budgets, now, unproven=unproven))
    return state


def remember_move(
    replica: Replica, over: Transaction, budgets: Budgets, now: float, *, unproven: str
) -> Replica:
    """Return what a replica remembers of its move, which ended at `now`, seconds."""
    disrupted = replica.disrupted + (over.gone_at is not None)
    if over.state is TransactionState.SUCCEEDED:
        return msgspec.structs.replace(
            replica,
            moves=replica.moves + 1,
            attempts=0,
            disrupted=disrupted,
            unproven="",
            moved_for=(*replica.moved_for, over.purpose),
            cooldown_until=now + budgets.cooldown,
        )
    pause = budgets.retry_cooldown * 2 ** min(replica.attempts, _DOUBLINGS)
    return msgspec.structs.replace(
        replica,
        attempts=replica.attempts + 1,
        disrupted=disrupted,
        unproven=unproven or replica.unproven,
        cooldown_until=now + pause,
        note=f"{over.id}: {over.note}",
    )


def _as_wanted(state: State, over: Transaction, now: float) -> State:
    """Return the state after a success: who was preempted or put back waits, who was scaled rests."""
    job = state.jobs[over.job]
    if over.kind is Kind.PREEMPT:
        return _let_wait(state, job.count_preemption(now), now)
    if over.kind is Kind.PUT_BACK:
        return _let_wait(state, job, now)
    if over.kind in {Kind.SCALE_IN, Kind.SCALE_OUT}:
        until = now + state.settings.budgets.change_cooldown
        state = state.with_job(msgspec.structs.replace(job, cooldown_until=until))
    return state


def _let_wait(state: State, job: Job, now: float) -> State:
    """Let a job that no longer runs wait to be admitted, with the workers that its owner wants."""
    if job.ended_at is not None:
        return state
    wanted = {*job.spec.ps, *job.spec.worker_names[: job.spec.wanted_workers]}
    for name in job.spec.replicas:
        replica = state.replicas[name]
        if replica.phase is Phase.RUNNING and _is_told(replica):
            # Its owner has started it again meanwhile: what becomes of it is for its owner to say.
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
        if replica.ended or replica.phase is Phase.RUNNING:
            continue
        waiting = msgspec.structs.replace(
            replica,
            phase=Phase.PENDING if name in wanted else Phase.ABSENT,
            incarnation=None,
            deadline=None,
            holds=False,
            leaving=None,
            weight=1.0,
            weighed=False,
        )
        state = state.with_replica(waiting)
    return state.with_job(msgspec.structs.replace(job, admitted=False, queued_at=now))


def _let_stay(state: State, transaction: Transaction) -> State:
    """Withdraw the ends that were ordered; none of these replicas has ended."""
    for replica in members.ending_replicas(state, transaction):
        if _is_told(replica):
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
    return state


def _let_go(state: State, over: Transaction, now: float) -> State:
    """Let whatever runs run on; replicas that were to start do so by ordinary means, or not at all.

    What came by a transaction that was turned back and has crashed since is absent again.
    """
    state = members.drop_newcomers(state, over)
    for replica in members.ending_replicas(state, over):
        if _ends_for_good(replica):
            continue
        if replica.phase is Phase.STARTING:
            state = _tell_unsettled(state, replica, over, now)
        elif replica.leaving is not None:
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
    return state


def _give_up(state: State, over: Transaction, now: float) -> State:
    """Let go of what could not be turned back either.

    A job that its owner places is its owner's; any other waits to be admitted again, to resume from its
    checkpoint: as a whole, where its replicas train as one.
    """
    job = state.jobs[over.job]
    if job.owned:
        return _let_go(state, over, now)
    for replica in members.records(state, over):
        if _ends_for_good(replica):
            continue
        if replica.phase is Phase.STARTING or (replica.phase is Phase.RUNNING and over.whole):
            state = _tell_unsettled(state, replica, over, now)
    return state


def _tell_unsettled(state: State, replica: Replica, over: Transaction, now: float) -> State:
    """Let a replica that runs, or perhaps does, be told to end: then it waits for its next start."""
    why = f"{over.id}: {over.note or over.state}"
    if state.jobs[replica.job].owned:
        if replica.phase is Phase.STARTING:
            return await_owner(state, msgspec.structs.replace(replica, leaving=None), f"put back: {why}", now)
        return state
    told = Leaving(purpose="put-back", since=now, deadline=now, reason=why)
    return state.with_replica(msgspec.structs.replace(replica, leaving=told))


def _owner_released(state: State, job: Job, over: Transaction, now: float) -> Step:
    """Order that the owner of a job runs what it likes of it; other transactions stay in force."""
    why = f"{over.id}: {over.state}" + (f", {over.note}" if over.note else "")
    flying = [each for each in state.transactions_of(job.name) if each.state not in UNTOUCHED_STATES]
    due = None if job.ended_at is not None else now + state.settings.deadlines.start
    state = state.with_job(msgspec.structs.replace(job, release_due=due, released=0))
    if flying:
        return state, [place_order(state, job, flying[0])]
    return state, [release_order(state, job, why)]


def _waits_for_admission(state: State, job: Job) -> bool:
    """Whether a job is held back in a queue; if a replica of it runs, someone has let it go already."""
    runs = any(state.replicas[name].phase is Phase.RUNNING for name in job.spec.replicas)
    return job.spec.held and not job.admitted and not runs


def _is_told(replica: Replica) -> bool:
    return replica.leaving is not None and not _ends_for_good(replica)


def _ends_for_good(replica: Replica) -> bool:
    """Whether the replica is to end with its job, whatever becomes of the transaction."""
    return replica.leaving is not None and replica.leaving.purpose in {"complete", "fail"}
