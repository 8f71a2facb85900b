"""Changes of whole jobs within the state: begun, looked at after each event, and ended.

What the present state of a change asks for is compared with what its replicas' records say (level-triggered),
so it does not matter which event came first, twice or never. No job is ended or scaled before a checkpoint
of its first worker is verified; nothing counts as done before all of it trains.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from specon_manager.core import change_ends
from specon_manager.core.change_orders import orders
from specon_manager.core.gang import regrouped
from specon_manager.core.state import State
from specon_manager.model.actions import Action, AdmitGang, Preempt, ScaleIn, ScaleOut
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Leaving, Phase, Replica, role_of

Step = tuple[State, list[Action]]
Changing = AdmitGang | ScaleOut | ScaleIn | Preempt

_KINDS: Final[Mapping[type, ChangeKind]] = {
    AdmitGang: ChangeKind.ADMIT,
    ScaleOut: ChangeKind.SCALE_OUT,
    ScaleIn: ChangeKind.SCALE_IN,
    Preempt: ChangeKind.PREEMPT,
}


def kind_of(proposal: Changing) -> ChangeKind:
    """Return what a proposal changes."""
    return _KINDS[type(proposal)]


def begun(proposal: Changing, state: State, now: float) -> Change:
    """Return the record of an accepted proposal."""
    job = state.jobs[proposal.job]
    members = [state.replicas[name] for name in job.spec.replicas]
    before = {each.name: each.node or "" for each in members if each.active}
    after = dict(before)
    if isinstance(proposal, AdmitGang):
        before, after = {}, dict(proposal.placement)
    elif isinstance(proposal, ScaleOut):
        after |= proposal.placement
    elif isinstance(proposal, ScaleIn):
        after = {name: node for name, node in before.items() if name not in proposal.replicas}
    else:
        after = {}
    lead = state.replicas[job.spec.worker_names[0]]
    number = state.change_count + 1
    return Change(
        id=f"change-{number}",
        job=job.name,
        kind=kind_of(proposal),
        policy=state.settings.policy,
        reason=proposal.reason,
        state=ChangeState.CHECKPOINTING,
        proposed_at=now,
        deadline=now,
        before=before,
        after=after,
        restart=job.spec.resizing == "restart" and isinstance(proposal, ScaleIn | ScaleOut),
        beneficiary=proposal.beneficiary if isinstance(proposal, Preempt) else "",
        lead=lead.name,
        incarnation=lead.incarnation,
    )


def begin(state: State, proposal: Changing, now: float) -> Step:
    """Return the state in which the proposal is under way, and what is ordered for it."""
    change = begun(proposal, state, now)
    state = msgspec.structs.replace(state, change_count=state.change_count + 1, changed_at=now)
    job = state.jobs[change.job]
    if change.kind is ChangeKind.ADMIT:
        admitted = now if job.admitted_at is None else job.admitted_at
        job = msgspec.structs.replace(job, admitted=True, admitted_at=admitted)
        state = state.with_job(job)
        for name in job.spec.replicas:
            replica = state.replicas[name]
            if name not in change.after and replica.phase in {Phase.PENDING, Phase.AWAITED}:
                state = state.with_replica(msgspec.structs.replace(replica, phase=Phase.ABSENT))
        claims = {name: claim for name, claim in state.claims.items() if name != job.name}
        return _coming(msgspec.structs.replace(state, claims=claims), change, now)
    if change.kind is ChangeKind.PREEMPT:
        state = state.with_job(msgspec.structs.replace(job, preemptions=job.preemptions + 1))
    if job.spec.checkpointing == "on-termination":
        return _leaving(state, change, now)
    deadlines = state.settings.deadlines
    patience = job.spec.grace_seconds if change.kind is ChangeKind.PREEMPT else deadlines.checkpoint
    change = msgspec.structs.replace(change, deadline=now + patience)
    state = _told(state, change, now, restart=False)
    for name in change.after.keys() - change.before.keys():
        # Its room is taken from now on.
        coming = msgspec.structs.replace(
            state.replicas[name],
            phase=Phase.STARTING,
            node=change.after[name],
            incarnation=None,
            deadline=None,
        )
        state = state.with_replica(coming)
    state = regrouped(state.with_change(change), job.name, now)
    return state, orders(state, change)


def look(state: State, name: str, now: float) -> Step:
    """Advance the change of a job as far as the records of its replicas let it; return what is ordered."""
    change = state.changes.get(name)
    if change is None:
        return state, []
    job = state.jobs.get(name)
    if job is None:
        return change_ends.forgotten(state, change, now)
    if _ends(state, job, change):
        return change_ends.rolled_back(state, change, "it ends by itself", now)
    if (edited := _edited(job, change)) is not None:
        why = f"its owner changed the number of its workers to {edited} meanwhile"
        return change_ends.rolled_back(state, change, why, now)
    if change.state is ChangeState.CHECKPOINTING:
        return _look_at_checkpoint(state, change, now)
    if change.state is ChangeState.LEAVING:
        return _look_at_leaving(state, change, now)
    return _look_at_coming(state, job, change, now)


def saved(state: State, change: Change, now: float) -> Step:
    """Go on with a change whose checkpoint is verified, or will be written when the job is told to end."""
    return _leaving(state, change, now)


def failed(state: State, change: Change, why: str, now: float) -> Step:
    """Turn a change back whose replicas were told to end or to start; on the way back, give it up."""
    if change.attempt > 1:
        return change_ends.given_up(state, change, why, now)
    change = msgspec.structs.replace(change, attempt=2, note=why)
    for name in change.after.keys() - change.before.keys():
        replica = state.replicas[name]
        if replica.phase is not Phase.RUNNING and replica.leaving is None and not change.restart:
            # A start that was ordered and not seen: whatever there is of it has to go first.
            leaving = _note_to_leave(state, change, now, "scale-in" if change.before else "preempt")
            state = state.with_replica(
                msgspec.structs.replace(replica, phase=Phase.STARTING, leaving=leaving)
            )
    return _leaving(state, change, now)


def _look_at_checkpoint(state: State, change: Change, now: float) -> Step:
    lead = state.replicas[change.lead]
    lost = [name for name in change.before if state.replicas[name].phase is not Phase.RUNNING]
    if lost:
        why = f"{lost[0]} ended before the checkpoint was verified"
        return change_ends.rolled_back(state, change, why, now)
    if lead.incarnation != change.incarnation:
        return change_ends.rolled_back(state, change, f"{lead.name} was started anew meanwhile", now)
    if now < change.deadline:
        return state, []
    known = lead.progress.checkpoint
    if change.kind is ChangeKind.PREEMPT and known is not None and known.verified:
        # Its grace is over. What it saved by itself is what it goes on from.
        return _leaving(state, msgspec.structs.replace(change, checkpoint=known), now)
    return change_ends.rolled_back(state, change, "no verified checkpoint in time", now)


def _look_at_leaving(state: State, change: Change, now: float) -> Step:
    if any(state.replicas[name].leaving is not None for name in _concerned(change)):
        if now < change.deadline:
            return state, []
        again = msgspec.structs.replace(change, deadline=now + _patience_to_leave(state, change))
        state = state.with_change(again)
        return state, orders(state, again)
    if not change.wanted:
        if change.kind is ChangeKind.PREEMPT and change.attempt == 1:
            return change_ends.succeeded(state, change, now)
        return change_ends.rolled_back(state, change, change.note, now)
    return _coming(state, change, now)


def _look_at_coming(state: State, job: Job, change: Change, now: float) -> Step:
    wanted = [state.replicas[name] for name in change.wanted]
    runs = all(each.phase is Phase.RUNNING and each.leaving is None for each in wanted)
    if change.state is ChangeState.COMING and runs:
        return _verifying(state, change, now)
    lost = [each for each in wanted if not each.active]
    if lost and not job.owned:
        note = lost[0].note or f"it is {lost[0].phase}"
        return failed(state, change, f"{lost[0].name}: {note}", now)
    if change.state is ChangeState.VERIFYING and runs and change.proven and _all_heard(wanted, change):
        return change_ends.succeeded(state, change, now)
    if now < change.deadline:
        return state, []
    missing = [each.name for each in wanted if each.phase is not Phase.RUNNING]
    why = f"{missing[0]} did not start in time" if missing else "it did not show in time that it trains"
    return failed(state, change, why, now)


def _verifying(state: State, change: Change, now: float) -> Step:
    if change.kind is ChangeKind.ADMIT:
        return change_ends.succeeded(state, change, now)
    lead = state.replicas[change.lead]
    # While the others train on, a step after the last one known is the proof.
    before = change.last_step_before if change.restart else lead.progress.step
    change = msgspec.structs.replace(
        change,
        state=ChangeState.VERIFYING,
        running_at=now,
        proven=False,
        first_step_after=None,
        last_step_before=before,
        deadline=now + state.settings.deadlines.verify,
    )
    return state.with_change(change), []


def _leaving(state: State, change: Change, now: float) -> Step:
    """Tell what is not wanted any more to end, or go on at once where there is nothing."""
    lead = state.replicas[change.lead].progress
    if change.changing_at is None:
        change = msgspec.structs.replace(
            change, changing_at=now, last_step_before=lead.step, last_step_at=lead.step_at
        )
    change = msgspec.structs.replace(
        change, state=ChangeState.LEAVING, deadline=now + _patience_to_leave(state, change)
    )
    state = _told(state, change, now, restart=change.restart)
    if all(state.replicas[name].leaving is None for name in _concerned(change)):
        return look(state.with_change(change), change.job, now)
    state = regrouped(state.with_change(change), change.job, now)
    return state, orders(state, change)


def _coming(state: State, change: Change, now: float) -> Step:
    """Have what is wanted and does not run started."""
    change = msgspec.structs.replace(
        change,
        state=ChangeState.COMING,
        deadline=now + state.settings.deadlines.ready,
        changing_at=now if change.changing_at is None else change.changing_at,
    )
    for name, node in change.wanted.items():
        replica = state.replicas[name]
        if replica.phase is not Phase.RUNNING:
            starting = msgspec.structs.replace(
                replica,
                phase=Phase.STARTING,
                node=node or None,
                incarnation=None,
                starts=replica.starts + 1,
                deadline=None,
                leaving=None,
                weight=1.0,
            )
            state = state.with_replica(starting)
    state = regrouped(state.with_change(change), change.job, now)
    ordered = orders(state, change)
    state, more = look(state, change.job, now) if not ordered else (state, [])
    return state, ordered + more


def _told(state: State, change: Change, now: float, *, restart: bool) -> State:
    """Return the state in which the records of what is to go say so; `restart`: also of what comes back."""
    for name in _concerned(change):
        replica = state.replicas[name]
        stays = name in change.wanted
        if not replica.active or replica.leaving is not None or (stays and not restart):
            continue
        if replica.phase is Phase.STARTING and (stays or change.state is ChangeState.CHECKPOINTING):
            continue
        purpose = "restart" if stays else ("scale-in" if change.wanted else "preempt")
        leaving = _note_to_leave(state, change, now, purpose)
        state = state.with_replica(msgspec.structs.replace(replica, leaving=leaving))
    return state


def _note_to_leave(state: State, change: Change, now: float, purpose: str) -> Leaving:
    why = f"{change.id}: {change.note or change.reason}"
    until = max(now, change.deadline) + _patience_to_leave(state, change)
    return Leaving(purpose=purpose, since=now, deadline=until, reason=why)  # type: ignore[arg-type]


def _patience_to_leave(state: State, change: Change) -> float:
    grace = state.jobs[change.job].spec.grace_seconds
    return grace + state.settings.deadlines.eviction_margin


def _concerned(change: Change) -> list[str]:
    return sorted({*change.before, *change.after})


def _ends(state: State, job: Job, change: Change) -> bool:
    """Whether the training is over, or about to be: then there is nothing left to change."""
    if job.ended_at is not None:
        return True
    return any(
        each.ended or (each.leaving is not None and each.leaving.purpose in {"complete", "fail"})
        for each in (state.replicas[name] for name in _concerned(change) if name in state.replicas)
    )


def _edited(job: Job, change: Change) -> int | None:
    """Return the number of workers that its owner asks for by now, where it is neither old nor new."""
    present = job.spec.present
    if not job.owned or present is None or change.state is ChangeState.CHECKPOINTING:
        return None
    known = {_workers(change.before), _workers(change.after)}
    if change.kind is not ChangeKind.ADMIT and change.kind is not ChangeKind.PREEMPT and present not in known:
        return present
    return None


def _workers(placement: Mapping[str, str]) -> int:
    return sum(role_of(name) != "ps" for name in placement)


def _all_heard(wanted: list[Replica], change: Change) -> bool:
    """Whether the sidecar of every worker has reported since all of them run."""
    return all(
        each.progress.sessions and (each.progress.reported_at or 0.0) >= (change.running_at or 0.0)
        for each in wanted
        if each.role != "ps"
    )
