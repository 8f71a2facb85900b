"""What is true of transactions after every event, whatever their kind."""

from collections.abc import Mapping, Sequence
from typing import Final

from specon_manager.core.state import State
from specon_manager.model.actions import Action, EvictReplica, RequestCheckpoint
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.transactions import (
    ASKING_STATES,
    FINAL_STATES,
    UNTOUCHED_STATES,
    Kind,
    Transaction,
    TransactionState,
)

_ORDER: Final[Mapping[TransactionState, int]] = {state: rank for rank, state in enumerate(TransactionState)}
_SCALINGS: Final = {Kind.SCALE_IN, Kind.SCALE_OUT}
_ENDING_KINDS: Final = {Kind.MOVE, Kind.RESTART, Kind.PREEMPT, Kind.SCALE_IN, Kind.SCALE_OUT}


def check(before: State, after: State, actions: Sequence[Action], now: float) -> None:
    """Check one step."""
    seen: dict[str, str] = {}
    for name, each in after.transactions.items():
        assert each.id == name
        assert each.in_flight
        assert each.job in after.jobs, f"{name} of a job that is gone"
        spec = after.jobs[each.job].spec
        assert spec.transacted or not each.whole or each.kind in {Kind.PUT_BACK, Kind.RESTART}
        for replica in each.concerned:
            assert replica not in seen, f"{replica} is in {name} and in {seen[replica]}"
            seen[replica] = name
        if each.whole:
            assert after.transactions_of(each.job) == [each], f"{name} is not alone"
        _check_deadline(after, each, now)
    assert all(each.state in FINAL_STATES for each in after.history)
    identities = [each.id for each in (*after.transactions.values(), *after.history)]
    assert len(identities) == len(set(identities))
    ended = {each.id: each for each in after.history}
    for name, former in before.transactions.items():
        later = after.transactions.get(name) or ended.get(name)
        assert later is not None, f"{name} vanished"
        _check_progress(former, later)
    known = {each.id for each in before.history}
    for each in after.history:
        if each.id not in known:
            _check_end(after, each)
    _check_orders(before, after, actions)


def check_permitted(state: State, transaction: Transaction) -> None:
    """See that something is told to end only while it is to, and with every checkpoint verified."""
    assert transaction.state is TransactionState.LEAVING, f"{transaction.id} is {transaction.state}"
    if transaction.attempt > 1 or transaction.kind not in _ENDING_KINDS:
        return
    if state.jobs[transaction.job].spec.checkpointing == "on-termination":
        return
    assert transaction.witnesses or not state.jobs[transaction.job].spec.coupled
    for name, witness in transaction.witnesses.items():
        assert witness.checkpoint is not None, f"{transaction.id} ends {name} without a checkpoint"
        assert witness.checkpoint.verified, f"{transaction.id} ends {name} without a verified checkpoint"
    _check_one_step(state, transaction)


def _check_one_step(state: State, transaction: Transaction) -> None:
    """See that the parts of a checkpoint that several have saved are of one step."""
    found = [each.checkpoint.step for each in transaction.witnesses.values() if each.checkpoint is not None]
    apart = state.jobs[transaction.job].spec.coupled and len(set(found)) > 1
    assert not apart, f"{transaction.id} goes on from the steps {sorted(found)}"


def trains(state: State, job: Job, present: Sequence[Replica]) -> bool:
    """Return whether all of the job trains, or all of those that a transaction of it lets train on."""
    whole = state.whole_transaction_of(job.name)
    if whole is not None and whole.kind is not Kind.ADMIT:
        if whole.state in UNTOUCHED_STATES and whole.changing_at is None:
            names = [name for name in whole.before if name in state.replicas]
            return all(state.replicas[n].ended or state.replicas[n].phase is Phase.RUNNING for n in names)
        if whole.kind in _SCALINGS and not whole.restart:
            stay = set(whole.before) & set(whole.after)
            present = [each for each in present if each.name in stay]
    return all(each.ended or (each.phase is Phase.RUNNING and each.leaving is None) for each in present)


def _check_deadline(state: State, each: Transaction, now: float) -> None:
    """No state of a transaction lasts without end."""
    deadlines, grace = state.settings.deadlines, state.jobs[each.job].spec.grace_seconds
    longest = max(
        deadlines.hold,
        deadlines.start,
        deadlines.checkpoint,
        deadlines.ready,
        deadlines.verify,
        grace + deadlines.eviction_margin,
    )
    assert each.deadline <= now + longest + 1e-6, f"{each.id} may last for {each.deadline - now} s"


def _check_progress(former: Transaction, later: Transaction) -> None:
    """See that it goes along its states, turns back once at most, and keeps what it is about."""
    assert later.attempt in {former.attempt, 2}
    assert (later.kind, later.job, later.whole) == (former.kind, former.job, former.whole)
    assert later.before.keys() == former.before.keys()
    assert later.after.keys() == former.after.keys()
    assert later.witnesses.keys() == former.witnesses.keys()
    turned, asked_anew = later.attempt > former.attempt, later.asks > former.asks
    along = _ORDER[later.state] >= _ORDER[former.state]
    assert turned or asked_anew or along, f"{former.id}: {former.state} -> {later.state}"


def _check_end(state: State, over: Transaction) -> None:
    """See that it says why it did not succeed; what succeeded is as it was to be, and was proven."""
    assert over.ended_at is not None
    succeeded = over.state is TransactionState.SUCCEEDED
    assert succeeded or over.note, f"{over.id} does not say why"
    if over.state is TransactionState.REFUSED:
        assert over.changing_at is None
    if not succeeded:
        return
    assert over.attempt == 1
    _check_proof(state, over)
    job = state.jobs[over.job]
    if state.transactions_of(over.job):
        return
    for name in over.after:
        replica = state.replicas[name]
        taken_back = job.ended_at is not None and replica.phase is Phase.ABSENT  # by its owner, at the end
        there = replica.ended or replica.phase is Phase.RUNNING
        assert there or taken_back, f"{over.id} without {name}"
    if over.kind in {Kind.PREEMPT, Kind.PUT_BACK}:
        assert not any(state.replicas[name].active for name in job.spec.replicas)


def _check_proof(state: State, over: Transaction) -> None:
    """See that what was ended goes on from its checkpoint, unless the training is over.

    It may be over in mid-move: its owner takes back the replica that moves, and all others are complete.
    """
    if state.jobs[over.job].ended_at is not None:
        return
    about = [state.replicas[name] for name in over.concerned if name in state.replicas]
    if any(each.ended or (each.leaving is not None and each.leaving.purpose == "complete") for each in about):
        return
    spec = state.jobs[over.job].spec
    for name, witness in over.witnesses.items():
        silent = (
            over.whole and spec.coupled and name != spec.worker_names[0]
        )  # its first worker logs the steps
        if name not in over.after or silent:
            continue
        assert witness.proven, f"{over.id} succeeded without a proof of {name}"
        record = state.replicas[name]
        if over.kind is Kind.MOVE or over.restart:
            assert witness.checkpoint is not None
            assert record.progress.step is None or record.progress.step > witness.checkpoint.step
            least = witness.checkpoint.step - (witness.step_gap or 0)
            began = 1 if witness.began_step is None else witness.began_step  # step 1 is beyond a begin at 0
            anew = witness.step_gap is not None or (witness.first_step or 0) <= began
            assert witness.first_step is None or not anew or witness.first_step >= least


def _check_orders(before: State, after: State, actions: Sequence[Action]) -> None:
    for each in after.transactions.values():
        former = before.transactions.get(each.id)
        told = each.state is TransactionState.LEAVING
        begins = told and (former is None or (former.state, former.attempt) != (each.state, each.attempt))
        if told:
            check_permitted(after, each)
        if each.kind is Kind.MOVE and each.attempt == 1 and each.state not in ASKING_STATES:
            _check_one_step(after, each)
        if begins and not after.jobs[each.job].owned:
            evicted = {action.replica for action in actions if isinstance(action, EvictReplica)}
            here = {n for n in each.concerned if after.replicas[n].leaving is not None}
            assert here <= evicted, f"{sorted(here - evicted)} were not told to end"
    for action in actions:
        if isinstance(action, RequestCheckpoint):
            transaction = after.transactions.get(action.transaction)
            assert transaction is None or action.id == transaction.request
