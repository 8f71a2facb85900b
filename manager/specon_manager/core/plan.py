"""The one place that knows order, budgets and the do-no-harm gate: proposals in, accepted ones out.

Least disruptive first (design, section 7). Every refusal carries its reason.
"""

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from specon_manager.core import dry_run, priorities, quotas, scaling, starvation
from specon_manager.core.fair_shares import Turn
from specon_manager.core.move_objections import no_place, objection_to_move, present
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.plain_moves import PlainMoves
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
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import in_flight_objection, trains_as_one

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
    plain: PlainMoves | None = None
    for proposed in sorted(proposals, key=_rank):
        if isinstance(proposed, Migrate):
            if plain is None or plain.snapshot is not snapshot:
                plain = PlainMoves(snapshot, state)
            if (refused := plain.objection(proposed)) is not None:
                verdicts.append(Ruling(proposal=proposed, objection=refused))
                continue
        proposal, over_quota = quotas.fit_quota(widen_to_gang(proposed, snapshot), snapshot, usage)
        objection = _objection(proposal, snapshot, state) or over_quota
        if objection is None and turn is not None:
            objection = turn.objection(proposal, snapshot)
        if objection is None:
            quotas.count_accepted(proposal, snapshot, usage)
            turn = None if turn is None else turn.after(proposal, snapshot)
            snapshot = _carry_out(proposal, snapshot)
            objection = dry_run.objection(proposal, state.settings)
        verdicts.append(Ruling(proposal=proposal, objection=objection))
    return tuple(verdicts)


def widen_to_gang(proposal: Proposal, snapshot: Snapshot) -> Proposal:
    """Return a move of one replica of a job whose replicas train as one as a move of the job."""
    if not isinstance(proposal, Migrate) or (replica := snapshot.replicas.get(proposal.replica)) is None:
        return proposal
    job = snapshot.jobs[replica.job]
    if len(job.spec.replicas) == 1 or not trains_as_one(job, snapshot) or not job.spec.transacted:
        return proposal
    here = {member.name: member.node or "" for member in present(job, snapshot)}
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
    if isinstance(proposal, MigrateGang):
        known = snapshot.jobs.get(proposal.job)
        if known is None or known.ended_at is not None or not present(known, snapshot):
            return Objection(Refusal.UNKNOWN_JOB, f"there is no job {proposal.job} that runs")
        return objection_to_move(proposal, snapshot, state)
    if not isinstance(proposal, Admit | Migrate | Stay | Reweight):
        against = scaling.objection(proposal, snapshot)
        if against is None and isinstance(proposal, Preempt):
            against = priorities.objection(proposal, snapshot)
        against = against or starvation.objection(proposal, snapshot)
        return starvation.instead(against, proposal, snapshot)
    if (replica := snapshot.replicas.get(proposal.replica)) is None:
        return Objection(Refusal.UNKNOWN_REPLICA, f"there is no replica {proposal.replica}")
    if isinstance(proposal, Migrate):
        return objection_to_move(proposal, snapshot, state)
    if isinstance(proposal, Stay):
        return None
    if isinstance(proposal, Reweight):
        return scaling.objection_to_weight(proposal, replica, snapshot)
    return starvation.instead(_objection_to_start(proposal, replica, snapshot), proposal, snapshot)


def _objection_to_start(proposal: Admit, replica: Replica, snapshot: Snapshot) -> Objection | None:
    job = snapshot.jobs[replica.job]
    if job.owned and (objection := scaling.not_ours(job, snapshot)) is not None:
        return objection
    if (objection := in_flight_objection(job, snapshot)) is not None:
        return objection
    if job.owned and len(snapshot.members[job.name]) > 1:
        return Objection(Refusal.PARTIAL_GANG, "its owner starts the whole job, or nothing")
    if (objection := no_place(replica, proposal.node, snapshot)) is not None:
        return objection
    if replica.phase is not Phase.PENDING:
        return Objection(Refusal.NOT_PENDING, f"it is {replica.phase}, not pending")
    if replica.holds:
        return Objection(Refusal.NOT_PENDING, f"its room on {replica.node} is kept for it after its crash")
    if snapshot.about_to_end(replica.job):
        return Objection(Refusal.IN_FLIGHT, "the rest of its job was told to end and is not gone yet")
    return None


def _carry_out(proposal: Proposal, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as it will be, for the judgement of the next proposal."""
    if isinstance(proposal, Admit):
        return snapshot.with_starts({proposal.replica: proposal.node})
    if isinstance(proposal, Claim):
        return snapshot.with_claim(proposal.job, scaling.claim_of(proposal, snapshot.now, wait=math.inf))
    if isinstance(proposal, Stay | Reweight):
        return snapshot
    if isinstance(proposal, Migrate | MigrateGang) or snapshot.jobs[proposal.job].spec.transacted:
        if isinstance(proposal, AdmitGang):
            snapshot = snapshot.with_records(scaling.absent(proposal, snapshot))
        name = f"the change accepted a moment ago for {subject(proposal)}"
        return snapshot.with_transaction(
            record_of(proposal, snapshot.jobs, snapshot.replicas, name=name, now=snapshot.now)
        )
    if isinstance(proposal, AdmitGang):
        without = snapshot.with_records(scaling.absent(proposal, snapshot))
        return without.with_starts(proposal.placement)
    if isinstance(proposal, ScaleOut):
        return snapshot.with_starts(proposal.placement)
    return snapshot.with_records(scaling.leaving(proposal, snapshot, wait=0.0))
