"""Objections to proposals about whole jobs: admission, scaling, preemption, claims, weights."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from specon_manager.model.actions import (
    AdmitGang,
    Claim,
    Objection,
    Preempt,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
)
from specon_manager.model.cluster import Claimed, Job, Leaving, Phase, Replica
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import (
    change_budget_objection,
    in_flight_objection,
    no_node,
    preemption_objection,
    preemptions_left,
    resizing_objection,
)
from specon_sidecar.counts import format_count

_NO_SLICES: Final = "weights are not changed here"
Scaling = AdmitGang | ScaleOut | ScaleIn | Preempt | Claim


def objection(proposal: Scaling, snapshot: Snapshot) -> Objection | None:
    """Return why the proposal is refused, or None where it may be ordered."""
    job = snapshot.jobs.get(proposal.job)
    if job is None or job.ended_at is not None:
        return Objection(Refusal.UNKNOWN_JOB, f"there is no job {proposal.job} that has not ended")
    if isinstance(proposal, AdmitGang | Claim):
        against = not_ours(job, snapshot)
        if against is not None:
            return against
        if isinstance(proposal, Claim):
            return _to_claim(proposal, job, snapshot)
        return _to_admission(proposal, job, snapshot)
    if isinstance(proposal, Preempt):
        return (
            preemption_objection(job, snapshot)
            or _over_budget(job, snapshot)
            or _over_preemption_budget(proposal, snapshot)
        )
    against = resizing_objection(job, snapshot) or _over_budget(job, snapshot)
    if against is None and job.spec.transacted and job.spec.top_down:
        against = _out_of_turn(proposal, job, snapshot)
    if against is not None:
        return against
    if isinstance(proposal, ScaleOut):
        return _to_growth(proposal, job, snapshot)
    return _to_shrinking(proposal, job, snapshot)


def not_ours(job: Job, snapshot: Snapshot) -> Objection | None:
    """Return why a waiting job is not admitted, nor room kept for it, whatever there is."""
    if (flying := in_flight_objection(job, snapshot)) is not None:
        return flying
    if job.owned and not job.spec.held:
        return Objection(Refusal.PLACED_BY_OWNER, "its owner places it: it names no queue")
    return None


def _over_budget(job: Job, snapshot: Snapshot) -> Objection | None:
    return change_budget_objection(snapshot) if job.spec.transacted else None


def _over_preemption_budget(proposal: Preempt, snapshot: Snapshot) -> Objection | None:
    """Return that enough jobs were preempted of late for others that are no trials."""
    beneficiary = snapshot.jobs.get(proposal.beneficiary)
    if beneficiary is None or beneficiary.spec.job_class == "trial" or preemptions_left(snapshot) > 0:
        return None
    budgets = snapshot.settings.budgets
    text = f"the cluster's budget of preemptions in {budgets.preemption_window:g} s is spent"
    return Objection(Refusal.PREEMPTION_BUDGET, text)


def _out_of_turn(proposal: ScaleOut | ScaleIn, job: Job, snapshot: Snapshot) -> Objection | None:
    """Return why the workers that stay would not be those with the lowest indices."""
    present = {worker.name for worker in snapshot.workers(job.name)}
    if isinstance(proposal, ScaleIn):
        stay = present - set(proposal.replicas)
    else:
        stay = present | set(proposal.placement)
    if stay != set(job.spec.worker_names[: len(stay)]):
        return Objection(Refusal.NOT_ELASTIC, "its owner numbers workers without gaps: the highest go first")
    return None


def objection_to_weight(proposal: Reweight, replica: Replica, snapshot: Snapshot) -> Objection | None:
    """Return why the weight cannot be changed in place."""
    job = snapshot.jobs[replica.job]
    takes_turns = job.spec.share == "time"
    if takes_turns and proposal.weight < 1 and (why := snapshot.slices.why.get(replica.name, _NO_SLICES)):
        return Objection(Refusal.NOT_REWEIGHTABLE, f"it takes no turns: {why}")
    if job.owned and not takes_turns and job.spec.lowest_cpu is None:
        return Objection(Refusal.NOT_REWEIGHTABLE, "its owner does not let its processors be lowered")
    if not takes_turns and not snapshot.reweight:
        return Objection(Refusal.NOT_REWEIGHTABLE, "shares of processors cannot be changed in place here")
    if replica.phase is not Phase.RUNNING or snapshot.leaves(replica) or replica.name in snapshot.moving:
        return Objection(Refusal.NOT_RUNNING, f"it is {replica.phase}, or about to leave")
    if not 0 < proposal.weight <= 1e6:  # noqa: PLR2004  (the bound of the record)
        return Objection(Refusal.NOT_REWEIGHTABLE, f"a weight of {proposal.weight:g} is not in (0, 1e6]")
    return None


def leaving(proposal: ScaleIn | Preempt, snapshot: Snapshot, *, wait: float) -> list[Replica]:
    """Return the records of the replicas that the proposal tells to end; `wait`: until it is said again."""
    purpose = "scale-in" if isinstance(proposal, ScaleIn) else "preempt"
    if isinstance(proposal, ScaleIn):
        chosen = [snapshot.replicas[name] for name in dict.fromkeys(proposal.replicas)]
    else:
        names = snapshot.jobs[proposal.job].spec.replicas
        chosen = [snapshot.replicas[name] for name in names if snapshot.replicas[name].active]
    told = Leaving(
        purpose="scale-in" if purpose == "scale-in" else "preempt",
        since=snapshot.now,
        deadline=snapshot.now + wait,
        reason=proposal.reason,
    )
    return [msgspec.structs.replace(replica, leaving=told) for replica in chosen]


def absent(proposal: AdmitGang, snapshot: Snapshot) -> list[Replica]:
    """Return the records of the workers that have no place in the gang, and so are absent from it."""
    members = [snapshot.replicas[name] for name in snapshot.jobs[proposal.job].spec.replicas]
    return [
        msgspec.structs.replace(replica, phase=Phase.ABSENT)
        for replica in members
        if replica.phase is Phase.PENDING and replica.name not in proposal.placement
    ]


def claim_of(proposal: Claim, now: float, *, wait: float) -> Claimed | None:
    """Return the record of the claim, None where it is given up."""
    if not proposal.placement:
        return None
    return Claimed(placement=tuple(proposal.placement.items()), until=now + wait, reason=proposal.reason)


def _to_admission(proposal: AdmitGang, job: Job, snapshot: Snapshot) -> Objection | None:
    members = [snapshot.replicas[name] for name in job.spec.replicas]
    if any(replica.active for replica in members):
        return Objection(Refusal.NOT_WAITING, "a part of the job occupies a node")
    if any(replica.phase is Phase.PENDING and replica.not_before > snapshot.now for replica in members):
        return Objection(Refusal.NOT_WAITING, "it pauses after a crash")
    if (against := foreign(proposal.placement, job)) is not None:
        return against
    if over := [name for name in proposal.placement if snapshot.replicas[name].ended]:
        return Objection(Refusal.NOT_PENDING, f"{over[0]} is {snapshot.replicas[over[0]].phase}")
    open_members = [replica for replica in members if not replica.ended]
    servers = [replica.name for replica in open_members if replica.role == "ps"]
    if missing := [name for name in servers if name not in proposal.placement]:
        return Objection(Refusal.PARTIAL_GANG, f"{missing[0]} has no place")
    workers = len(proposal.placement) - len(servers)
    ended = sum(replica.ended and replica.role != "ps" for replica in members)
    if ended and not workers:
        return Objection(Refusal.NOT_WAITING, "its workers have ended: its servers have nothing to serve")
    if workers + ended < job.spec.fewest_workers:
        text = (
            f"{format_count(workers, 'worker has', 'workers have')} a place, it needs"
            f" {job.spec.fewest_workers}"
        )
        return Objection(Refusal.PARTIAL_GANG, text)
    return no_room(proposal.placement, job, snapshot)


def _to_growth(proposal: ScaleOut, job: Job, snapshot: Snapshot) -> Objection | None:
    if job.trains_since is None:
        return Objection(Refusal.NOT_RUNNING, "not every replica trains")
    if (against := foreign(proposal.placement, job)) is not None:
        return against
    for name in proposal.placement:
        if snapshot.replicas[name].phase is not Phase.ABSENT:
            text = f"{name} is {snapshot.replicas[name].phase}, not absent"
            return Objection(Refusal.NOT_ELASTIC, text)
    if job.spec.headroom is not None and len(proposal.placement) > job.spec.headroom:
        return Objection(Refusal.NO_ROOM, job.spec.no_headroom)
    return no_room(proposal.placement, job, snapshot)


def _to_shrinking(proposal: ScaleIn, job: Job, snapshot: Snapshot) -> Objection | None:
    if (against := foreign(proposal.replicas, job)) is not None:
        return against
    if job.spec.checkpointing == "none":
        return Objection(Refusal.NO_CHECKPOINT, "its trainer writes no checkpoints")
    if not proposal.replicas:
        return Objection(Refusal.UNKNOWN_REPLICA, "it names no replica")
    for name in proposal.replicas:
        replica = snapshot.replicas[name]
        if replica.role == "ps" or replica.index == 0:
            return Objection(Refusal.NOT_ELASTIC, f"{name} is a parameter server, or the first worker")
        if not replica.active or snapshot.leaves(replica):
            return Objection(Refusal.NOT_RUNNING, f"{name} is {replica.phase}, or about to leave")
    stay = sum(
        replica.active and not snapshot.leaves(replica) and replica.role != "ps"
        for replica in (snapshot.replicas[name] for name in job.spec.replicas)
    ) - len(set(proposal.replicas))
    if stay < job.spec.fewest_workers:
        text = f"{format_count(stay, 'worker')} would stay, it needs {job.spec.fewest_workers}"
        return Objection(Refusal.BELOW_MINIMUM, text)
    return None


def _to_claim(proposal: Claim, job: Job, snapshot: Snapshot) -> Objection | None:
    if (against := foreign(proposal.placement, job)) is not None:
        return against
    if any(snapshot.replicas[name].active for name in job.spec.replicas):
        return Objection(Refusal.NOT_WAITING, "a part of the job occupies a node")
    making = (each for each in snapshot.moves if each.beneficiary == job.name)
    if not proposal.placement and (move := next(making, None)) is not None:
        return Objection(Refusal.IN_FLIGHT, f"{move.id} makes room for it")
    for node in proposal.placement.values():
        if node not in snapshot.nodes:
            return Objection(Refusal.NODE_NOT_READY, f"there is no node {node}")
    return None


def foreign(replicas: Iterable[str], job: Job) -> Objection | None:
    """Return which of these is no replica of the job."""
    own = job.spec.replicas
    for name in replicas:
        if name not in own:
            return Objection(Refusal.UNKNOWN_REPLICA, f"{name} is no replica of {job.name}")
    return None


def no_room(
    placement: Mapping[str, str], job: Job, snapshot: Snapshot, beneficiary: str = ""
) -> Objection | None:
    """Return the first node that cannot take what the placement puts there, all of it together.

    Room kept for the beneficiary is open to it.
    """
    if not placement:
        return Objection(Refusal.PARTIAL_GANG, "the placement names no replica")
    wanted: dict[str, Resources] = {}
    for name, node in placement.items():
        if (objection := no_node(node, snapshot.nodes)) is not None:
            return objection
        if (why := snapshot.objection_to(node, job.name)) is not None:
            return Objection(Refusal.NOT_ELIGIBLE, why)
        wanted[node] = wanted.get(node, NOTHING) + snapshot.replicas[name].requests
    for node, amount in sorted(wanted.items()):
        if not amount.fits(snapshot.open_room(node, beneficiary or job.name)):
            count = Counter(placement.values())[node]
            return Objection(Refusal.NO_ROOM, f"no room on {node} for {format_count(count, 'replica')}")
    return None
