"""The one place that knows order, budgets and the do-no-harm gate: proposals in, accepted ones out.

Least disruptive first (design, section 7). Every refusal carries its reason.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.core import (
    dry_run,
    gate,
    move_budgets,
    priorities,
    quotas,
    scaling,
    slower,
    starvation,
)
from specon_manager.core.fair_shares import Turn
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.state import State
from specon_manager.core.transaction.begin import record_of
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
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
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import (
    in_flight,
    no_node,
    resting,
    to_move,
    to_move_gang,
    trains_as_one,
    unready,
)
from specon_manager.policies.cpu_lending import eases_first

_RANKS: Final[dict[type, int]] = {
    kind: rank
    for rank, kinds in enumerate(
        (
            (Stay,),
            (Reweight,),
            (Admit, AdmitGang),
            (ScaleOut,),
            (Migrate, MigrateGang),
            (ScaleIn,),
            (Preempt,),
            (Claim,),
        )
    )
    for kind in kinds
}
"""The least disruptive first; within a rank in the order of the proposals."""


class Ruling(Struct, frozen=True, kw_only=True, gc=False):
    """A proposal and what prevents it; without an objection it is accepted."""

    proposal: Proposal
    objection: Objection | None = None


def plan(
    state: State,
    proposals: Iterable[Proposal],
    now: float,
    snapshot: Snapshot | None = None,
    turn: Turn | None = None,
) -> tuple[Ruling, ...]:
    """Judge every proposal on a copy of the cluster in which those accepted before it are carried out.

    `snapshot` is that of the state at `now` where the caller has it already: counting a cluster takes time.
    `turn` is whose jobs may be admitted; None: everybody's.
    """
    snapshot = state.snapshot(now) if snapshot is None else snapshot
    if (pause := objection_while_paused(state)) is not None:
        return tuple(Ruling(proposal=proposal, objection=pause) for proposal in sorted(proposals, key=_rank))
    verdicts, usage = [], quotas.Usage(snapshot)
    for proposed in sorted(proposals, key=_rank):
        if (refused := _cheaply_refused(proposed, snapshot)) is not None:
            verdicts.append(Ruling(proposal=proposed, objection=refused))
            continue
        proposal, over_quota = quotas.fitted(whole(proposed, snapshot), snapshot, usage)
        objection = _objection(proposal, snapshot, state) or over_quota
        if objection is None and turn is not None:
            objection = turn.objection(proposal, snapshot)
        if objection is None:
            quotas.given(proposal, snapshot, usage)
            turn = None if turn is None else turn.after(proposal, snapshot)
            snapshot = _carried_out(proposal, snapshot)
            objection = dry_run.objection(proposal, state.settings)
        verdicts.append(Ruling(proposal=proposal, objection=objection))
    return tuple(verdicts)


def _cheaply_refused(proposal: Proposal, snapshot: Snapshot) -> Objection | None:
    """Return that the cluster's budget is spent, for the move of a job's only replica; None: to be judged.

    A large cluster has tens of thousands of converged replicas that ask.
    """
    if not isinstance(proposal, Migrate):
        return None
    spent = move_budgets.of_cluster(snapshot)
    if spent is None or (replica := snapshot.replicas.get(proposal.replica)) is None:
        return None
    return spent if len(snapshot.jobs[replica.job].spec.replicas) == 1 else None


def whole(proposal: Proposal, snapshot: Snapshot) -> Proposal:
    """Return a move of one replica of a job whose replicas train as one as a move of the job."""
    if not isinstance(proposal, Migrate) or (replica := snapshot.replicas.get(proposal.replica)) is None:
        return proposal
    job = snapshot.jobs[replica.job]
    if len(job.spec.replicas) == 1 or not trains_as_one(job, snapshot) or not job.spec.transacted:
        return proposal
    here = {member.name: member.node or "" for member in _present(job, snapshot)}
    return MigrateGang(
        job=job.name,
        placement={**here, proposal.replica: proposal.target},
        purpose=proposal.purpose,
        reason=proposal.reason,
        beneficiary=proposal.beneficiary,
    )


def _rank(proposal: Proposal) -> int:
    return _RANKS[type(proposal)]


def _objection(proposal: Proposal, snapshot: Snapshot, state: State) -> Objection | None:
    if isinstance(proposal, Migrate):  # first: there are thousands of them
        if proposal.replica not in snapshot.replicas:
            return _object_unknown(proposal.replica)
        return _objection_to_move(proposal, snapshot, state)
    if isinstance(proposal, MigrateGang):
        known = snapshot.jobs.get(proposal.job)
        if known is None or known.ended_at is not None or not _present(known, snapshot):
            return Objection(Refusal.UNKNOWN_JOB, f"there is no job {proposal.job} that runs")
        return _objection_to_move(proposal, snapshot, state)
    if not isinstance(proposal, Admit | Stay | Reweight):
        against = scaling.objection(proposal, snapshot)
        if against is None and isinstance(proposal, Preempt):
            against = priorities.objection(proposal, snapshot)
        against = against or starvation.objection(proposal, snapshot)
        return starvation.instead(against, proposal, snapshot)
    if proposal.replica not in snapshot.replicas:
        return _object_unknown(proposal.replica)
    replica = snapshot.replicas[proposal.replica]
    if isinstance(proposal, Stay):
        return None
    if isinstance(proposal, Reweight):
        return scaling.objection_to_weight(proposal, replica, snapshot)
    return starvation.instead(_objection_to_start(proposal, replica, snapshot), proposal, snapshot)


def _object_unknown(replica: str) -> Objection:
    return Objection(Refusal.UNKNOWN_REPLICA, f"there is no replica {replica}")


def _objection_to_start(proposal: Admit, replica: Replica, snapshot: Snapshot) -> Objection | None:
    job = snapshot.jobs[replica.job]
    if job.owned and (objection := scaling.not_ours(job, snapshot)) is not None:
        return objection
    if (objection := in_flight(job, snapshot)) is not None:
        return objection
    if job.owned and len(snapshot.members[job.name]) > 1:
        return Objection(Refusal.PARTIAL_GANG, "its owner starts the whole job, or nothing")
    if (objection := _no_place(replica, proposal.node, snapshot)) is not None:
        return objection
    if replica.phase is not Phase.PENDING:
        return Objection(Refusal.NOT_PENDING, f"it is {replica.phase}, not pending")
    if replica.holds:
        return Objection(Refusal.NOT_PENDING, f"its room on {replica.node} is kept for it after its crash")
    if snapshot.about_to_end(replica.job):
        return Objection(Refusal.IN_FLIGHT, "the rest of its job was told to end and is not gone yet")
    return None


def _objection_to_move(move: Migrate | MigrateGang, snapshot: Snapshot, state: State) -> Objection | None:
    # The cluster's budget first, for it is the cheapest: a large cluster has thousands of converged replicas
    # that ask.
    if (spent := move_budgets.of_cluster(snapshot)) is not None:
        return spent
    if isinstance(move, MigrateGang):
        job = snapshot.jobs[move.job]
        about = _present(job, snapshot)
        targets: Iterable[str] = _list_joined(move, snapshot)
        against = _no_places(move, snapshot) or to_move_gang(job, snapshot) or resting(job, snapshot)
    else:
        about, targets = (snapshot.replicas[move.replica],), (move.target,)
        against = _no_place(about[0], move.target, snapshot, move.beneficiary) or to_move(about[0], snapshot)
    return (
        against
        or objection_to_movers(about, snapshot)
        or move_budgets.of_nodes((*(replica.node for replica in about), *targets), snapshot)
        or gate.objection(move, snapshot, state.settings.gate, state.measured)
        or slower.objection(move, snapshot, state)
        or starvation.objection(move, snapshot)
    )


def objection_to_movers(about: Sequence[Replica], snapshot: Snapshot) -> Objection | None:
    """Return why no policy has these moved together now, wherever they would go."""
    return (
        next((each for each in map(_unproven, about) if each is not None), None)
        or _object_uneased(about[0], snapshot)
        or move_budgets.of_replicas(about, snapshot)
    )


def objection_to_request(
    replica: Replica, target: str | None, snapshot: Snapshot, state: State
) -> Objection | None:
    """Return the objection to a requested move; None as target: to any move of the replica.

    What it would gain or cost does not count: neither the gate nor the cooldown and budget of the replica.
    """
    objection = (
        objection_while_paused(state) or to_move(replica, snapshot) or move_budgets.of_cluster(snapshot)
    )
    if objection is not None or target is None:
        return objection
    return (
        gate.objection_to_nodes(replica, target, snapshot)
        or _no_place(replica, target, snapshot)
        or move_budgets.of_nodes((replica.node, target), snapshot)
    )


def objection_to_gang_request(
    job: Job, placement: Mapping[str, str] | None, snapshot: Snapshot, state: State
) -> Objection | None:
    """Return the objection to a requested move of a whole job; None: to any move of it."""
    objection = (
        objection_while_paused(state) or to_move_gang(job, snapshot) or move_budgets.of_cluster(snapshot)
    )
    if objection is not None or placement is None:
        return objection
    move = MigrateGang(job=job.name, placement=placement, purpose="", reason="")
    here = (replica.node for replica in _present(job, snapshot))
    return _no_places(move, snapshot) or move_budgets.of_nodes(
        (*here, *_list_joined(move, snapshot)), snapshot
    )


def _present(job: Job, snapshot: Snapshot) -> tuple[Replica, ...]:
    members = (snapshot.replicas[name] for name in job.spec.replicas)
    return tuple(member for member in members if member.active)


def _list_joined(move: MigrateGang, snapshot: Snapshot) -> list[str]:
    """Return the nodes of those replicas of the placement that do not run there already."""
    own = snapshot.jobs[move.job].spec.replicas
    return [
        node
        for name, node in move.placement.items()
        if name not in own or snapshot.replicas[name].node != node
    ]


def _no_places(move: MigrateGang, snapshot: Snapshot) -> Objection | None:
    """Return why the nodes cannot take what is to come there, or that nothing is."""
    job = snapshot.jobs[move.job]
    if (foreign := scaling.foreign(move.placement, job)) is not None:
        return foreign
    moved = {name: node for name, node in move.placement.items() if snapshot.replicas[name].node != node}
    if not moved:
        return Objection(Refusal.SAME_NODE, "the whole job runs where it is to go")
    for name, node in sorted(move.placement.items()):
        # All of it starts again, so the nodes of those that stay count as well.
        if (lost := unready(node, name, snapshot.nodes)) is not None:
            return Objection(Refusal.NODE_NOT_READY, lost)
    return scaling.no_room(moved, job, snapshot, move.beneficiary)


def _no_place(replica: Replica, node: str, snapshot: Snapshot, beneficiary: str = "") -> Objection | None:
    """Return why the node cannot take the replica; what is kept for the beneficiary is open to it."""
    if (objection := no_node(node, snapshot.nodes)) is not None:
        return objection
    if (why := snapshot.objection_to(node, replica.job)) is not None:
        return Objection(Refusal.NOT_ELIGIBLE, why)
    if not replica.requests.fits(snapshot.open_room(node, beneficiary or replica.job)):
        return Objection(Refusal.NO_ROOM, f"no room on {node}")
    return None


def _unproven(replica: Replica) -> Objection | None:
    """Return why only a person may have the replica moved again."""
    if not replica.unproven:
        return None
    text = f"its last move is no success, and a person has to look: {replica.unproven}"
    return Objection(Refusal.UNPROVEN, text)


def _object_uneased(replica: Replica, snapshot: Snapshot) -> Objection | None:
    """Return that less than a move is tried first."""
    if not eases_first(replica, snapshot):
        return None
    return Objection(Refusal.COOLDOWN, "its processors are lowered in place before a move is thought of")


def _carried_out(proposal: Proposal, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as it will be, for the judgement of the next proposal."""
    if isinstance(proposal, Admit):
        return snapshot.with_starts({proposal.replica: proposal.node})
    if isinstance(proposal, Claim):
        return snapshot.with_claim(proposal.job, scaling.claimed(proposal, snapshot.now, wait=math.inf))
    if isinstance(proposal, Stay | Reweight):
        return snapshot
    if isinstance(proposal, Migrate | MigrateGang) or snapshot.jobs[proposal.job].spec.transacted:
        if isinstance(proposal, AdmitGang):
            snapshot = snapshot.with_records(scaling.absent(proposal, snapshot))
        name = f"what was accepted a moment ago for {subject(proposal)}"
        return snapshot.with_transaction(
            record_of(proposal, snapshot.jobs, snapshot.replicas, name=name, now=snapshot.now)
        )
    if isinstance(proposal, AdmitGang):
        without = snapshot.with_records(scaling.absent(proposal, snapshot))
        return without.with_starts(proposal.placement)
    if isinstance(proposal, ScaleOut):
        return snapshot.with_starts(proposal.placement)
    return snapshot.with_records(scaling.leaving(proposal, snapshot, wait=0.0))
