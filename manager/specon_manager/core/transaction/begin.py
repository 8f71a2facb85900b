"""How a transaction begins: from an accepted proposal to its record and first orders."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from specon_manager.core.state import State, Step
from specon_manager.core.transaction.advance import enter_state, set_deadline
from specon_manager.core.transaction.table import first_state
from specon_manager.model.actions import AdmitGang, Migrate, MigrateGang, Preempt, ScaleIn, ScaleOut
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.transactions import Kind, Transaction, Witness

Changing = AdmitGang | ScaleOut | ScaleIn | Preempt | Migrate | MigrateGang

_KINDS: Final[Mapping[type, Kind]] = {
    AdmitGang: Kind.ADMIT,
    ScaleOut: Kind.SCALE_OUT,
    ScaleIn: Kind.SCALE_IN,
    Preempt: Kind.PREEMPT,
    Migrate: Kind.MOVE,
    MigrateGang: Kind.MOVE,
}


def kind_of(proposal: Changing) -> Kind:
    """Return the kind of transaction that a proposal asks for."""
    return _KINDS[type(proposal)]


def record_of(
    proposal: Changing, jobs: Mapping[str, Job], replicas: Mapping[str, Replica], *, name: str, now: float
) -> Transaction:
    """Return the record of a proposal, with `name` as its id, before its first state has begun."""
    job = jobs[proposal.job if not isinstance(proposal, Migrate) else replicas[proposal.replica].job]
    members = [replicas[each] for each in job.spec.replicas]
    before, after = _ways(proposal, members, replicas)
    kind, spec, whole = kind_of(proposal), job.spec, not isinstance(proposal, Migrate)
    scales = kind in {Kind.SCALE_IN, Kind.SCALE_OUT}
    return Transaction(
        id=name,
        kind=kind,
        job=job.name,
        before=before,
        after=after,
        whole=whole,
        restart=isinstance(proposal, MigrateGang) or (scales and spec.resizing == "restart"),
        policy="",
        purpose=proposal.purpose if isinstance(proposal, Migrate | MigrateGang) else "",
        reason=str(proposal.reason),
        beneficiary=(proposal.beneficiary if isinstance(proposal, Preempt | Migrate | MigrateGang) else ""),
        state=first_state(kind),
        proposed_at=now,
        deadline=now,
        witnesses=_witnesses(proposal, job, before, after, replicas),
    )


def begin(state: State, proposal: Changing, now: float, *, name: str = "", policy: str = "") -> Step:
    """Return the state in which the proposal is under way, and the orders for it.

    `name` is the id that someone who asked for it gave it, and `policy` who is behind it.
    """
    number = state.transaction_count
    while not name or name in state.transactions:
        number += 1
        found = f"{_word(proposal)}-{number}"
        taken = found in state.transactions or any(each.id == found for each in state.history)
        name = "" if taken else found
    transaction = record_of(proposal, state.jobs, state.replicas, name=name, now=now)
    transaction = msgspec.structs.replace(transaction, policy=policy or state.settings.policy)
    return begin_first_state(msgspec.structs.replace(state, transaction_count=number), transaction, now)


def put_back(state: State, job: Job, now: float, why: str) -> Step:
    """Let a gang that is torn for too long wait again as a whole."""
    number = state.transaction_count + 1
    members = (state.replicas[name] for name in job.spec.replicas)
    return begin_first_state(
        msgspec.structs.replace(state, transaction_count=number),
        Transaction(
            id=f"{Kind.PUT_BACK}-{number}",
            kind=Kind.PUT_BACK,
            job=job.name,
            before={each.name: each.node or "" for each in members if each.active},
            after={},
            whole=True,
            policy="manager",
            reason=why,
            state=first_state(Kind.PUT_BACK),
            proposed_at=now,
            deadline=now,
        ),
        now,
    )


def restart(state: State, names: Sequence[str], savers: Sequence[Replica], now: float, why: str) -> Step:
    """Let these replicas of one job end and start again where they are, from what the savers saved last.

    Nothing is asked of what hangs: what it saved and was verified permits the end.
    """
    job = state.jobs[state.replicas[names[0]].job]
    number = state.transaction_count + 1
    places = {name: state.replicas[name].node or "" for name in sorted(names)}
    return begin_first_state(
        msgspec.structs.replace(state, transaction_count=number),
        Transaction(
            id=f"{Kind.RESTART}-{number}",
            kind=Kind.RESTART,
            job=job.name,
            before=places,
            after=places,
            whole=job.spec.coupled or len(job.spec.replicas) == 1,
            restart=True,
            policy="manager",
            purpose="hang",
            reason=why,
            state=first_state(Kind.RESTART),
            proposed_at=now,
            deadline=now,
            witnesses={
                each.name: Witness(
                    incarnation=each.incarnation, checkpoint=each.progress.checkpoint, answered=True
                )
                for each in savers
            },
        ),
        now,
    )


def begin_first_state(state: State, transaction: Transaction, now: float) -> Step:
    """Return the state in which the first state of the transaction has begun, and what it orders."""
    job = state.jobs[transaction.job]
    if transaction.kind is Kind.ADMIT:
        state = _admit(state, job, transaction, now)
    if transaction.whole:
        claims = {name: claim for name, claim in state.claims.items() if name != job.name}
        state = msgspec.structs.replace(state, changed_at=now, claims=claims)
    timed_one = set_deadline(state, transaction, now)
    return enter_state(state.with_transaction(timed_one), timed_one, None, now)


def _word(proposal: Changing) -> str:
    return str(kind_of(proposal))


def _ways(
    proposal: Changing, members: list[Replica], replicas: Mapping[str, Replica]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what runs before and after, node by replica."""
    if isinstance(proposal, Migrate):
        replica = replicas[proposal.replica]
        return {replica.name: replica.node or ""}, {replica.name: proposal.target}
    before = {each.name: each.node or "" for each in members if each.active}
    if isinstance(proposal, AdmitGang):
        return {}, dict(proposal.placement)
    if isinstance(proposal, ScaleOut | MigrateGang):
        return before, before | dict(proposal.placement)
    if isinstance(proposal, ScaleIn):
        return before, {name: node for name, node in before.items() if name not in proposal.replicas}
    return before, {}


def _witnesses(
    proposal: Changing,
    job: Job,
    before: Mapping[str, str],
    after: Mapping[str, str],
    replicas: Mapping[str, Replica],
) -> dict[str, Witness]:
    """Return the replicas whose checkpoints count for the ones that end: the savers, or each for itself."""
    workers = job.spec.worker_names
    if isinstance(proposal, AdmitGang):
        return {}
    if isinstance(proposal, Migrate):
        names = list(before)
    elif not job.spec.coupled:
        names = [name for name in workers if name in before and before[name] != after.get(name)]
    elif job.spec.savers == "all":
        names = [name for name in workers if name in before]
    else:
        names = [workers[0]]
    return {
        name: Witness(incarnation=replicas[name].incarnation, asked_step=replicas[name].progress.step)
        for name in names
    }


def _admit(state: State, job: Job, transaction: Transaction, now: float) -> State:
    """Let the job be admitted, and those of its workers be absent that have no place."""
    admitted = now if job.admitted_at is None else job.admitted_at
    state = state.with_job(msgspec.structs.replace(job, admitted=True, admitted_at=admitted))
    for name in job.spec.replicas:
        replica = state.replicas[name]
        if name not in transaction.after and replica.phase in {Phase.PENDING, Phase.AWAITED}:
            state = state.with_replica(msgspec.structs.replace(replica, phase=Phase.ABSENT, deadline=None))
    return state
