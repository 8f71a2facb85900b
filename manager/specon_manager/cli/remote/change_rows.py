"""Changes of jobs, and what waits, as commands show them. Pure."""

from collections.abc import Mapping
from typing import Final

from specon_manager.cli.remote.remote import ChangeRow, QueueRow, WaitingRow, iso
from specon_manager.core.queue_use import QueueUse, uses_of
from specon_manager.core.state import State
from specon_manager.core.waiting import waiting_of
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Phase, role_of
from specon_manager.model.resources import NOTHING, Resources

_SHOWN: Final = 3


def change_row(change: Change, state: State) -> ChangeRow:
    """Return a change, in flight or ended."""
    return ChangeRow(
        id=change.id,
        job=change.job,
        kind=str(change.kind),
        state=str(change.state),
        policy=change.policy,
        reason=change.reason,
        note=change.note,
        attempt=change.attempt,
        workers_before=workers_in(change.before),
        workers_after=workers_in(change.after),
        restart=change.restart,
        beneficiary=change.beneficiary or None,
        checkpoint_step=None if change.checkpoint is None else change.checkpoint.step,
        first_step_after=change.first_step_after,
        awaited=awaited(change, state) if change.in_flight else "",
        deadline=iso(change.deadline) if change.in_flight else None,
        proposed_at=iso(change.proposed_at),
        ended_at=iso(change.ended_at),
        downtime_seconds=None if change.downtime is None else round(change.downtime, 3),
    )


def change_rows(state: State) -> tuple[ChangeRow, ...]:
    """Return every change that a state has, in the order in which they began."""
    found = sorted((*state.change_history, *state.changes.values()), key=_order)
    return tuple(change_row(change, state) for change in found)


def workers_in(placement: Mapping[str, str]) -> int:
    """Return how many workers there are among these replicas."""
    return sum(role_of(name) != "ps" for name in placement)


def awaited(change: Change, state: State) -> str:
    """Return what a change in flight waits for, in words."""
    if change.state is ChangeState.CHECKPOINTING:
        return f"a verified checkpoint of {change.lead}"
    replicas = state.replicas
    concerned = sorted({*change.before, *change.after})
    if change.state is ChangeState.LEAVING:
        going = [name for name in concerned if name in replicas and replicas[name].leaving is not None]
        return f"the end of {_listed(going)}" if going else "that what was told to end is gone"
    wanted = sorted(change.wanted)
    if change.state is ChangeState.COMING:
        coming = [n for n in wanted if n in replicas and replicas[n].phase is not Phase.RUNNING]
        return f"the start of {_listed(coming)}" if coming else "that everything runs"
    since = change.running_at or 0.0
    silent = [
        name
        for name in wanted
        if role_of(name) != "ps" and name in replicas and (replicas[name].progress.reported_at or 0.0) < since
    ]
    proof = [] if change.proven else [f"a step of {change.lead} that shows that it trains"]
    heard = [f"a report of {_listed(silent)}"] if silent else []
    return ", and ".join([*proof, *heard]) or "the next look"


def waiting_rows(state: State, now: float) -> tuple[WaitingRow, ...]:
    """Return the jobs that wait, in the order of submission."""
    return tuple(
        WaitingRow(
            job=each.job,
            queue=each.queue,
            position=each.position,
            overall=each.overall,
            since=iso(each.since),
            kind=each.kind,
            text=each.text,
        )
        for each in waiting_of(state, now).values()
    )


def queue_rows(state: State, now: float) -> tuple[QueueRow, ...]:
    """Return the queues by name: those with a quota, and those that jobs name which wait or run."""
    return tuple(_queue_row(state, name, use) for name, use in sorted(uses_of(state, now).items()))


def change_label(kind: str, before: int, after: int) -> str:
    """Return what a change does, in a few characters: `scale-in 4 -> 2`."""
    if kind == str(ChangeKind.ADMIT):
        return f"{kind} {after}"
    return kind if kind == str(ChangeKind.PREEMPT) else f"{kind} {before} -> {after}"


def _queue_row(state: State, name: str, use: QueueUse) -> QueueRow:
    queue = state.queues.get(name)
    return QueueRow(
        queue=name,
        quota=None if queue is None else queue.quota,
        borrow=queue is not None and queue.borrow,
        limit=None if queue is None else queue.limit,
        used=use.used,
        borrowed=NOTHING if queue is None else beyond(use.used, queue.quota),
        running=use.running,
        waiting=use.waiting,
    )


def beyond(used: Resources, quota: Resources) -> Resources:
    """Return what is used beyond a quota."""
    return Resources(
        cpu=max(0.0, used.cpu - quota.cpu),
        memory=max(0.0, used.memory - quota.memory),
        gpu=max(0.0, used.gpu - quota.gpu),
    )


def _order(change: Change) -> tuple[float, int, str]:
    return change.proposed_at, len(change.id), change.id


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
