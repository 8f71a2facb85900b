"""How a change of a whole job ends: succeeded, rolled back, given up, or forgotten with its job."""

import msgspec

from specon_manager.core.change_orders import placed, withdrawn
from specon_manager.core.gang import regrouped
from specon_manager.core.restarts import crashed, eviction
from specon_manager.core.state import HISTORY, State
from specon_manager.model.actions import Action
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Leaving, Phase

Step = tuple[State, list[Action]]

_DOUBLINGS = 10


def succeeded(state: State, change: Change, now: float) -> Step:
    """Close a change whose replicas run as it wanted; on the way back that is a roll-back."""
    if change.attempt > 1:
        return _closed(state, change, ChangeState.ROLLED_BACK, change.note, now), []
    state = _closed(state, change, ChangeState.SUCCEEDED, "", now)
    job = state.jobs[change.job]
    if change.kind is ChangeKind.PREEMPT:
        state = _waiting(state, job, now)
    elif change.kind is not ChangeKind.ADMIT:
        until = now + state.settings.budgets.change_cooldown
        state = state.with_job(msgspec.structs.replace(job, cooldown_until=until))
    return regrouped(state, job.name, now), []


def rolled_back(state: State, change: Change, why: str, now: float) -> Step:
    """Close a change that leaves things as they are: nothing was told to end, or it is its owner's turn."""
    job, before = state.jobs[change.job], change.state
    actions = withdrawn(change) if before is ChangeState.CHECKPOINTING else []
    put_back = change.kind is ChangeKind.ADMIT and not change.wanted
    state = _closed(state, change, ChangeState.ROLLED_BACK, why, now)
    if put_back:
        state = _waiting(state, state.jobs[job.name], now)
    elif before is ChangeState.CHECKPOINTING:
        state = _as_before(state, change)
    elif job.ended_at is None:
        state, released = _released(state, job, change, now)
        actions += released
    return regrouped(state, job.name, now), actions


def given_up(state: State, change: Change, why: str, now: float) -> Step:
    """Close a change that could not be turned back either: the job starts again by ordinary means."""
    note = f"{change.note}; then on the way back: {why}" if change.note else why
    state = _closed(state, change, ChangeState.FAILED, note, now)
    job = state.jobs[change.job]
    if job.owned:
        state, actions = _released(state, job, change, now)
        return regrouped(state, job.name, now), actions
    actions = []
    for name in sorted({*change.before, *change.after}):
        replica = state.replicas[name]
        if replica.phase is Phase.RUNNING:
            leaving = Leaving(purpose="preempt", since=now, deadline=now, reason=f"{change.id}: {note}")
            state = state.with_replica(msgspec.structs.replace(replica, leaving=leaving))
        elif replica.phase is Phase.STARTING:
            actions.append(eviction(state, replica, None, f"{change.id}: {note}"))
            pending = msgspec.structs.replace(replica, leaving=None, incarnation=None)
            state = crashed(state.with_replica(pending), pending, note, now)
    return regrouped(state, job.name, now), actions


def forgotten(state: State, change: Change, now: float) -> Step:
    """Close the change of a job that is not there any more."""
    state = _closed(state, change, ChangeState.ROLLED_BACK, "its job is gone", now)
    return state, withdrawn(change)


def _closed(state: State, change: Change, how: ChangeState, note: str, now: float) -> State:
    """Move a change into the history, and let its job rest for a while where it did not succeed."""
    over = msgspec.structs.replace(change, state=how, ended_at=now, note=note)
    changes = {name: other for name, other in state.changes.items() if name != change.job}
    state = msgspec.structs.replace(
        state, changes=changes, change_history=(*state.change_history, over)[-HISTORY:]
    )
    job = state.jobs.get(change.job)
    if job is None:
        return state
    if how is ChangeState.SUCCEEDED:
        return state.with_job(msgspec.structs.replace(job, changes=0))
    pause = state.settings.budgets.retry_cooldown * 2 ** min(job.changes, _DOUBLINGS)
    return state.with_job(msgspec.structs.replace(job, changes=job.changes + 1, cooldown_until=now + pause))


def _waiting(state: State, job: Job, now: float) -> State:
    """Let a job of which nothing runs any more wait to be admitted, with the workers that its owner wants."""
    wanted = {*job.spec.ps, *job.spec.worker_names[: job.spec.wanted_workers]}
    for name in job.spec.replicas:
        replica = state.replicas[name]
        if replica.ended or replica.active:
            continue
        phase = Phase.PENDING if name in wanted else Phase.ABSENT
        waiting = msgspec.structs.replace(
            replica, phase=phase, incarnation=None, deadline=None, leaving=None, weight=1.0
        )
        state = state.with_replica(waiting)
    return state.with_job(msgspec.structs.replace(job, admitted=False, queued_at=now))


def _as_before(state: State, change: Change) -> State:
    """Take back what the records say of replicas that were to end or to start, of which none did."""
    for name in sorted({*change.before, *change.after}):
        replica = state.replicas.get(name)
        if replica is None or replica.ended:
            continue
        if name not in change.before and replica.phase is Phase.STARTING:
            absent = msgspec.structs.replace(replica, phase=Phase.ABSENT, incarnation=None)
            state = state.with_replica(absent)
        elif replica.leaving is not None and replica.leaving.purpose not in {"complete", "fail"}:
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
    return state


def _released(state: State, job: Job, change: Change, now: float) -> Step:
    """Let whatever runs run on, and what was to start start by ordinary means."""
    del now
    for name in sorted({*change.before, *change.after}):
        replica = state.replicas.get(name)
        if replica is None or replica.ended:
            continue
        if replica.leaving is not None and replica.leaving.purpose not in {"complete", "fail"}:
            replica = msgspec.structs.replace(replica, leaving=None)
        if replica.phase is Phase.STARTING and replica.incarnation is None:
            phase = Phase.AWAITED if job.owned else Phase.PENDING
            replica = msgspec.structs.replace(replica, phase=phase, deadline=None)
        state = state.with_replica(replica)
    if not job.owned:
        return state, []
    anywhere = dict.fromkeys(change.before or change.after, "")
    return state, [placed(job, change, anywhere, over=True)]
