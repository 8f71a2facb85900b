"""How a change of a whole job begins: what it is about, and what is ordered first."""

from collections.abc import Mapping
from typing import Final

import msgspec

from specon_manager.core import change_members as members
from specon_manager.core.change_orders import orders
from specon_manager.core.changes import Step, coming, leaving
from specon_manager.core.gang import regrouped
from specon_manager.core.state import State
from specon_manager.model.actions import AdmitGang, Preempt, ScaleIn, ScaleOut
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Phase

Changing = AdmitGang | ScaleOut | ScaleIn | Preempt

_KINDS: Final[Mapping[type, ChangeKind]] = {
    AdmitGang: ChangeKind.ADMIT,
    ScaleOut: ChangeKind.SCALE_OUT,
    ScaleIn: ChangeKind.SCALE_IN,
    Preempt: ChangeKind.PREEMPT,
}


def kind_of(proposal: Changing) -> ChangeKind:
    """Return what a proposal changes."""
    return _KINDS[type(proposal)]


def begun(proposal: Changing, state: State, now: float) -> Change:
    """Return the record of an accepted proposal."""
    job = state.jobs[proposal.job]
    present = [state.replicas[name] for name in job.spec.replicas]
    before = {each.name: each.node or "" for each in present if each.active}
    after = dict(before)
    if isinstance(proposal, AdmitGang):
        before, after = {}, dict(proposal.placement)
    elif isinstance(proposal, ScaleOut):
        after |= proposal.placement
    elif isinstance(proposal, ScaleIn):
        after = {name: node for name, node in before.items() if name not in proposal.replicas}
    else:
        after = {}
    lead = state.replicas[job.spec.worker_names[0]]
    return Change(
        id=f"change-{state.change_count + 1}",
        job=job.name,
        kind=kind_of(proposal),
        policy=state.settings.policy,
        reason=proposal.reason,
        state=ChangeState.CHECKPOINTING,
        proposed_at=now,
        deadline=now,
        before=before,
        after=after,
        restart=job.spec.resizing == "restart" and isinstance(proposal, ScaleIn | ScaleOut),
        beneficiary=proposal.beneficiary if isinstance(proposal, Preempt) else "",
        lead=lead.name,
        incarnation=lead.incarnation,
    )


def begin(state: State, proposal: Changing, now: float) -> Step:
    """Return the state in which the proposal is under way, and what is ordered for it."""
    change = begun(proposal, state, now)
    claims = {name: claim for name, claim in state.claims.items() if name != change.job}
    state = msgspec.structs.replace(state, change_count=state.change_count + 1, changed_at=now, claims=claims)
    job = state.jobs[change.job]
    if change.kind is ChangeKind.ADMIT:
        return coming(_admitted(state, job, change, now), change, now)
    if job.spec.checkpointing == "on-termination":
        return leaving(members.room_taken(state, change), change, now)
    preempts = change.kind is ChangeKind.PREEMPT
    patience = job.spec.grace_seconds if preempts else state.settings.deadlines.checkpoint
    change = msgspec.structs.replace(change, deadline=now + patience)
    state = members.room_taken(members.told(state, change, now), change)
    state = regrouped(state.with_change(change), job.name, now)
    return state, orders(state, change)


def _admitted(state: State, job: Job, change: Change, now: float) -> State:
    """Let the job be admitted, and those of its workers be absent that have no place."""
    admitted = now if job.admitted_at is None else job.admitted_at
    state = state.with_job(msgspec.structs.replace(job, admitted=True, admitted_at=admitted))
    for name in job.spec.replicas:
        replica = state.replicas[name]
        if name not in change.after and replica.phase in {Phase.PENDING, Phase.AWAITED}:
            state = state.with_replica(msgspec.structs.replace(replica, phase=Phase.ABSENT, deadline=None))
    return state
