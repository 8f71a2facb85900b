"""How a replica ends: started again after a crash, or closed, and its job with the last one."""

import msgspec

from specon_manager.core.gang import regrouped
from specon_manager.core.state import State
from specon_manager.model.actions import EvictReplica
from specon_manager.model.cluster import Phase, Replica


def crashed(state: State, replica: Replica, reason: str, now: float) -> State:
    """Start the replica again after a pause, or give it up when its owner's patience is used up.

    One that was told to end is gone, however it ended: that is no crash.
    """
    if replica.leaving is not None:
        return left(state, replica, now)
    spec = state.jobs[replica.job].spec
    crashes = replica.crashes + 1
    if crashes > spec.restarts:
        noted = msgspec.structs.replace(replica, crashes=crashes, note=f"crash {crashes}: {reason}")
        return ended(state, noted, Phase.FAILED, now)
    pause = state.settings.deadlines.crash_backoff * 2 ** min(crashes - 1, 8)
    waiting = msgspec.structs.replace(
        replica,
        phase=Phase.PENDING,
        incarnation=None,
        crashes=crashes,
        deadline=now + pause,
        note=f"crash {crashes}: {reason}",
    )
    return regrouped(state.with_replica(waiting), replica.job, now)


def eviction(state: State, replica: Replica, incarnation: str | None, reason: str) -> EvictReplica:
    """Return the order to end an incarnation that is not wanted, None for whichever there is."""
    return EvictReplica(
        replica=replica.name,
        incarnation=incarnation,
        grace_seconds=state.jobs[replica.job].spec.grace_seconds,
        reason=reason,
    )


def put_back(state: State, replica: Replica, reason: str, now: float) -> State:
    """Let a replica that was told to end, but not for a move, wait for its next start: no crash."""
    waiting = msgspec.structs.replace(
        replica, phase=Phase.PENDING, incarnation=None, deadline=None, note=f"put back: {reason}"
    )
    return regrouped(state.with_replica(waiting), replica.job, now)


def left(state: State, replica: Replica, now: float) -> State:
    """Take note that a replica which was told to end outside of a move is gone."""
    leaving = replica.leaving
    assert leaving is not None
    if leaving.purpose in {"complete", "fail"}:
        phase = Phase.SUCCEEDED if leaving.purpose == "complete" else Phase.FAILED
        return ended(state, msgspec.structs.replace(replica, note=leaving.reason), phase, now)
    gone = msgspec.structs.replace(
        replica,
        phase=Phase.PENDING if leaving.purpose == "preempt" else Phase.ABSENT,
        incarnation=None,
        deadline=None,
        leaving=None,
        weight=1.0,
        note=f"{leaving.purpose}: {leaving.reason}",
    )
    return regrouped(state.with_replica(gone), replica.job, now)


def ended(state: State, replica: Replica, phase: Phase, now: float) -> State:
    """Close the replica, and its job with its last one."""
    over = msgspec.structs.replace(
        replica, phase=phase, ended_at=now, incarnation=None, deadline=None, leaving=None
    )
    return regrouped(state.with_replica(over), replica.job, now)
