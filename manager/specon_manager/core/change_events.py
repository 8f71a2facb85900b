"""What events mean for the changes of jobs: the handlers of `step`, and whose change an event concerns."""

import msgspec

from specon_manager.core import change_ends, changes
from specon_manager.core.change_orders import orders, released
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.changes import ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Phase
from specon_sidecar.wire import Acknowledgement, Report

Step = tuple[State, list[Action]]


def concerned(state: State, event: ev.Event) -> list[str]:
    """Return the jobs whose changes are to be looked at after this event, by name."""
    if isinstance(event, ev.Tick | ev.ManagerStarted | ev.NodeGone):
        return sorted(state.changes)
    if isinstance(event, ev.NodeObserved):
        return [] if event.ready else sorted(state.changes)
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
    if state.replicas[change.lead].incarnation != change.incarnation:
        return state, []  # what it is asked for is over; the look that follows says so
    if not answer.done:
        return changes.unsaved(state, change, f"no checkpoint: {answer.reason or 'refused'}", now)
    if answer.checkpoint is None or not answer.checkpoint.verified:
        return changes.unsaved(state, change, "the sidecar named no verified checkpoint", now)
    return changes.saved(state, msgspec.structs.replace(change, checkpoint=answer.checkpoint), now)


def reported(state: State, report: Report, now: float) -> State:
    """Take note of the first step by which the lead of a change shows that its job trains."""
    change = state.changes.get(_job_of(report.replica))
    if (
        change is None
        or change.state is not ChangeState.VERIFYING
        or change.proven
        or change.running_at is None
    ):
        return state
    lead = state.replicas[change.lead]
    if report.replica != change.lead or report.incarnation != lead.incarnation:
        return state
    step = None if report.last is None else report.last.step
    needed = change.last_step_before
    if lead.incarnation != change.incarnation:
        # It went on from the checkpoint, or from an earlier one by its own doing.
        needed = None if change.checkpoint is None else change.checkpoint.step
    if step is None and change.last_step_before is None:
        return state.with_change(msgspec.structs.replace(change, proven=True))  # its log names no steps
    if step is None or (needed is not None and step <= needed):
        return state
    downtime = None
    if lead.incarnation != change.incarnation and change.last_step_at is not None:
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
    if change.state is ChangeState.CHECKPOINTING and event.job in state.jobs:
        # It cannot be recorded: nobody was asked for a checkpoint.
        return change_ends.rolled_back(state, change, event.reason, now)
    if change.state in {ChangeState.LEAVING, ChangeState.COMING} and event.job in state.jobs:
        return changes.refused(state, change, event.reason, now)
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
            ChangeState.CHECKPOINTING: grace if change.kind is ChangeKind.PREEMPT else deadlines.checkpoint,
            ChangeState.LEAVING: grace + deadlines.eviction_margin,
            ChangeState.COMING: deadlines.ready,
            ChangeState.VERIFYING: deadlines.verify,
        }[change.state]
        again = msgspec.structs.replace(change, deadline=max(change.deadline, now + patience))
        state = state.with_change(again)
        actions += orders(state, again)
    return state, actions


def let_run(state: State) -> list[Action]:
    """Order again that the owners of jobs let them run of which no change is in flight any more.

    A manager that was killed as a change ended may not have said so; told twice, an owner does nothing.
    """
    jobs = (job for job in state.jobs.values() if job.owned and job.spec.adjustable)
    return [released(state, job) for job in jobs if _is_awaited(state, job)]


def let_run_again(state: State, now: float) -> Step:
    """Order it once more of admitted jobs of which nothing runs, for as long as that lasts.

    An order that was given up may have been carried out afterwards, and have suspended them.
    """
    actions: list[Action] = []
    for job in [each for each in state.jobs.values() if each.owned and each.spec.held and each.admitted]:
        members = [state.replicas[name] for name in job.spec.replicas]
        idle = _is_awaited(state, job) and not any(each.active for each in members)
        if idle and now >= job.cooldown_until:
            pause = state.settings.deadlines.ready
            state = state.with_job(msgspec.structs.replace(job, cooldown_until=now + pause))
            actions.append(released(state, job))
    return state, actions


def _is_awaited(state: State, job: Job) -> bool:
    if job.name in state.changes or job.ended_at is not None or (job.spec.held and not job.admitted):
        return False
    return any(state.replicas[name].phase is Phase.AWAITED for name in job.spec.replicas)


def queues_observed(state: State, event: ev.QueuesObserved, now: float) -> Step:
    """Take note of the queues with their quotas; what runs already is not touched."""
    del now
    queues = {queue.name: queue for queue in event.queues}
    return (state, []) if queues == state.queues else (msgspec.structs.replace(state, queues=queues), [])


def _job_of(replica: str) -> str:
    return replica.rpartition("/")[0].rpartition("/")[0]
