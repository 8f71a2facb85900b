"""The one place that knows order, budgets and the do-no-harm gate: proposals in, accepted ones out.

Least disruptive first (design, section 7). Every refusal carries its reason.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from specon_manager.core import dry_run, gate, priorities, quotas, scaling, starvation
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.state import State
from specon_manager.core.transaction.begin import record_of
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    Objection,
    Preempt,
    Proposal,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
    Stay,
    subject,
)
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.settings import Budgets
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import in_flight, to_move
from specon_manager.policies.cpu_lending import eases_first

_RANKS: Final[dict[type, int]] = {
    kind: rank
    for rank, kinds in enumerate(
        ((Stay,), (Reweight,), (Admit, AdmitGang), (ScaleOut,), (Migrate,), (ScaleIn,), (Preempt,), (Claim,))
    )
    for kind in kinds
}
"""The least disruptive first; within a rank in the order of the proposals."""


BUSY: Final = "in flight, which is"
"""In the words of a refusal that is over as soon as another move is."""


class Ruling(Struct, frozen=True, kw_only=True, gc=False):
    """A proposal and what speaks against it; without an objection it is accepted."""

    proposal: Proposal
    objection: Objection | None = None


def plan(
    state: State, proposals: Iterable[Proposal], now: float, snapshot: Snapshot | None = None
) -> tuple[Ruling, ...]:
    """Judge every proposal on a copy of the cluster in which those accepted before it are carried out.

    `snapshot` is that of the state at `now` where the caller has it already: counting a cluster takes time.
    """
    snapshot = state.snapshot(now) if snapshot is None else snapshot
    if (pause := objection_while_paused(state)) is not None:
        return tuple(Ruling(proposal=proposal, objection=pause) for proposal in sorted(proposals, key=_rank))
    verdicts, usage = [], quotas.Usage(snapshot)
    for proposed in sorted(proposals, key=_rank):
        proposal, over_quota = quotas.fitted(proposed, snapshot, usage)
        objection = _objection(proposal, snapshot, state) or over_quota
        if objection is None:
            quotas.given(proposal, snapshot, usage)
            snapshot = _carried_out(proposal, snapshot)
            objection = dry_run.objection(proposal, state.settings)
        verdicts.append(Ruling(proposal=proposal, objection=objection))
    return tuple(verdicts)


def _rank(proposal: Proposal) -> int:
    return _RANKS[type(proposal)]


def _objection(proposal: Proposal, snapshot: Snapshot, state: State) -> Objection | None:
    if not isinstance(proposal, Admit | Migrate | Stay | Reweight):
        against = scaling.objection(proposal, snapshot)
        if against is None and isinstance(proposal, Preempt):
            against = priorities.objection(proposal, snapshot)
        against = against or starvation.objection(proposal, snapshot)
        return starvation.instead(against, proposal, snapshot)
    if proposal.replica not in snapshot.replicas:
        return Objection(Refusal.UNKNOWN_REPLICA, f"there is no replica {proposal.replica}")
    replica = snapshot.replicas[proposal.replica]
    if isinstance(proposal, Migrate):
        against = _objection_to_move(proposal, replica, snapshot, state)
        return against or starvation.objection(proposal, snapshot)
    if isinstance(proposal, Stay):
        return None
    if isinstance(proposal, Reweight):
        return scaling.objection_to_weight(proposal, replica, snapshot)
    return starvation.instead(_objection_to_start(proposal, replica, snapshot), proposal, snapshot)


def _objection_to_start(proposal: Admit, replica: Replica, snapshot: Snapshot) -> Objection | None:
    job = snapshot.jobs[replica.job]
    if job.owned and (objection := scaling.not_ours(job, snapshot)) is not None:
        return objection
    if (objection := in_flight(job, snapshot)) is not None:
        return objection
    if job.owned and len(snapshot.members[job.name]) > 1:
        return Objection(Refusal.PARTIAL_GANG, "its owner lets all of it start, or nothing")
    if (objection := _no_place(replica, proposal.node, snapshot)) is not None:
        return objection
    if replica.phase is not Phase.PENDING:
        return Objection(Refusal.NOT_PENDING, f"it is {replica.phase}, not pending")
    if replica.holds:
        return Objection(Refusal.NOT_PENDING, f"its room on {replica.node} is kept for it after its crash")
    if snapshot.about_to_end(replica.job):
        return Objection(Refusal.IN_FLIGHT, "the rest of its job was told to end and is not gone yet")
    return None


def _objection_to_move(
    proposal: Migrate, replica: Replica, snapshot: Snapshot, state: State
) -> Objection | None:
    budgets = state.settings.budgets
    if len(snapshot.moves) >= budgets.moves_at_once:
        # First, for it is the cheapest: a large cluster has thousands of converged replicas that ask.
        return _over_cluster_budget(len(snapshot.moves))
    return (
        _no_place(replica, proposal.target, snapshot)
        or to_move(replica, snapshot)
        or _unproven(replica)
        or _eased_first(replica, snapshot)
        or _over_replica_budget(replica, snapshot, budgets)
        or _over_node_budget(proposal.target, replica, snapshot, budgets)
        or gate.objection(proposal, snapshot, state.settings.gate, state.measured)
    )


def objection_to_request(
    replica: Replica, target: str | None, snapshot: Snapshot, state: State
) -> Objection | None:
    """Return what speaks against a move that somebody asked for; None as target: against any of the replica.

    What it would gain or cost does not count: neither the gate nor the cooldown and budget of the replica.
    """
    budgets = state.settings.budgets
    objection = objection_while_paused(state) or to_move(replica, snapshot)
    if objection is not None:
        return objection
    if len(snapshot.moves) >= budgets.moves_at_once:
        return _over_cluster_budget(len(snapshot.moves))
    if target is None:
        return None
    return (
        gate.objection_to_nodes(replica, target, snapshot)
        or _no_place(replica, target, snapshot)
        or _over_node_budget(target, replica, snapshot, budgets)
    )


@lru_cache(maxsize=16)
def _over_cluster_budget(moves: int) -> Objection:
    text = f"{moves} moves are {BUSY} the cluster's budget"
    return Objection(Refusal.CLUSTER_BUDGET, text)


def _no_place(replica: Replica, node: str, snapshot: Snapshot) -> Objection | None:
    """Return why the node cannot take the replica."""
    known = snapshot.nodes.get(node)
    if known is None or not known.ready:
        return Objection(Refusal.NODE_NOT_READY, f"node {node} is not ready")
    if (why := snapshot.objection_to(node, replica.job)) is not None:
        return Objection(Refusal.NOT_ELIGIBLE, why)
    if not replica.requests.fits(snapshot.open_room(node, replica.job)):
        return Objection(Refusal.NO_ROOM, f"no room on {node}")
    return None


def _unproven(replica: Replica) -> Objection | None:
    """Return why only a person may have the replica moved again."""
    if not replica.unproven:
        return None
    text = f"its last move is no success, and a person has to look: {replica.unproven}"
    return Objection(Refusal.UNPROVEN, text)


def _eased_first(replica: Replica, snapshot: Snapshot) -> Objection | None:
    """Return that less than a move is tried first."""
    if not eases_first(replica, snapshot):
        return None
    return Objection(Refusal.COOLDOWN, "its processors are lowered in place before a move is thought of")


def _over_replica_budget(replica: Replica, snapshot: Snapshot, budgets: Budgets) -> Objection | None:
    """Return why the replica has been moved enough for now."""
    if replica.disrupted >= budgets.moves_per_replica:
        text = f"it was ended for a move {replica.disrupted} times, which is its budget"
        return Objection(Refusal.REPLICA_BUDGET, text)
    if snapshot.now < replica.cooldown_until:
        text = f"cooling down for {replica.cooldown_until - snapshot.now:.0f} s more"
        return Objection(Refusal.COOLDOWN, text)
    return None


def _over_node_budget(
    target: str, replica: Replica, snapshot: Snapshot, budgets: Budgets
) -> Objection | None:
    """Return which of the two nodes has enough moves in flight."""
    busy = snapshot.busy
    for node in (replica.node, target):
        if node is not None and node in busy and busy[node] >= budgets.moves_at_once_per_node:
            text = f"{busy[node]} moves of {node} are {BUSY} its budget"
            return Objection(Refusal.NODE_BUDGET, text)
    return None


def _carried_out(proposal: Proposal, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as it will be, for the judgement of the next proposal."""
    if isinstance(proposal, Admit):
        return snapshot.with_starts({proposal.replica: proposal.node})
    if isinstance(proposal, Claim):
        return snapshot.with_claim(proposal.job, scaling.claimed(proposal, snapshot.now, wait=math.inf))
    if isinstance(proposal, Stay | Reweight):
        return snapshot
    if isinstance(proposal, Migrate) or snapshot.jobs[proposal.job].spec.transacted:
        if isinstance(proposal, AdmitGang):
            snapshot = snapshot.with_records(scaling.absent(proposal, snapshot))
        name = f"what was just accepted for {subject(proposal)}"
        return snapshot.with_transaction(
            record_of(proposal, snapshot.jobs, snapshot.replicas, name=name, now=snapshot.now)
        )
    if isinstance(proposal, AdmitGang):
        without = snapshot.with_records(scaling.absent(proposal, snapshot))
        return without.with_starts(proposal.placement)
    if isinstance(proposal, ScaleOut):
        return snapshot.with_starts(proposal.placement)
    return snapshot.with_records(scaling.leaving(proposal, snapshot, wait=0.0))
