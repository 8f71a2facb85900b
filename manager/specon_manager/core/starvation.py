"""The bound on waiting: the job that has waited too long gets whatever room becomes free. Pure.

With S = `Settings.starvation`, a job starves that waits for at least S, has no quota against it, pauses after
no trouble, and would have room for its smallest gang if the nodes were empty. At any time one of them is the
*head*: the one that waits longest, and it stays the head until it is admitted. Room for its smallest gang is
kept on a fixed set T of nodes by a firm claim, which no policy can give up.

Bound. Let t0 be when a job becomes the head, and L the longest that anything which occupies T at t0 still
does so. Then it is admitted by t0 + L, and one Tick. Proof: after t0 a replica starts, grows or is moved to a
node of T only where that leaves the head's share of the node free, and whatever is free beside such a start
stays free for the head by the same rule. So on each node of T the head's share is free as soon as nothing
occupies it that did at t0, which is by t0 + L; at the next Tick no other waiting job is shown to the policy,
and if the policy does not propose the head's admission, the manager does.

Each of the k jobs that starve before it has such a wait of its own: a job waits for no longer than
S + (k + 1) L, where L now is the longest run that there is, and one Tick for each. k is at most the number of
jobs that began to wait before it. That holds while nothing crashes and the nodes stay: a replica that crashed
is started again beside the others of its job, even on T, and where a node of T is lost, T is chosen again and
t0 with it. A job that does not become ready, or is preempted, begins to wait again; the budget of preemptions
bounds how often that is in an hour, and `progress` preempts no job that is late for a shorter one. It does
not hold against what this manager does not place.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from specon_manager.core.quotas import smallest
from specon_manager.core.state import State
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Objection,
    Proposal,
    Refusal,
    ScaleOut,
)
from specon_manager.model.cluster import Claimed, Job, Replica
from specon_manager.model.resources import NOTHING, Resources, size
from specon_manager.model.snapshot import Snapshot

_CLAIMED_FOR: Final = 86400.0
"""Seconds; a firm claim is renewed long before it ends."""


def head(snapshot: Snapshot) -> tuple[str, Claimed] | None:
    """Return the job for which room is kept since it starves, with its claim."""
    name = snapshot.firm
    return None if name is None else (name, snapshot.claims[name])


def starves(job: Job, snapshot: Snapshot) -> bool:
    """Whether the job has waited for so long that it goes before others."""
    limit = snapshot.settings.starvation
    return limit is not None and snapshot.now - job.queued_at >= limit


def keep_room(state: State, snapshot: Snapshot, barred: Mapping[str, str]) -> State:
    """Return the state in which room is kept for the job that is the head now, and for no other like that.

    `barred` are the waiting jobs that must not be admitted now, whatever room there is.
    """
    firm = [name for name, claim in state.claims.items() if claim.firm]
    limit = state.settings.starvation
    if limit is None or state.settings.dry_run:
        return _without(state, firm)
    waiting = {
        job.name: job
        for job in snapshot.waiting
        if job.name not in barred and snapshot.now - job.queued_at >= limit
    }
    for name in firm:
        if name in waiting and _stands(state.claims[name], waiting[name], snapshot):
            return _renew(_without(state, [other for other in firm if other != name]), name, snapshot.now)
    state = _without(state, firm)
    hopeless: set[object] = set()
    for job in sorted(waiting.values(), key=lambda job: (job.queued_at, job.order, job.name)):
        spec = job.spec
        asked = (spec.requests, spec.ps_requests, spec.of_each)
        shape = (*asked, len(spec.ps), spec.fewest_workers, spec.constraints)
        if shape in hopeless:
            continue
        placement = _place(job, snapshot)
        if placement is None:
            hopeless.add(shape)
            continue
        why = f"it waits for {snapshot.now - job.queued_at:.0f} s, and gets room first from {limit:.0f} s on"
        claim = Claimed(placement=placement, until=snapshot.now + _CLAIMED_FOR, reason=why, firm=True)
        return msgspec.structs.replace(state, claims={**state.claims, job.name: claim})
    return state


def may_start(snapshot: Snapshot) -> bool:
    """Whether all the room that is kept for the head is free by now."""
    found = head(snapshot)
    if found is None:
        return False
    name, claim = found
    return all(
        amount.fits(snapshot.open_room(node, name)) for node, amount in _amounts(claim, snapshot).items()
    )


def jobs_behind_head(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the waiting jobs that the policy is not to see since the head can start: all but that."""
    found = head(snapshot)
    if found is None or not may_start(snapshot):
        return {}
    name, _ = found
    waits = snapshot.now - snapshot.jobs[name].queued_at
    why = f"{name} goes first: it waits for {waits:.0f} s, and has room now"
    return {job.name: why for job in snapshot.waiting if job.name != name}


def admission(snapshot: Snapshot, proposals: Iterable[Proposal]) -> AdmitGang | None:
    """Return the admission of the head where it has room and no policy proposes to admit it."""
    found = head(snapshot)
    if found is None or not may_start(snapshot):
        return None
    name, claim = found
    for proposal in proposals:
        if isinstance(proposal, AdmitGang) and proposal.job == name:
            return None
        if isinstance(proposal, Admit) and snapshot.replicas[proposal.replica].job == name:
            return None
    why = f"the room that was kept for it is free: {claim.reason}"
    return AdmitGang(job=name, placement=dict(claim.placement), reason=why)


def objection(proposal: Proposal, snapshot: Snapshot) -> Objection | None:
    """Return why the head's room is not to be taken by what a running job proposes, nor its claim changed."""
    if isinstance(proposal, ScaleOut) and (closed := _object_closed(proposal, snapshot)) is not None:
        return closed
    found = head(snapshot)
    if found is None:
        return None
    name, claim = found
    if isinstance(proposal, Claim) and proposal.job == name:
        return Objection(Refusal.STARVATION, f"room is kept for it already: {claim.reason}")
    if isinstance(proposal, ScaleOut):
        placement: Mapping[str, str] = proposal.placement
    elif isinstance(proposal, Migrate):
        placement = {proposal.replica: proposal.target}
    elif isinstance(proposal, MigrateGang):
        nodes = {name: snapshot.replicas[name].node for name in proposal.placement}
        placement = {name: node for name, node in proposal.placement.items() if nodes[name] != node}
    else:
        return None
    return _object_infringed(placement, name, claim, snapshot)


def instead(against: Objection | None, proposal: Proposal, snapshot: Snapshot) -> Objection | None:
    """Return the objection as it is, or that it is the head for which there is no room on a node."""
    found = head(snapshot)
    if found is None or against is None or against.refusal is not Refusal.NO_ROOM:
        return against
    if isinstance(proposal, Admit):
        placement: Mapping[str, str] = {proposal.replica: proposal.node}
    elif isinstance(proposal, AdmitGang):
        placement = proposal.placement
    else:
        return against
    return _object_infringed(placement, *found, snapshot) or against


def _object_closed(proposal: ScaleOut, snapshot: Snapshot) -> Objection | None:
    """Return for whom what becomes free of the quota of the job's queue is kept; None: for nobody."""
    job = snapshot.jobs.get(proposal.job)
    if snapshot.settings.starvation is None or job is None or not job.spec.queue:
        return None
    for name in snapshot.withheld:
        other = snapshot.jobs[name]
        if other.spec.queue == job.spec.queue and starves(other, snapshot):
            waits = snapshot.now - other.queued_at
            quota = f"quota that becomes free in queue {job.spec.queue}"
            text = f"{quota} is for {name}, which waits for {waits:.0f} s"
            return Objection(Refusal.STARVATION, text)
    return None


def _object_infringed(
    placement: Mapping[str, str], name: str, claim: Claimed, snapshot: Snapshot
) -> Objection | None:
    """Return which node would not keep the head's share beside the new replicas there; None: none."""
    kept_there = _amounts(claim, snapshot)
    wanted: dict[str, Resources] = {}
    for replica, node in placement.items():
        known = snapshot.replicas.get(replica)
        if node in kept_there and known is not None and known.job != name:
            wanted[node] = wanted.get(node, NOTHING) + known.requests
    for node, amount in sorted(wanted.items()):
        if not (amount + kept_there[node]).fits(snapshot.room(node)):
            waits = snapshot.now - snapshot.jobs[name].queued_at
            text = f"room on {node} is kept for {name}, which waits for {waits:.0f} s"
            return Objection(Refusal.STARVATION, text)
    return None


def _amounts(claim: Claimed, snapshot: Snapshot) -> dict[str, Resources]:
    found: dict[str, Resources] = {}
    for replica, node in claim.placement:
        found[node] = found.get(node, NOTHING) + snapshot.replicas[replica].requests
    return found


def _stands(claim: Claimed, job: Job, snapshot: Snapshot) -> bool:
    """Whether the job would still have room where it is kept, and needs no more than that."""
    needed = {member.name for member in smallest(job, _members(job, snapshot))}
    if {replica for replica, _ in claim.placement} != needed:
        return False
    for node, amount in _amounts(claim, snapshot).items():
        known = snapshot.nodes.get(node)
        if known is None or not known.ready or not amount.fits(known.capacity):
            return False
        if snapshot.objection_to(node, job.name) is not None:
            return False
    return True


def _place(job: Job, snapshot: Snapshot) -> tuple[tuple[str, str], ...] | None:
    """Place the smallest gang as if the nodes were empty, on those first on which most is free already."""
    nodes = [
        node for node in snapshot.ready_nodes if snapshot.objection_to(node.name, job.name) is None
    ]  # by name
    nodes.sort(key=lambda node: -_free_share(snapshot.room(node.name), node.capacity))
    taken = dict.fromkeys((node.name for node in nodes), NOTHING)
    placement = []
    members = smallest(job, _members(job, snapshot))
    if job.spec.unlike:
        members = tuple(sorted(members, key=lambda member: size(member.requests), reverse=True))
    for member in members:
        for node in nodes:
            amount = taken[node.name] + member.requests
            if amount.fits(node.capacity):
                taken[node.name] = amount
                placement.append((member.name, node.name))
                break
        else:
            return None
    return tuple(placement) or None


def _members(job: Job, snapshot: Snapshot) -> tuple[Replica, ...]:
    return tuple(snapshot.replicas[name] for name in job.spec.replicas)


def _free_share(room: Resources, whole: Resources) -> float:
    pairs = ((room.cpu, whole.cpu), (room.memory, whole.memory), (room.gpu, whole.gpu))
    return sum(free / most for free, most in pairs if most > 0)


def _without(state: State, names: Iterable[str]) -> State:
    gone = set(names)
    if not gone:
        return state
    claims = {name: claim for name, claim in state.claims.items() if name not in gone}
    return msgspec.structs.replace(state, claims=claims)


def _renew(state: State, name: str, now: float) -> State:
    claim = state.claims[name]
    if claim.until - now > _CLAIMED_FOR / 2:
        return state
    renewed = msgspec.structs.replace(claim, until=now + _CLAIMED_FOR)
    return msgspec.structs.replace(state, claims={**state.claims, name: renewed})
