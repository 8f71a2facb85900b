"""What the present state of a change orders; the same again after a restart of the manager."""

from collections.abc import Mapping

from specon_manager.core.change_members import concerned, kept
from specon_manager.core.restarts import eviction
from specon_manager.core.state import State
from specon_manager.model.actions import Action, PlaceJob, RequestCheckpoint, StartReplica, WithdrawRequest
from specon_manager.model.changes import Change, ChangeState
from specon_manager.model.cluster import Job, Phase


def orders(state: State, change: Change) -> list[Action]:
    """Return the orders; every one may be carried out twice."""
    job = state.jobs[change.job]
    if change.state is ChangeState.CHECKPOINTING:
        return _asked(change)
    if change.state is ChangeState.LEAVING:
        return [placed(job, change, kept(change))] if job.owned else _ended(state, change)
    if change.state is ChangeState.COMING:
        return [placed(job, change, change.wanted)] if job.owned else _started(state, job, change)
    return []


def placed(job: Job, change: Change, placement: Mapping[str, str], *, over: bool = False) -> PlaceJob:
    """Return the order for the owner of a job; `over`: the change is not in flight any more."""
    return PlaceJob(
        job=job.name,
        change="" if over else change.id,
        placement={name: (node or None) for name, node in placement.items()},
        grace_seconds=job.spec.grace_seconds,
        reason=f"{change.id}: {change.note if change.attempt > 1 else change.reason}",
    )


def released(state: State, job: Job) -> PlaceJob:
    """Return the order for the owner of a job of which no change is in flight: it runs as its owner says."""
    members = (state.replicas[name] for name in job.spec.replicas)
    return PlaceJob(
        job=job.name,
        change="",
        placement={each.name: None for each in members if each.active or each.phase is Phase.AWAITED},
        grace_seconds=job.spec.grace_seconds,
        reason="no change of it is in flight, and it does not wait to be admitted",
    )


def withdrawn(change: Change) -> list[Action]:
    """Return that nobody waits for the checkpoint of the change any more."""
    why = f"{change.id}: {change.state}"
    return [WithdrawRequest(id=change.id, replica=change.lead, reason=why)]


def _asked(change: Change) -> list[Action]:
    if change.incarnation is None:
        return []
    return [
        RequestCheckpoint(
            id=change.id,
            replica=change.lead,
            incarnation=change.incarnation,
            deadline=change.deadline,
            reason=f"{change.id} needs a checkpoint: {change.kind}, {change.reason}",
        )
    ]


def _ended(state: State, change: Change) -> list[Action]:
    """Return the evictions of what was told to end."""
    found: list[Action] = []
    for name in concerned(change):
        replica = state.replicas[name]
        if replica.leaving is not None:
            found.append(eviction(state, replica, replica.incarnation, replica.leaving.reason))
    return found


def _started(state: State, job: Job, change: Change) -> list[Action]:
    gang = tuple(name for name in job.spec.replicas if name in change.wanted)
    return [
        StartReplica(
            replica=name,
            start=state.replicas[name].starts,
            node=node or None,
            template=job.spec.template,
            reason=f"{change.id}: {change.note if change.attempt > 1 else change.reason}",
            gang=gang,
        )
        for name, node in sorted(change.wanted.items())
        if state.replicas[name].phase is Phase.STARTING
    ]
