"""What events mean for the changes of jobs: the handlers of `step`, and whose change an event concerns."""

import msgspec

from specon_manager.core import change_ends, changes
from specon_manager.core.change_orders import orders, placed
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.changes import Change, ChangeState
from specon_manager.model.cluster import Phase
from specon_sidecar.wire import Acknowledgement, Report

Step = tuple[State, list[Action]]


def concerned(state: State, event: ev.Event) -> list[str]:
    """Return the jobs whose changes are to be looked at after this event, by name."""
    if isinstance(event, ev.Tick | ev.ManagerStarted):
        return sorted(state.changes)
    if isinstance(event, ev.JobObserved | ev.JobSubmitted):
        name: str | None = event.spec.name
    elif isinstance(event, ev.ReportReceived):
        name = _job_of(event.report.replica)
    elif isinstance(event, ev.InstructionAcknowledged):
        name = _job_of(event.acknowledgement.replica)
    else:
        name = getattr(event, "job", None)
        replica = getattr(event, "replica", None)
        name = _job_of(replica) if name is None and isinstance(replica, str) else name
    return [name] if name is not None and name in state.changes else []


def answered(state: State, answer: Acknowledgement, now: float) -> Step:
    """Take the sidecar's answer to the request for a checkpoint."""
    change = state.changes.get(_job_of(answer.replica))
    if (
        change is None
        or change.state is not ChangeState.CHECKPOINTING
        or (change.id, change.lead, change.incarnation) != (answer.id, answer.replica, answer.incarnation)
    ):
        return state, []
    if not answer.done:
        why = f"no checkpoint: {answer.reason or 'refused'}"
        return change_ends.rolled_back(state, change, why, now)
    spec = state.jobs[change.job].spec
    if answer.checkpoint is None and spec.checkpointing == "on-termination":
        return changes.saved(state, change, now)
    if answer.checkpoint is None or not answer.checkpoint.verified:
        why = "the sidecar named no verified checkpoint"
        return change_ends.rolled_back(state, change, why, now)
    return changes.saved(state, msgspec.structs.replace(change, checkpoint=answer.checkpoint), now)


def reported(state: State, report: Report, now: float) -> State:
    """Take note of the first step by which the lead of a change shows that its job trains."""
    change = state.changes.get(_job_of(report.replica))
    if change is None or change.state is not ChangeState.VERIFYING or change.proven:
        return state
    lead = state.replicas[change.lead]
    if report.replica != change.lead or report.incarnation != lead.incarnation:
        return state
    step = None if report.last is None else report.last.step
    needed = change.last_step_before
    if change.restart:
        needed = None if change.checkpoint is None else change.checkpoint.step
    if step is None and change.last_step_before is None:
        return state.with_change(msgspec.structs.replace(change, proven=True))  # its log names no steps
    if step is None or (needed is not None and step <= needed):
        return state
    downtime = None
    if change.restart and change.last_step_at is not None:
        first = report.first if report.first is not None else report.last
        at = now - (0.0 if first is None else first.age)
        downtime = max(0.0, at - change.last_step_at)
    proven = msgspec.structs.replace(change, proven=True, first_step_after=step, downtime=downtime)
    return state.with_change(proven)


def job_refused(state: State, event: ev.JobRefused, now: float) -> Step:
    """Turn a change back that cannot be carried out; on the way back it is tried until it is overdue."""
    change = state.changes.get(event.job)
    if change is None or change.id != event.change or change.attempt > 1:
        return state, []
    if change.state is ChangeState.LEAVING and _untouched(state, change):
        return _stays(state, change, event.reason, now)
    if change.state in {ChangeState.LEAVING, ChangeState.COMING}:
        return changes.failed(state, change, event.reason, now)
    return state, []


def renewed(state: State, now: float) -> Step:
    """Order again what the changes in flight order; deadlines that passed while nobody watched begin anew."""
    actions: list[Action] = []
    deadlines = state.settings.deadlines
    for change in sorted(state.changes.values(), key=lambda each: each.job):
        if change.job not in state.jobs:
            continue
        grace = state.jobs[change.job].spec.grace_seconds
        patience = {
            ChangeState.CHECKPOINTING: deadlines.checkpoint,
            ChangeState.LEAVING: grace + deadlines.eviction_margin,
            ChangeState.COMING: deadlines.ready,
            ChangeState.VERIFYING: deadlines.verify,
        }[change.state]
        again = msgspec.structs.replace(change, deadline=max(change.deadline, now + patience))
        state = state.with_change(again)
        actions += orders(state, again)
    return state, actions


def queues_observed(state: State, event: ev.QueuesObserved, now: float) -> Step:
    """Take note of the queues with their quotas; what runs already is not touched."""
    del now
    queues = {queue.name: queue for queue in event.queues}
    return (state, []) if queues == state.queues else (msgspec.structs.replace(state, queues=queues), [])


def _untouched(state: State, change: Change) -> bool:
    """Whether everything that ran when the change began still does."""
    return all(state.replicas[name].phase is Phase.RUNNING for name in change.before)


def _stays(state: State, change: Change, why: str, now: float) -> Step:
    """Close a change before anything of it came about: everything trains on as it was."""
    asked = msgspec.structs.replace(change, state=ChangeState.CHECKPOINTING)
    state, actions = change_ends.rolled_back(state, asked, why, now)
    job = state.jobs[change.job]
    anywhere = dict.fromkeys(change.before, "")
    return state, [*actions, placed(job, change, anywhere, over=True)]


def _job_of(replica: str) -> str:
    return replica.rpartition("/")[0].rpartition("/")[0]
