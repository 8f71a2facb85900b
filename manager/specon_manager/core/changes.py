"""Changes of whole jobs within the state: looked at after each event, carried on, and turned back.

What the present state of a change asks for is compared with what its replicas' records say (level-triggered),
so it does not matter which event came first, twice or never. No job is ended or scaled before a checkpoint
of its first worker is verified; nothing counts as done before all of it trains.
"""

from typing import Final

import msgspec

from specon_manager.core import change_ends
from specon_manager.core import change_members as members
from specon_manager.core.change_orders import orders, withdrawn
from specon_manager.core.gang import regrouped
from specon_manager.core.restarts import left
from specon_manager.core.state import State
from specon_manager.model.actions import Action
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Phase, Replica

Step = tuple[State, list[Action]]

_REPEATS: Final = 2
"""How often the owner of a job is told again to let replicas go before that is given up."""


def look(state: State, name: str, now: float) -> Step:
    """Advance the change of a job as far as the records of its replicas let it; return what is ordered."""
    change = state.changes.get(name)
    if change is None:
        return state, []
    job = state.jobs.get(name)
    if job is None:
        return change_ends.forgotten(state, change, now)
    if not members.described(state, change):
        why = "its description names other replicas by now"
        return change_ends.rolled_back(state, change, why, now)
    if change.attempt == 1 and members.admitted_whole(state, change):
        return change_ends.succeeded(state, change, now)
    if _ends(state, job, change):
        return change_ends.rolled_back(state, change, "it ends by itself", now)
    if (edited := _edited(job, change)) is not None:
        why = f"its owner changed the number of its workers to {edited} meanwhile"
        return change_ends.rolled_back(state, change, why, now)
    if change.state is ChangeState.CHECKPOINTING:
        return _look_at_checkpoint(state, change, now)
    if change.state is ChangeState.LEAVING:
        return _look_at_leaving(state, job, change, now)
    return _look_at_coming(state, job, change, now)


def saved(state: State, change: Change, now: float) -> Step:
    """Go on with a change whose checkpoint is verified."""
    return leaving(state, change, now)


def unsaved(state: State, change: Change, why: str, now: float) -> Step:
    """Leave everything as it was, for no checkpoint was written for the change.

    A job that is preempted has had its chance to write one: what it saved by itself is what it goes on from.
    """
    known = state.replicas[change.lead].progress.checkpoint
    if change.kind is ChangeKind.PREEMPT and known is not None and known.verified:
        state, ordered = leaving(state, msgspec.structs.replace(change, checkpoint=known), now)
        return state, [*withdrawn(change), *ordered]
    return change_ends.rolled_back(state, change, why, now)


def failed(state: State, change: Change, why: str, now: float) -> Step:
    """Turn a change back whose replicas were told to end or to start; on the way back, give it up."""
    if change.attempt > 1:
        return change_ends.given_up(state, change, why, now)
    owned = state.jobs[change.job].owned
    if not owned and (lacking := members.no_way_back(state, change, now)) is not None:
        return change_ends.given_up(state, msgspec.structs.replace(change, note=why), lacking, now)
    change = msgspec.structs.replace(change, attempt=2, note=why, repeats=0)
    if owned:
        change = members.anywhere_where_lost(state, change)
    return leaving(state, change, now)


def refused(state: State, change: Change, why: str, now: float) -> Step:
    """End a change that its owner does not carry out: it is turned back where something came of it."""
    untouched = all(state.replicas[name].phase is Phase.RUNNING for name in change.before)
    if change.state is ChangeState.LEAVING and change.attempt == 1 and untouched:
        return change_ends.stays(state, change, why, now)
    return failed(state, change, why, now)


def _look_at_checkpoint(state: State, change: Change, now: float) -> Step:
    lead = state.replicas[change.lead]
    lost = [name for name in sorted(change.before) if state.replicas[name].phase is not Phase.RUNNING]
    if lost:
        why = f"{lost[0]} ended before the checkpoint was verified"
        return change_ends.rolled_back(state, change, why, now)
    if lead.incarnation != change.incarnation:
        return change_ends.rolled_back(state, change, f"{lead.name} was started anew meanwhile", now)
    if (gone := members.node_lost(state, change)) is not None:
        return change_ends.rolled_back(state, change, gone, now)
    if now < change.deadline:
        return state, []
    return unsaved(state, change, "no verified checkpoint in time", now)


def _look_at_leaving(state: State, job: Job, change: Change, now: float) -> Step:
    # What its owner started anew in the meantime has to go as well.
    state = members.room_taken(members.told(state, change, now), change)
    here = [each for each in _records(state, change) if each.leaving is not None]
    if here and now < change.deadline:
        return state, []
    if here and job.owned:
        for replica in here:
            if replica.phase is Phase.STARTING:
                # It was never seen, and by now its owner has had the time to take it back.
                state = left(state, replica, now)
        here = [each for each in _records(state, change) if each.leaving is not None]
    if here:
        why = f"{here[0].name} was not made to go, however often that was asked for"
        if job.owned and change.repeats >= _REPEATS:
            return refused(state, change, why, now)
        again = msgspec.structs.replace(
            change,
            deadline=now + members.patience_to_leave(state, change),
            repeats=change.repeats + 1,
        )
        state = state.with_change(again)
        return state, orders(state, again)
    if not change.wanted:
        if change.attempt == 1:
            return change_ends.succeeded(state, change, now)
        return change_ends.rolled_back(state, change, change.note, now)
    return coming(state, change, now)


def _look_at_coming(state: State, job: Job, change: Change, now: float) -> Step:
    wanted = [state.replicas[name] for name in sorted(change.wanted)]
    lost = [each for each in wanted if not each.active and not each.ended]
    if lost and not job.owned:
        note = lost[0].note or f"it is {lost[0].phase}"
        return failed(state, change, f"{lost[0].name}: {note}", now)
    if lost:
        # Its owner starts it again: it keeps its room until then.
        state = members.room_taken(state, change)
        wanted = [state.replicas[name] for name in sorted(change.wanted)]
    if (gone := members.node_lost(state, change)) is not None:
        return failed(state, change, gone, now)
    runs = all(each.phase is Phase.RUNNING and each.leaving is None for each in wanted if not each.ended)
    if runs and change.state is ChangeState.COMING:
        return _verifying(state, change, now)
    if not runs and change.running_at is not None:
        change = msgspec.structs.replace(change, running_at=None, proven=False)
        state = state.with_change(change)
    elif runs and change.running_at is None:
        change = _proof_awaited(state, change, now)
        state = state.with_change(change)
    if runs and change.proven and _all_heard(wanted, change):
        return change_ends.succeeded(state, change, now)
    if now < change.deadline:
        return state, []
    missing = [each.name for each in wanted if each.phase is Phase.STARTING]
    why = f"{missing[0]} did not start in time" if missing else "it did not show in time that it trains"
    return failed(state, change, why, now)


def _verifying(state: State, change: Change, now: float) -> Step:
    if change.kind is ChangeKind.ADMIT:
        return change_ends.succeeded(state, change, now)
    deadline = now + state.settings.deadlines.verify
    change = msgspec.structs.replace(change, state=ChangeState.VERIFYING, deadline=deadline)
    state = state.with_change(_proof_awaited(state, change, now))
    return regrouped(state, change.job, now), []


def _proof_awaited(state: State, change: Change, now: float) -> Change:
    """Return the change in which all that is wanted runs since now, and nothing is proven yet."""
    lead = state.replicas[change.lead]
    known = change.last_step_before
    if lead.incarnation == change.incarnation:
        # It trains on meanwhile: a step after the last one known is the proof.
        known = lead.progress.step
    return msgspec.structs.replace(
        change, running_at=now, proven=False, first_step_after=None, last_step_before=known
    )


def leaving(state: State, change: Change, now: float) -> Step:
    """Tell what is not wanted any more to end, or go on at once where there is nothing."""
    if change.changing_at is None:
        lead = state.replicas[change.lead].progress
        change = msgspec.structs.replace(
            change, changing_at=now, last_step_before=lead.step, last_step_at=lead.step_at
        )
    change = msgspec.structs.replace(
        change, state=ChangeState.LEAVING, deadline=now + members.patience_to_leave(state, change)
    )
    state = members.told(state, change, now, unseen=change.attempt > 1)
    state = members.room_taken(state, change)
    state = regrouped(state.with_change(change), change.job, now)
    if any(each.leaving is not None for each in _records(state, change)):
        return state, orders(state, change)
    # Where nothing is to run, its owner is told so even if nothing of it was seen.
    said = orders(state, change) if not change.wanted else []
    state, ordered = look(state, change.job, now)
    return state, [*said, *ordered]


def coming(state: State, change: Change, now: float) -> Step:
    """Have what is wanted and does not run started."""
    change = msgspec.structs.replace(
        change,
        state=ChangeState.COMING,
        deadline=now + state.settings.deadlines.ready,
        changing_at=now if change.changing_at is None else change.changing_at,
    )
    if (gone := members.node_lost(state, change)) is not None:
        return failed(state.with_change(change), change, gone, now)
    for name, node in sorted(change.wanted.items()):
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
    state, more = look(state, change.job, now)
    return state, [*ordered, *more]


def _records(state: State, change: Change) -> list[Replica]:
    return [state.replicas[name] for name in members.concerned(change)]


def _ends(state: State, job: Job, change: Change) -> bool:
    """Whether the training is over, or about to be: then there is nothing left to change."""
    if job.ended_at is not None:
        return True
    over = {Phase.FAILED} if change.kind is ChangeKind.ADMIT else {Phase.FAILED, Phase.SUCCEEDED}
    return any(
        each.phase in over or (each.leaving is not None and each.leaving.purpose in {"complete", "fail"})
        for each in _records(state, change)
    )


def _edited(job: Job, change: Change) -> int | None:
    """Return the number of workers that its owner asks for by now, where it is neither old nor new."""
    present = job.spec.present
    if not job.owned or present is None or change.kind in {ChangeKind.ADMIT, ChangeKind.PREEMPT}:
        return None
    known = {members.workers(change.before)}
    if change.state is not ChangeState.CHECKPOINTING:
        known.add(members.workers(change.after))
    return None if present in known else present


def _all_heard(wanted: list[Replica], change: Change) -> bool:
    """Whether the sidecar of every worker has reported since all of them run."""
    since = change.running_at
    return since is not None and all(
        each.progress.sessions and (each.progress.reported_at or 0.0) >= since
        for each in wanted
        if each.role != "ps"
    )
