"""How a change of a whole job ends: succeeded, rolled back, given up, or forgotten with its job."""

from typing import Final

import msgspec

from specon_manager.core.change_members import concerned
from specon_manager.core.change_orders import placed, withdrawn
from specon_manager.core.described import as_described
from specon_manager.core.gang import regrouped
from specon_manager.core.restarts import eviction, put_back
from specon_manager.core.state import HISTORY, State
from specon_manager.model.actions import Action
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Leaving, Phase

Step = tuple[State, list[Action]]

_DOUBLINGS: Final = 10  # of the pause after a change that did not succeed


def succeeded(state: State, change: Change, now: float) -> Step:
    """Close a change whose replicas run as it wanted; on the way back that is a roll-back."""
    if change.attempt > 1:
        state = _closed(state, change, ChangeState.ROLLED_BACK, change.note, now)
        state = _without_newcomers(state, change)
        job = state.jobs[change.job]
        state = regrouped(as_described(state, job), job.name, now)
        return state, [_let_go(job, change)] if job.owned else []
    state = _closed(state, change, ChangeState.SUCCEEDED, "", now)
    job = state.jobs[change.job]
    actions: list[Action] = []
    if change.kind is ChangeKind.PREEMPT:
        job = msgspec.structs.replace(job, preemptions=job.preemptions + 1)
        state = _waiting(state, job, now)
        if job.owned and not job.spec.held:
            actions.append(_let_go(job, change))  # it names no queue any more: nothing would admit it
    elif change.kind is not ChangeKind.ADMIT:
        until = now + state.settings.budgets.change_cooldown
        state = state.with_job(msgspec.structs.replace(job, cooldown_until=until))
    state = as_described(state, state.jobs[job.name])
    return regrouped(state, job.name, now), actions


def _without_newcomers(state: State, change: Change) -> State:
    """Let those be absent that the change started and that crashed: the job goes on without them."""
    for name in sorted(change.after.keys() - change.before.keys()):
        replica = state.replicas[name]
        if replica.phase is Phase.PENDING:
            absent = msgspec.structs.replace(replica, phase=Phase.ABSENT, deadline=None)
            state = state.with_replica(absent)
    return state


def rolled_back(state: State, change: Change, why: str, now: float) -> Step:
    """Close a change that leaves things as they are: nothing was told to end, or it is its owner's turn."""
    before = change.state
    actions = withdrawn(change) if before is ChangeState.CHECKPOINTING else []
    put_whole_back = change.kind is ChangeKind.ADMIT and not change.wanted
    state = _closed(state, change, ChangeState.ROLLED_BACK, why, now)
    job = state.jobs[change.job]
    if put_whole_back:
        state = _waiting(state, job, now)
        if job.owned and not job.spec.held:
            actions.append(_let_go(job, change))  # it names no queue any more: nothing would admit it
    elif before is ChangeState.CHECKPOINTING:
        state = _as_before(state, change)
    else:
        state, released = _released(state, job, change, now)
        actions += released
    state = as_described(state, state.jobs[job.name])
    return regrouped(state, job.name, now), actions


def stays(state: State, change: Change, why: str, now: float) -> Step:
    """Close a change that its owner refused before anything came of it: all of it trains on as it was."""
    state = _as_before(_closed(state, change, ChangeState.ROLLED_BACK, why, now), change)
    job = state.jobs[change.job]
    state = regrouped(as_described(state, job), job.name, now)
    return state, [_let_go(job, change)]


def given_up(state: State, change: Change, why: str, now: float) -> Step:
    """Close a change that could not be turned back either.

    A job that its owner places is its owner's; any other ends as a whole and waits to be admitted again, with
    as many workers as find room, to go on from its checkpoint.
    """
    note = f"{change.note}; then on the way back: {why}" if change.note else why
    state = _closed(state, change, ChangeState.FAILED, note, now)
    job = state.jobs[change.job]
    if job.owned:
        state, actions = _released(state, job, change, now)
        state = as_described(state, state.jobs[job.name])
        return regrouped(state, job.name, now), actions
    actions = []
    why = f"{change.id}: {note}"
    told = Leaving(purpose="preempt", since=now, deadline=now, reason=why)
    for name in concerned(change):
        replica = state.replicas[name]
        if replica.phase is Phase.RUNNING:
            state = state.with_replica(msgspec.structs.replace(replica, leaving=told))
        elif replica.phase is Phase.STARTING:
            actions.append(eviction(state, replica, None, why))
            state = put_back(state, msgspec.structs.replace(replica, leaving=None), note, now)
    return regrouped(state, job.name, now), actions


def forgotten(state: State, change: Change, now: float) -> Step:
    """Close the change of a job that is not there any more."""
    state = _closed(state, change, ChangeState.ROLLED_BACK, "its job is gone", now)
    return state, withdrawn(change)


def _let_go(job: Job, change: Change) -> Action:
    """Return that nothing is wanted of the owner of a job any more."""
    return placed(job, change, dict.fromkeys(change.before or change.after, ""), over=True)


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
        if replica.active and replica.leaving is not None and not _ends(replica.leaving):
            # Its owner described it anew before it was gone: what becomes of it is for its owner to say.
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
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
    for name in concerned(change):
        replica = state.replicas.get(name)
        if replica is None or replica.ended or _ends(replica.leaving):
            continue
        if name not in change.before and replica.phase is Phase.STARTING:
            absent = msgspec.structs.replace(replica, phase=Phase.ABSENT, incarnation=None)
            state = state.with_replica(absent)
        elif replica.leaving is not None:
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
    return state


def _released(state: State, job: Job, change: Change, now: float) -> Step:
    """Let whatever runs run on, and what was to start start by ordinary means, or not at all."""
    actions: list[Action] = []
    for name in concerned(change):
        replica = state.replicas.get(name)
        if replica is None or replica.ended or _ends(replica.leaving):
            continue
        replica = msgspec.structs.replace(replica, leaving=None)
        state = state.with_replica(replica)
        if replica.phase is Phase.STARTING:
            if not job.owned:
                # Perhaps it did start, and nobody said so: nothing of it may live when another one does.
                actions.append(eviction(state, replica, None, f"{change.id}: {change.state} no more"))
            state = put_back(state, replica, "its change is over", now)
    if job.owned and job.ended_at is None:
        actions.append(_let_go(job, change))
    return state, actions


def _ends(leaving: Leaving | None) -> bool:
    """Whether the replica is to end with its job, whatever becomes of the change."""
    return leaving is not None and leaving.purpose in {"complete", "fail"}
