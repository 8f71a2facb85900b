"""How a replica ends: started again after a crash, or closed, and its job with the last one."""

import msgspec

from specon_manager.core.state import State
from specon_manager.model.actions import EvictReplica
from specon_manager.model.cluster import Phase, Replica


def crashed(state: State, replica: Replica, reason: str, now: float) -> State:
    """Start the replica again after a pause, or give it up when its owner's patience is used up."""
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
    return state.with_replica(waiting)


def eviction(state: State, replica: Replica, incarnation: str | None, reason: str) -> EvictReplica:
    """Return the order to end an incarnation that is not wanted, None for whichever there is."""
    return EvictReplica(
        replica=replica.name,
        incarnation=incarnation,
        grace_seconds=state.jobs[replica.job].spec.grace_seconds,
        reason=reason,
    )


def put_back(state: State, replica: Replica, reason: str) -> State:
    """Let a replica that was told to end, but not for a move, wait for its next start: no crash."""
    waiting = msgspec.structs.replace(
        replica, phase=Phase.PENDING, incarnation=None, deadline=None, note=f"put back: {reason}"
    )
    return state.with_replica(waiting)


def ended(state: State, replica: Replica, phase: Phase, now: float) -> State:
    """Close the replica, and its job with its last one."""
    over = msgspec.structs.replace(replica, phase=phase, ended_at=now, incarnation=None, deadline=None)
    state = state.with_replica(over)
    job = state.jobs[replica.job]
    if all(state.replicas[name].ended for name in job.spec.replicas):
        job = msgspec.structs.replace(job, ended_at=now)
        state = msgspec.structs.replace(state, jobs={**state.jobs, job.name: job})
    return state
