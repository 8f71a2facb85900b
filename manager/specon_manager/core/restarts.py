"""How an incarnation ends: its replica starts again, waits with its job, or is over."""

from collections.abc import Collection

import msgspec

from specon_manager.core.owner_phases import phase_without
from specon_manager.core.state import State
from specon_manager.model.actions import EvictReplica
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.overlay import lacking
from specon_manager.model.transactions import Kind, Transaction, TransactionState


def restart_crashed(state: State, replica: Replica, reason: str, now: float) -> State:
    """Start the replica again after a pause, or give it up when its owner's patience is used up.

    One that was told to end is gone, however it ended: that is no crash, nor is what a transaction brings
    about. A missing replica keeps its room while the rest of its job is there.
    """
    if replica.leaving is not None:
        if replica.leaving.purpose != "late":
            return note_left(state, replica, now)
        reason = replica.leaving.reason  # how it ended then says nothing of why
        replica = msgspec.structs.replace(replica, leaving=None)
    transaction = state.transaction_of(replica.name)
    if transaction is not None and _for_the_transaction(replica, transaction):
        return put_back(state, replica, reason, now)
    crashes = replica.crashes + 1
    noted = msgspec.structs.replace(replica, crashes=crashes, note=f"crash {crashes}: {reason}")
    spec = state.jobs[replica.job].spec
    if spec.placed_by == "owner":
        return await_owner(state, noted, noted.note, now)
    if crashes > spec.restarts:
        return close_replica(state, noted, Phase.FAILED, now)
    pause = state.settings.deadlines.crash_backoff * 2 ** min(crashes - 1, 8)
    return _missing(state, noted, Phase.PENDING, now, not_before=now + pause)


def put_back(state: State, replica: Replica, reason: str, now: float) -> State:
    """Let what someone else ended, or what did not come about, wait for its next start: no crash."""
    if state.jobs[replica.job].owned:
        return await_owner(state, replica, f"put back: {reason}", now)
    noted = msgspec.structs.replace(replica, note=f"put back: {reason}")
    return _missing(state, noted, Phase.PENDING, now, not_before=0.0)


def await_owner(state: State, replica: Replica, note: str, now: float) -> State:
    """Let a replica be that its owner is to start again; one that its job names no more is forgotten."""
    job = state.jobs[replica.job]
    if replica.name in job.dropped:
        remaining = tuple(name for name in job.dropped if name != replica.name)
        return forget_replicas(
            state.with_job(msgspec.structs.replace(job, dropped=remaining)), [replica.name]
        )
    noted = msgspec.structs.replace(replica, note=note)
    return _missing(state, noted, phase_without(state, job, replica.name), now, not_before=0.0)


def note_left(state: State, replica: Replica, now: float) -> State:
    """Take note that a replica which was told to end is gone."""
    leaving = replica.leaving
    assert leaving is not None
    job = state.jobs[replica.job]
    if replica.name in job.dropped:
        return await_owner(state, replica, "", now)
    if leaving.purpose in {"complete", "fail"}:
        phase = Phase.SUCCEEDED if leaving.purpose == "complete" else Phase.FAILED
        return close_replica(state, msgspec.structs.replace(replica, note=leaving.reason), phase, now)
    if leaving.purpose == "scale-in":
        phase = Phase.ABSENT
    elif job.owned and (leaving.purpose == "restart" or not job.spec.held):
        phase = Phase.AWAITED
    else:
        phase = Phase.PENDING
    gone = msgspec.structs.replace(
        replica,
        phase=phase,
        incarnation=None,
        deadline=None,
        not_before=0.0,
        lost_at=None,
        holds=False,
        leaving=None,
        weight=1.0,
        weighed=False,
        note=f"{leaving.purpose}: {leaving.reason}",
    )
    return state.with_replica(gone)


def close_replica(state: State, replica: Replica, phase: Phase, now: float) -> State:
    """Close the replica; one that its job names no more is forgotten."""
    if replica.name in state.jobs[replica.job].dropped:
        return await_owner(state, replica, "", now)
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=phase,
            ended_at=now,
            incarnation=None,
            deadline=None,
            lost_at=None,
            holds=False,
            leaving=None,
        )
    )


def forget_replicas(state: State, names: Collection[str]) -> State:
    """Return the state that has forgotten these replicas."""
    if not names:
        return state
    return msgspec.structs.replace(
        state, replicas=lacking(state.replicas, names), verdicts=lacking(state.verdicts, names)
    )


def eviction(state: State, replica: Replica, incarnation: str | None, reason: str) -> EvictReplica:
    """Return the order to end an incarnation that is not wanted, None for whichever there is."""
    return EvictReplica(
        replica=replica.name,
        incarnation=incarnation,
        grace_seconds=state.jobs[replica.job].spec.grace_seconds,
        reason=reason,
    )


def _missing(state: State, replica: Replica, phase: Phase, now: float, *, not_before: float) -> State:
    """Let the replica be missing since now, unless it was already; it keeps its room meanwhile."""
    present = phase is not Phase.ABSENT
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=phase,
            incarnation=None,
            deadline=None,
            not_before=not_before,
            lost_at=(now if replica.lost_at is None else replica.lost_at) if present else None,
            holds=present and replica.node is not None,
            leaving=None,
            weight=1.0,
            weighed=False,
        )
    )


def _for_the_transaction(replica: Replica, transaction: Transaction) -> bool:
    """Whether it ended because of the transaction, which is turned back: that is not held against the job."""
    if transaction.state is TransactionState.LEAVING:
        return transaction.attempt > 1 or replica.phase is Phase.STARTING
    proving = transaction.state in {TransactionState.COMING, TransactionState.VERIFYING}
    return proving and (replica.phase is Phase.STARTING or transaction.kind is not Kind.ADMIT)
