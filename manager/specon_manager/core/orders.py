"""Accepted proposals turned into records and orders."""

from collections.abc import Iterable, Mapping

import msgspec

from specon_manager.core.gang import gang_of
from specon_manager.core.restarts import eviction
from specon_manager.core.scaling import absent, claim_of, leaving
from specon_manager.core.state import State, Step
from specon_manager.core.transaction.begin import begin
from specon_manager.model.actions import (
    Action,
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Preempt,
    Proposal,
    Reweight,
    ScaleIn,
    ScaleOut,
    SetWeight,
    StartReplica,
    Stay,
)
from specon_manager.model.cluster import Phase, Replica


def order(state: State, accepted: Iterable[Proposal], now: float, *, policy: str = "") -> Step:
    """Return the state in which the accepted proposals are under way, and the orders for them.

    `policy` is who proposed moves; empty: the one that is set.
    """
    actions: list[Action] = []
    for proposal in accepted:
        state, ordered = _order(state, proposal, now, policy)
        actions += ordered
    return state, actions


def _order(state: State, proposal: Proposal, now: float, policy: str) -> Step:
    if isinstance(proposal, Admit):
        placement = {proposal.replica: proposal.node}
        job = state.jobs[state.replicas[proposal.replica].job]
        if not job.owned:
            return start(state, job.name, placement, proposal.reason, now)
        gang = AdmitGang(job=job.name, placement=placement, reason=proposal.reason)
        return begin(state, gang, now)
    if isinstance(proposal, Migrate | MigrateGang):
        return begin(state, proposal, now, policy=policy)
    if isinstance(proposal, AdmitGang | ScaleOut | ScaleIn | Preempt):
        if state.jobs[proposal.job].spec.transacted:
            return begin(state, proposal, now)
        return _at_once(state, proposal, now)
    if isinstance(proposal, Reweight):
        known = state.replicas[proposal.replica]
        replica = msgspec.structs.replace(known, weight=proposal.weight, weighed=True)
        return state.with_replica(replica), [order_weight(replica, proposal.reason)]
    return (_claim(state, proposal, now) if isinstance(proposal, Claim) else _look_at(state, proposal)), []


def _at_once(state: State, proposal: AdmitGang | ScaleOut | ScaleIn | Preempt, now: float) -> Step:
    """Start and end replicas one by one, as the simulations of the papers do."""
    if isinstance(proposal, ScaleIn | Preempt):
        return _tell_to_end(state, proposal, now)
    state, ordered = start(state, proposal.job, proposal.placement, proposal.reason, now)
    if isinstance(proposal, AdmitGang):
        for replica in absent(proposal, state.snapshot(now)):
            state = state.with_replica(replica)
    return state, ordered


def order_end(state: State, replica: Replica, now: float) -> Step:
    """Tell a replica to end whose end is due: for the first time, or because it is still there."""
    told = replica.leaving
    assert told is not None
    grace = state.jobs[replica.job].spec.grace_seconds
    due = now + grace + state.settings.deadlines.eviction_margin
    again = msgspec.structs.replace(replica, leaving=msgspec.structs.replace(told, deadline=due))
    return state.with_replica(again), [eviction(state, again, again.incarnation, told.reason)]


def order_weight(replica: Replica, reason: str) -> SetWeight:
    """Return the order that gives a running replica the weight of its record."""
    assert replica.incarnation is not None
    return SetWeight(
        replica=replica.name, incarnation=replica.incarnation, weight=replica.weight, reason=reason
    )


def start(state: State, job: str, placement: Mapping[str, str], reason: str, now: float) -> Step:
    """Start replicas of a job that the manager places, each on its node."""
    for name, node in placement.items():
        replica = state.replicas[name]
        started = msgspec.structs.replace(
            replica,
            phase=Phase.STARTING,
            node=node,
            starts=replica.starts + 1,
            deadline=now + state.settings.deadlines.start,
            not_before=0.0,
            holds=False,
            weight=1.0,  # of the new incarnation
            weighed=False,
        )
        state = state.with_replica(started)
    # Each is told of all that its job has now.
    actions: list[Action] = [
        start_order(state, state.replicas[name], reason) for name in placement if not state.has_unwanted(name)
    ]
    record = state.jobs[job]
    if record.admitted_at is None:
        state = state.with_job(msgspec.structs.replace(record, admitted_at=now))
    claims = state.claims
    if job in claims:
        claims = {name: claim for name, claim in claims.items() if name != job}
    return msgspec.structs.replace(state, claims=claims, changed_at=now), actions


def start_order(state: State, replica: Replica, reason: str) -> StartReplica:
    """Return the order for a start that is on record."""
    job = state.jobs[replica.job]
    return StartReplica(
        replica=replica.name,
        start=replica.starts,
        node=replica.node,
        template=job.spec.template,
        reason=reason,
        gang=gang_of(state, job),
    )


def _tell_to_end(state: State, proposal: ScaleIn | Preempt, now: float) -> Step:
    job = state.jobs[proposal.job]
    wait = job.spec.grace_seconds + state.settings.deadlines.eviction_margin
    actions: list[Action] = []
    for replica in leaving(proposal, state.snapshot(now), wait=wait):
        state = state.with_replica(replica)
        actions.append(eviction(state, replica, replica.incarnation, proposal.reason))
    if isinstance(proposal, Preempt):
        state = state.with_job(job.count_preemption(now))
    return msgspec.structs.replace(state, changed_at=now), actions


def _claim(state: State, proposal: Claim, now: float) -> State:
    claims = dict(state.claims)
    claims.pop(proposal.job, None)
    claim = claim_of(proposal, now, wait=state.settings.deadlines.claim)
    if claim is not None:
        claims[proposal.job] = claim
    return msgspec.structs.replace(state, claims=claims)


def _look_at(state: State, proposal: Stay) -> State:
    replica = state.replicas[proposal.replica]
    looked_at = (*replica.moved_for, proposal.purpose)
    return state.with_replica(msgspec.structs.replace(replica, moved_for=looked_at))
