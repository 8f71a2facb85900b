"""What time alone brings about: orders given again, restarts after their pause, torn gangs put back."""

from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core import hanging
from specon_manager.core.gang import torn_since
from specon_manager.core.orders import order_end, start
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.restarts import eviction
from specon_manager.core.state import State, Step
from specon_manager.core.transaction.begin import put_back
from specon_manager.core.transaction.orders import release_order
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, Leaving, Phase, Replica
from specon_manager.model.renewal import Chosen

_DOUBLINGS = 4  # of the wait before the owner of a job is told once more that it may run


class _Due(Struct, frozen=True, kw_only=True):
    """The overdue replicas and jobs, each by name."""

    starts: tuple[str, ...]
    """Ordered and not seen."""
    ends: tuple[str, ...]
    """Told to end and still there, or to be told now."""
    restarts: tuple[str, ...]
    """Missing, and their pause is over."""
    torn: tuple[str, ...]
    """Jobs that miss a replica."""


def catch_up(state: State, now: float) -> Step:
    """Return the state in which nothing is overdue any more, and the orders for that."""
    due = _due(state, now)
    actions = list[Action]()
    for name in due.starts:
        state, ordered = _not_started(state, state.replicas[name], now)
        actions += ordered
    for name in due.ends:
        state, ordered = order_end(state, state.replicas[name], now)
        actions += ordered
    state, ordered = _tell_unwanted_again(state, now)
    actions += ordered
    state, ordered = _owners_told_again(state, now)
    actions += ordered
    if objection_while_paused(state) is not None or state.settings.dry_run:
        return state, actions
    for job in due.torn:
        state, ordered = _put_back(state, state.jobs[job], now)
        actions += ordered
    state, ordered = hanging.restart_hung(state, now)
    actions += ordered
    for name in due.restarts:
        state, ordered = _start_again(state, state.replicas[name], now)
        actions += ordered
    return state, actions


def _due(state: State, now: float) -> _Due:
    """Look at replicas in no transaction: transactions have deadlines of their own."""
    moving = {name for each in state.transactions.values() for name in each.concerned}
    changing = {each.job for each in state.transactions.values() if each.whole}
    starts, ends, restarts, torn = [], [], [], dict[str, None]()
    for replica in state.snapshot(now).pressing:
        phase, leaving = replica.phase, replica.leaving
        if replica.name in moving or replica.job in changing:
            continue
        if leaving is not None:
            if now >= leaving.deadline and replica.active:
                ends.append(replica.name)
            continue
        if replica.lost_at is not None:
            torn[replica.job] = None
        if phase is Phase.STARTING:
            if replica.deadline is not None and now >= replica.deadline:
                starts.append(replica.name)
        elif phase is Phase.PENDING and replica.holds and replica.not_before <= now:
            restarts.append(replica.name)
    return _Due(
        starts=tuple(sorted(starts)),
        ends=tuple(sorted(ends)),
        restarts=tuple(sorted(restarts)),
        torn=tuple(sorted(torn)),
    )


def _not_started(state: State, replica: Replica, now: float) -> Step:
    """Tell a replica that was not seen to start to end: it may live, and must not live beside the next."""
    if state.jobs[replica.job].owned:
        return state, []
    told = Leaving(purpose="late", since=now, deadline=now, reason="it did not start in time")
    return order_end(state, msgspec.structs.replace(replica, leaving=told, deadline=None), now)


def _tell_unwanted_again(state: State, now: float) -> Step:
    actions = list[Action]()
    again = dict(state.unwanted)
    for key, known in state.unwanted.items():
        replica = state.replicas.get(known.replica)
        if replica is None:
            del again[key]
        elif now >= known.deadline:
            grace = state.jobs[replica.job].spec.grace_seconds
            due = now + grace + state.settings.deadlines.eviction_margin
            again[key] = msgspec.structs.replace(known, deadline=due)
            why = f"incarnation {known.incarnation} is not wanted"
            actions.append(eviction(state, replica, known.incarnation, why))
    if again == state.unwanted:
        return state, []
    return msgspec.structs.replace(state, unwanted=again), actions


def _owners_told_again(state: State, now: float) -> Step:
    """Tell the owners of incomplete jobs once more that these may run, after ever longer pauses."""
    actions = list[Action]()
    for job in [state.jobs[name] for name in _tended(state.jobs)]:
        if job.release_due is None:
            if _is_idle(state, job):
                due = now + state.settings.deadlines.ready
                state = state.with_job(msgspec.structs.replace(job, release_due=due))
            continue
        if now < job.release_due or state.transactions_of(job.name):
            continue
        pause = state.settings.deadlines.start * 2 ** min(job.released, _DOUBLINGS)
        told = msgspec.structs.replace(job, released=job.released + 1, release_due=now + pause)
        state = state.with_job(told)
        actions.append(release_order(state, told, "something of it is still missing"))
    return state, actions


def _may_be_told(job: Job) -> bool:
    """Whether the owner of a job may have to be told once more that it may run."""
    # Asked of every job by the first Tick: few are held, and fewer still wait for their owner.
    return (job.release_due is not None or (job.admitted and job.spec.held)) and job.owned


_tended: Final = Chosen(_may_be_told)


def _is_idle(state: State, job: Job) -> bool:
    """Whether a job that was admitted does not run: an order that was given up may have reached its owner."""
    if not (job.spec.held and job.admitted) or job.ended_at is not None or state.transactions_of(job.name):
        return False
    members = [state.replicas[name] for name in job.spec.replicas]
    awaited = any(each.phase is Phase.AWAITED for each in members)
    return awaited and not any(each.active for each in members)


def _put_back(state: State, job: Job, now: float) -> Step:
    """Let a gang that misses a part for too long wait again as a whole, from its checkpoint.

    A gang that trains on without that part is left alone. A gang that only its owner lets run gives up the
    room of the missing part.
    """
    since, longest = torn_since(state, job), state.settings.deadlines.ready
    if since is None or now - since < longest:
        return state, []
    members = [state.replicas[name] for name in job.spec.replicas]
    if job.owned and not job.spec.held:
        for replica in members:
            if replica.holds:
                state = state.with_replica(msgspec.structs.replace(replica, holds=False))
        return state, []
    steps = [each.progress.step_at for each in members if each.active and each.progress.step_at is not None]
    if any(now - at < longest for at in steps):
        return state, []
    lost = next(each.name for each in members if each.lost_at is not None)
    why = f"{lost} has been missing for {now - since:.0f} s, and the others wait for it"
    return put_back(state, job, now, why)


def _start_again(state: State, replica: Replica, now: float) -> Step:
    """Start what crashed where it has kept its room; where that node is not ready, let it go elsewhere."""
    job = state.jobs[replica.job]
    if not replica.holds or replica.phase is not Phase.PENDING or state.transactions_of(job.name):
        return state, []
    snapshot, node = state.snapshot(now), replica.node
    if snapshot.about_to_end(job.name):
        return state, []
    assert node is not None
    known = state.nodes.get(node)
    if known is None or not known.ready or snapshot.objection_to(node, job.name) is not None:
        return state.with_replica(msgspec.structs.replace(replica, holds=False)), []
    why = f"start again on {node} beside the others of its job, after crash {replica.crashes}"
    return start(state, job.name, {replica.name: node}, why, now)
