"""Waiting jobs that policies must not see now, each with its reason: they block no job that may start."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from specon_manager.core import starvation
from specon_manager.core.quotas import Usage, closed_to, gang_requests, queue_of
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot

_ROUNDING: Final = 1e-9


def prepare(state: State, now: float) -> tuple[State, Snapshot]:
    """Return what the policy is to decide on, and the state with the claims that hold from now on.

    Room is kept for the job that starves, and none for a job that could not take it.
    """
    snapshot = state.snapshot(now)
    hidden = find_barred_jobs(snapshot)
    attended = starvation.keep_room(_forget_claims(state, hidden), snapshot, hidden)
    if attended is not state:
        snapshot = attended.snapshot(now)
    return attended, snapshot.without({**starvation.jobs_behind_head(snapshot), **hidden})


def withheld_jobs(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the waiting jobs that must not be admitted at this moment, whatever the policy, by name."""
    return {**starvation.jobs_behind_head(snapshot), **find_barred_jobs(snapshot)}


def find_barred_jobs(snapshot: Snapshot) -> Mapping[str, str]:
    """Return those that no room would help: they pause after trouble, or have no quota left."""
    found: dict[str, str] = {}
    waiting = snapshot.waiting
    for job in waiting:
        if job.cooldown_until > snapshot.now:
            left = job.cooldown_until - snapshot.now
            found[job.name] = f"it did not become ready the last time, and is tried again in {left:.0f} s"
    if not snapshot.queues or not waiting:
        return found
    return found | _over_quota([job for job in waiting if queue_of(job) and job.name not in found], snapshot)


def _over_quota(waiting: Iterable[Job], snapshot: Snapshot) -> dict[str, str]:
    """Return the jobs for whose smallest gangs there is no quota.

    A job is shown anyway if only its own queue occupies the nodes, and these are as full as the quota: room
    that a policy makes on nodes is then room in the quota too. If a job of a queue starves for want of quota,
    the later jobs of this queue are barred with it: quota that becomes free is for that job.
    """
    found: dict[str, str] = {}
    usage = Usage(snapshot)
    kept: dict[str, Job] = {}
    free, running = _free(snapshot), {job.spec.queue for job in snapshot.running}
    for job in sorted(waiting, key=lambda job: (job.queued_at, job.order, job.name)):
        queue = queue_of(job)
        taken = queue in usage.queues and closed_to(usage.queues[queue], job) is None
        if taken and queue in kept:
            found[job.name] = _describe_kept(kept[queue], snapshot.now)
            continue
        amount = gang_requests(job, _members(job, snapshot))
        why = usage.against(job, amount)
        if why is None:
            continue
        if taken:
            if running <= {queue} and _as_full_as_the_quota(queue, amount, free, usage):
                continue
            if starvation.starves(job, snapshot) and _ever_fits(queue, amount, usage):
                kept[queue] = job
        found[job.name] = why
    return found


def _members(job: Job, snapshot: Snapshot) -> tuple[Replica, ...]:
    return snapshot.members.get(job.name, ())


def _describe_kept(job: Job, now: float) -> str:
    waits = now - job.queued_at
    return (
        f"quota that becomes free in queue {job.spec.queue} is for {job.name}, which waits for {waits:.0f} s"
    )


def _as_full_as_the_quota(queue: str, amount: Resources, free: Resources, usage: Usage) -> bool:
    """Whether the nodes have no more left than the quota, of all that is asked for."""
    return all(
        getattr(free, kind) * (1 - _ROUNDING) <= usage.headroom(queue, kind).amount
        for kind in ("cpu", "memory", "gpu")
        if getattr(amount, kind) > 0
    )


def _free(snapshot: Snapshot) -> Resources:
    rooms = [snapshot.room(node.name) for node in snapshot.ready_nodes]
    return Resources(
        cpu=sum(room.cpu for room in rooms),
        memory=sum(room.memory for room in rooms),
        gpu=sum(room.gpu for room in rooms),
    )


def _ever_fits(queue: str, amount: Resources, usage: Usage) -> bool:
    """Whether the queue would have quota for this much if it used none of it."""
    used = usage.used(queue)
    return all(
        getattr(amount, kind) <= usage.headroom(queue, kind).amount + getattr(used, kind)
        for kind in ("cpu", "memory", "gpu")
        if getattr(amount, kind) > 0
    )


def _forget_claims(state: State, hidden: Mapping[str, str]) -> State:
    """Return the state in which no room is kept for jobs that could not take it."""
    if not hidden or hidden.keys().isdisjoint(state.claims):
        return state
    claims = {name: claim for name, claim in state.claims.items() if name not in hidden}
    return msgspec.structs.replace(state, claims=claims)
