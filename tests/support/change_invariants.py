"""What is true of the changes of whole jobs after every event, and of whatever is ordered for them."""

from collections.abc import Mapping, Sequence
from typing import Final

from specon_manager.core.state import State
from specon_manager.model.actions import Action, EvictReplica, PlaceJob, RequestCheckpoint, StartReplica
from specon_manager.model.changes import OVER, Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Phase, Replica

_LATER: Final[Mapping[ChangeState, frozenset[ChangeState]]] = {
    ChangeState.CHECKPOINTING: frozenset(
        {ChangeState.LEAVING, ChangeState.COMING, ChangeState.ROLLED_BACK, ChangeState.FAILED}
    ),
    ChangeState.LEAVING: frozenset(
        {ChangeState.COMING, ChangeState.VERIFYING, ChangeState.SUCCEEDED, ChangeState.ROLLED_BACK}
        | {ChangeState.FAILED}
    ),
    ChangeState.COMING: frozenset(
        {ChangeState.VERIFYING, ChangeState.LEAVING, ChangeState.SUCCEEDED, ChangeState.ROLLED_BACK}
        | {ChangeState.FAILED}
    ),
    ChangeState.VERIFYING: frozenset(
        {ChangeState.SUCCEEDED, ChangeState.LEAVING, ChangeState.COMING, ChangeState.ROLLED_BACK}
        | {ChangeState.FAILED}
    ),
}
_SCALINGS: Final = {ChangeKind.SCALE_IN, ChangeKind.SCALE_OUT}


def check(before: State, after: State, actions: Sequence[Action], now: float) -> None:
    """Check one step."""
    for job, change in after.changes.items():
        assert change.job == job
        assert change.in_flight
        assert job in after.jobs, f"{change.id} of a job that is gone"
        spec = after.jobs[job].spec
        assert spec.transacted
        moving = [name for name in spec.replicas if name in after.moves]
        assert not moving, f"{change.id} while {moving} move"
        assert job not in after.claims, f"{job} is changed and has a claim"
        _check_deadline(after, change, now)
    assert all(change.state in OVER for change in after.change_history)
    identities = [change.id for change in (*after.changes.values(), *after.change_history)]
    assert len(identities) == len(set(identities))
    ended = {change.id: change for change in after.change_history}
    for job, change in before.changes.items():
        same = after.changes.get(job)
        same = same if same is not None and same.id == change.id else ended.get(change.id)
        assert same is not None, f"{change.id} vanished"
        _check_progress(change, same)
    known = {change.id for change in before.change_history}
    for change in after.change_history:
        if change.id not in known:
            _check_end(after, change)
    _check_orders(before, after, actions)


def trains(state: State, job: Job, present: Sequence[Replica]) -> bool:
    """Return whether all of the job trains, or all of those that a change of it lets train on."""
    change = state.changes.get(job.name)
    if change is not None and change.kind is not ChangeKind.ADMIT:
        if change.state is ChangeState.CHECKPOINTING:
            return all(state.replicas[name].phase is Phase.RUNNING for name in change.before)
        if change.kind in _SCALINGS and not change.restart:
            stay = set(change.before) & set(change.after)
            present = [each for each in present if each.name in stay]
    return all(each.ended or (each.phase is Phase.RUNNING and each.leaving is None) for each in present)


def _check_deadline(state: State, change: Change, now: float) -> None:
    """No state of a change lasts without end."""
    deadlines, grace = state.settings.deadlines, state.jobs[change.job].spec.grace_seconds
    longest = max(deadlines.checkpoint, deadlines.ready, deadlines.verify, grace + deadlines.eviction_margin)
    assert change.deadline <= now + longest + 1e-6, f"{change.id} may last for {change.deadline - now} s"


def _check_progress(former: Change, later: Change) -> None:
    """See that a change goes along its states, turns back once at most, and keeps what it is about."""
    assert later.attempt in {former.attempt, 2}
    assert (later.kind, later.lead, later.after) == (former.kind, former.lead, former.after)
    assert later.before.keys() == former.before.keys()
    if later.state is not former.state:
        turned = later.attempt > former.attempt
        assert turned or later.state in _LATER[former.state], f"{former.id}: {former.state} -> {later.state}"


def _check_end(state: State, change: Change) -> None:
    """See that it says why it did not succeed; what succeeded is as it was to be."""
    assert change.ended_at is not None
    assert change.state is ChangeState.SUCCEEDED or change.note, f"{change.id} does not say why"
    if change.state is not ChangeState.SUCCEEDED:
        return
    assert change.attempt == 1
    if change.kind in _SCALINGS:
        assert change.proven, f"{change.id} succeeded without a proof"
    job = state.jobs[change.job]
    if change.job in state.changes:
        return
    for name in change.after:
        replica = state.replicas[name]
        assert replica.ended or replica.phase is Phase.RUNNING, f"{change.id} without {name}"
    if change.kind is ChangeKind.PREEMPT:
        # Another one may have been started by its owner meanwhile, which is told that none is to run.
        ran = change.before.keys() & set(job.spec.replicas)
        assert not any(state.replicas[name].active for name in ran)


def _check_orders(before: State, after: State, actions: Sequence[Action]) -> None:
    for change in after.changes.values():
        former = before.changes.get(change.job)
        told = change.state is ChangeState.LEAVING
        begins = told and (former is None or (former.state, former.attempt) != (change.state, change.attempt))
        spec = after.jobs[change.job].spec
        saved = change.checkpoint is not None and change.checkpoint.verified
        if change.state is not ChangeState.CHECKPOINTING and change.kind is not ChangeKind.ADMIT:
            assert saved or spec.checkpointing == "on-termination", f"{change.id} without a checkpoint"
        if begins and not after.jobs[change.job].owned:
            evicted = {action.replica for action in actions if isinstance(action, EvictReplica)}
            here = {n for n in spec.replicas if after.replicas[n].leaving is not None}
            assert here <= evicted, f"{sorted(here - evicted)} were not told to end"
    for action in actions:
        if isinstance(action, PlaceJob):
            job = after.jobs.get(action.job)
            assert job is None or (job.owned and job.spec.transacted)
        elif isinstance(action, StartReplica) and action.gang:
            assert action.replica in action.gang
        elif isinstance(action, RequestCheckpoint) and action.replica not in after.moves:
            change = after.changes.get(after.replicas[action.replica].job)
            assert change is None or action.id == change.id
