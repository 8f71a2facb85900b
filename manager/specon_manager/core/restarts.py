"""How a replica ends: started again after a crash, or closed, and its job with the last one."""

from collections.abc import Collection
from typing import Final

import msgspec

from specon_manager.core.described import phase_without
from specon_manager.core.gang import regrouped
from specon_manager.core.state import State
from specon_manager.model.actions import Action, EvictReplica, StartReplica
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.overlay import lacking

_DOUBLINGS: Final = 4  # of the wait for a start wherever there is room


def crashed(state: State, replica: Replica, reason: str, now: float) -> State:
    """Start the replica again after a pause, or give it up when its owner's patience is used up.

    One that was told to end is gone, however it ended: that is no crash.
    """
    change = state.changes.get(replica.job)
    if change is not None and change.state is ChangeState.CHECKPOINTING:
        # What is to leave was not told yet: if it ends now, it ends by itself.
        replica = msgspec.structs.replace(replica, leaving=None)
    if replica.leaving is not None:
        return left(state, replica, now)
    if change is not None and _for_the_change(replica, change):
        return put_back(state, replica, reason, now)
    if state.jobs[replica.job].owned:
        crashes = replica.crashes + 1
        noted = msgspec.structs.replace(replica, crashes=crashes)
        return awaited(state, noted, f"crash {crashes}: {reason}", now)
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


def _for_the_change(replica: Replica, change: Change) -> bool:
    """Whether it ended because of the change, which is turned back: that is not held against the job."""
    proving = change.state in {ChangeState.COMING, ChangeState.VERIFYING}
    return replica.phase is Phase.STARTING or (proving and change.kind is not ChangeKind.ADMIT)


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
    if state.jobs[replica.job].owned:
        return awaited(state, replica, f"put back: {reason}", now)
    waiting = msgspec.structs.replace(
        replica, phase=Phase.PENDING, incarnation=None, deadline=None, note=f"put back: {reason}"
    )
    return regrouped(state.with_replica(waiting), replica.job, now)


def awaited(state: State, replica: Replica, note: str, now: float) -> State:
    """Let a replica be that its owner is to start again; one that its job names no more is forgotten."""
    job = state.jobs[replica.job]
    if replica.name in job.dropped:
        remaining = tuple(name for name in job.dropped if name != replica.name)
        state = without(state.with_job(msgspec.structs.replace(job, dropped=remaining)), [replica.name])
        return regrouped(state, job.name, now)
    waiting = msgspec.structs.replace(
        replica,
        phase=phase_without(state, job, replica.name),
        incarnation=None,
        deadline=None,
        leaving=None,
        weight=1.0,
        note=note,
    )
    return regrouped(state.with_replica(waiting), replica.job, now)


def without(state: State, names: Collection[str]) -> State:
    """Return the state that has forgotten these replicas."""
    if not names:
        return state
    return msgspec.structs.replace(
        state, replicas=lacking(state.replicas, names), verdicts=lacking(state.verdicts, names)
    )


def started_anywhere(
    state: State, replica: Replica, reason: str, now: float, *, again: bool = False
) -> tuple[State, list[Action]]:
    """Let the owner of a replica start it wherever its scheduler puts it, after a move that failed.

    `again`: the same order, since nothing came of it; each such time counts as a crash, and the next one is
    longer in coming.
    """
    crashes = replica.crashes + again
    start = replica.starts if again else replica.starts + 1
    patience = state.settings.deadlines.start * (2 ** min(crashes, _DOUBLINGS) if again else 1)
    starting = msgspec.structs.replace(
        replica,
        phase=Phase.STARTING,
        node=None,
        incarnation=None,
        starts=start,
        crashes=crashes,
        deadline=now + patience,
        weight=1.0,
    )
    return regrouped(state.with_replica(starting), replica.job, now), [anywhere(state, starting, reason)]


def refused_anywhere(state: State, replica: Replica, reason: str, now: float) -> State:
    """Take note that such an order failed: it is given again after a pause."""
    crashes = replica.crashes + 1
    pause = state.settings.deadlines.crash_backoff * 2 ** min(crashes - 1, 8)
    noted = msgspec.structs.replace(
        replica, crashes=crashes, deadline=now + pause, note=f"start refused: {reason}"
    )
    return state.with_replica(noted)


def anywhere(state: State, replica: Replica, reason: str) -> StartReplica:
    """Return the order to start a replica wherever the scheduler of its owner puts it."""
    template = state.jobs[replica.job].spec.template
    return StartReplica(
        replica=replica.name, start=replica.starts, node=None, template=template, reason=reason
    )


def left(state: State, replica: Replica, now: float) -> State:
    """Take note that a replica which was told to end outside of a move is gone."""
    leaving = replica.leaving
    assert leaving is not None
    if replica.name in state.jobs[replica.job].dropped:
        return awaited(state, replica, "", now)
    if leaving.purpose in {"complete", "fail"}:
        phase = Phase.SUCCEEDED if leaving.purpose == "complete" else Phase.FAILED
        return ended(state, msgspec.structs.replace(replica, note=leaving.reason), phase, now)
    change = state.changes.get(replica.job)
    if leaving.purpose == "restart" and change is not None and replica.name in change.wanted:
        # It comes back, perhaps elsewhere: the room there is taken from now on.
        again = msgspec.structs.replace(
            replica,
            phase=Phase.STARTING,
            node=change.wanted[replica.name] or None,
            incarnation=None,
            deadline=None,
            leaving=None,
            weight=1.0,
        )
        return regrouped(state.with_replica(again), replica.job, now)
    gone = msgspec.structs.replace(
        replica,
        phase=Phase.ABSENT if leaving.purpose == "scale-in" else Phase.PENDING,
        incarnation=None,
        deadline=None,
        leaving=None,
        weight=1.0,
        note=f"{leaving.purpose}: {leaving.reason}",
    )
    return regrouped(state.with_replica(gone), replica.job, now)


def ended(state: State, replica: Replica, phase: Phase, now: float) -> State:
    """Close the replica, and its job with its last one; one that its job names no more is forgotten."""
    if replica.name in state.jobs[replica.job].dropped:
        return awaited(state, replica, "", now)
    over = msgspec.structs.replace(
        replica, phase=phase, ended_at=now, incarnation=None, deadline=None, leaving=None
    )
    return regrouped(state.with_replica(over), replica.job, now)
