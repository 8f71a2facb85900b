"""Transactions are level-triggered: what the present state asks for is compared with the replicas' records.

So it does not matter which event came first, twice or never.
"""

from typing import Final

import msgspec

from specon_manager.core.restarts import note_left
from specon_manager.core.state import State, Step
from specon_manager.core.transaction import ends, members
from specon_manager.core.transaction.advance import REPEATS, apply_outcome, await_proof, tell
from specon_manager.core.transaction.orders import evictions, place_order, room_released
from specon_manager.core.transaction.promise import not_resumed
from specon_manager.core.transaction.table import Outcome
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.transactions import (
    ASKING_STATES,
    IN_PLACE,
    MAY_GO,
    RESUMED,
    SAVED,
    SAVING,
    UNTOUCHED_STATES,
    Kind,
    Transaction,
    TransactionState,
)

ReasonedOutcome = tuple[Outcome, str]
"""The result of the present state, and why in words."""

_OF_QUEUES: Final = frozenset({Kind.ADMIT, Kind.PREEMPT, Kind.PUT_BACK})
"""Kinds that concern only jobs that wait in a queue."""


def look(state: State, name: str, now: float) -> Step:
    """Carry the transaction of that id as far as the records let it; return the orders."""
    actions = list[Action]()
    while (transaction := state.transactions.get(name)) is not None:
        if transaction.job not in state.jobs:
            state, ordered = ends.forgotten(state, transaction, "its job is gone", now)
            return state, actions + ordered
        state, ordered = _keep_up(state, transaction, now)
        actions += ordered
        transaction = state.transactions[name]
        found = _find(state, state.jobs[transaction.job], transaction, now)
        if found is None:
            break
        outcome, why = found
        before = state
        state, ordered = apply_outcome(state, transaction, outcome, now, note=why)
        actions += ordered
        if state is before:
            break
    return state, actions


def _keep_up(state: State, transaction: Transaction, now: float) -> Step:
    """Let the records follow what came by itself: what has to go too, what landed elsewhere, what runs."""
    job = state.jobs[transaction.job]
    if transaction.state is TransactionState.LEAVING:
        state, news = tell(state, transaction, now)
        if job.owned and now >= transaction.deadline:
            # Its owner has had the time to take back a replica that was never seen.
            for replica in members.leavers(state, transaction):
                if replica.phase is Phase.STARTING:
                    state = note_left(state, replica, now)
        if not news:
            return state, []
        ending = {each.name: each.incarnation or "" for each in members.leavers(state, transaction)}
        grown = msgspec.structs.replace(transaction, ending={**transaction.ending, **ending})
        state = state.with_transaction(grown)
        return state, [place_order(state, job, grown)] if job.owned else evictions(state, grown)
    if transaction.state is TransactionState.CHECKPOINTING and transaction.kind is Kind.PREEMPT:
        return _fall_back(state, transaction, now), []
    actions = list[Action]()
    if transaction.state in {TransactionState.COMING, TransactionState.VERIFYING}:
        state, actions = _note_landing(state, transaction)
    if transaction.state is TransactionState.VERIFYING:
        state, ordered = _running_since(state, state.transactions[transaction.id], now)
        actions += ordered
    return state, actions


def _fall_back(state: State, transaction: Transaction, now: float) -> State:
    """Let who is preempted and has not saved in its grace period resume from what it saved by itself."""
    if not transaction.trouble and now < transaction.deadline:
        return state
    witnesses = dict(transaction.witnesses)
    for name, witness in transaction.witnesses.items():
        known = state.replicas[name].progress.checkpoint
        if not witness.answered and known is not None and known.verified:
            witnesses[name] = msgspec.structs.replace(witness, answered=True, checkpoint=known)
    return state.with_transaction(msgspec.structs.replace(transaction, witnesses=witnesses))


def _running_since(state: State, transaction: Transaction, now: float) -> Step:
    """Let the proof be awaited from when every wanted replica runs; an owner may start some of it again.

    The orders are repeated: a bare pod that is lost has nobody else who creates it.
    """
    wanted = members.wanted_replicas(state, transaction)
    runs = all(each.ended or (each.phase is Phase.RUNNING and each.leaving is None) for each in wanted)
    if runs and transaction.running_at is None:
        return await_proof(state, transaction, now), []
    if runs or transaction.running_at is None:
        return state, []
    state = state.with_transaction(transaction := msgspec.structs.replace(transaction, running_at=None))
    job = state.jobs[transaction.job]
    return state, [place_order(state, job, transaction)] if job.owned else []


def _note_landing(state: State, transaction: Transaction) -> Step:
    """Note where the scheduler of an owner put a replica that was to run elsewhere: it came to that node.

    The room that was held for it on the other is given back.
    """
    if not state.jobs[transaction.job].owned:
        return state, []
    wanted, elsewhere = dict(transaction.wanted), list[str]()
    for replica in members.wanted_replicas(state, transaction):
        ordered = wanted[replica.name]
        if replica.phase is Phase.RUNNING and replica.node and ordered != replica.node:
            wanted[replica.name] = replica.node
            if ordered:
                elsewhere.append(replica.name)
    if wanted == transaction.wanted:
        return state, []
    if transaction.attempt > 1:
        return state.with_transaction(msgspec.structs.replace(transaction, before=wanted)), []
    where = "; ".join(f"the scheduler put {name} on {wanted[name]}" for name in elsewhere)
    changed = msgspec.structs.replace(transaction, after=wanted, note=where or transaction.note)
    return state.with_transaction(changed), room_released(transaction, where, elsewhere)


def _find(state: State, job: Job, transaction: Transaction, now: float) -> ReasonedOutcome | None:
    if not members.is_described(job, transaction):
        return Outcome.GIVEN_UP, "its description names other replicas by now"
    if transaction.state is TransactionState.COMING and (came := _came(state, transaction)) is not None:
        return came
    if transaction.state is TransactionState.VERIFYING and (anew := _began_anew(state, transaction)):
        return Outcome.ANEW, anew  # before that it is over: it may have ended since
    if (over := _over(state, job, transaction)) is not None:
        return over
    if transaction.kind in _OF_QUEUES and job.owned and not job.spec.held:
        return Outcome.GIVEN_UP, "it names no queue any more: its owner alone says whether it runs"
    if (number := members.find_edited_workers(state, job, transaction)) is not None:
        return Outcome.GIVEN_UP, f"its owner changed the number of its workers to {number} meanwhile"
    if transaction.trouble == RESUMED:
        return Outcome.GIVEN_UP, RESUMED  # another order would only end what its user wants to run
    if transaction.state in UNTOUCHED_STATES:
        return _of_asking(state, transaction, now)
    if transaction.state is TransactionState.LEAVING:
        return _of_leaving(state, job, transaction, now)
    return _of_coming(state, job, transaction, now)


def _over(state: State, job: Job, transaction: Transaction) -> ReasonedOutcome | None:
    """Return that the training is over, or about to be: then there is nothing left to change."""
    about = members.records(state, transaction)
    failed = any(each.phase is Phase.FAILED for each in about)
    told = {each.leaving.purpose for each in about if each.leaving is not None}
    if failed or "fail" in told:
        return Outcome.GIVEN_UP, "it ends by itself"
    if job.ended_at is not None or "complete" in told:
        return Outcome.FINISHED, ""
    ended = [each for each in about if each.ended]
    if not ended or transaction.kind is Kind.ADMIT:
        return None
    return (Outcome.FINISHED, "") if len(ended) == len(about) else (Outcome.GIVEN_UP, "it ends by itself")


def _of_asking(state: State, transaction: Transaction, now: float) -> ReasonedOutcome | None:
    """Return what of room and checkpoints there is; nothing has ended yet, as far as is known."""
    if (changed := _not_as_it_was(state, transaction)) is not None:
        return changed
    if (lost := members.node_lost(state, transaction)) is not None:
        return Outcome.REFUSED, lost
    if transaction.state is TransactionState.PROPOSED:
        if transaction.trouble:
            return Outcome.REFUSED, transaction.trouble
        if set(transaction.held) >= set(transaction.moved):
            return Outcome.HELD, ""
    elif all(witness.answered for witness in transaction.witnesses.values()):
        apart = _apart(state.jobs[transaction.job], transaction)
        if not apart and transaction.purpose in IN_PLACE:
            return Outcome.REFUSED, SAVED if transaction.purpose == SAVING else MAY_GO
        return (Outcome.REFUSED, apart) if apart else (Outcome.SAVED, "")
    elif transaction.trouble:
        return Outcome.REFUSED, transaction.trouble
    if now < transaction.deadline:
        return None
    late = "no room was held in time" if transaction.state is TransactionState.PROPOSED else ""
    return Outcome.OVERDUE, late or "no verified checkpoint in time"


def _apart(job: Job, transaction: Transaction) -> str:
    """Return why the parts that several of a gang have saved make no checkpoint together; empty: they do."""
    if not job.spec.coupled:
        return ""
    steps = {
        name: witness.checkpoint.step
        for name, witness in sorted(transaction.witnesses.items())
        if witness.checkpoint is not None
    }
    if len(set(steps.values())) <= 1:
        return ""
    first, last = min(steps, key=lambda name: steps[name]), max(steps, key=lambda name: steps[name])
    return f"they saved at different steps: {first} at {steps[first]}, {last} at {steps[last]}"


def _not_as_it_was(state: State, transaction: Transaction) -> ReasonedOutcome | None:
    """Return what has ended, or was started again, of what ran when it began."""
    gone = [name for name in sorted(transaction.before) if not _runs(state, name)]
    if not transaction.ending.keys().isdisjoint(gone):
        return _note_late_end(state, transaction)
    if gone and transaction.changing_at is None:
        return Outcome.REFUSED, f"{gone[0]} ended before {_describe_awaited(transaction)}"
    for name, witness in sorted(transaction.witnesses.items()):
        if witness.incarnation != state.replicas[name].incarnation and name not in gone:
            return Outcome.REFUSED, f"{name} was started again meanwhile"
    return None


def _note_late_end(state: State, transaction: Transaction) -> ReasonedOutcome:
    """Return that an order to end was carried out that was believed lost: the rest follows it."""
    if apart := _apart(state.jobs[transaction.job], transaction):
        return Outcome.LOST, apart
    still = members.leavers(state, transaction) or members.has_unwanted(state, transaction)
    return (Outcome.SAVED, "") if still else _note_left(state, transaction)


def _of_leaving(state: State, job: Job, transaction: Transaction, now: float) -> ReasonedOutcome | None:
    leavers = members.leavers(state, transaction)
    if not leavers:
        if not members.has_unwanted(state, transaction):
            return _note_left(state, transaction)
        return (Outcome.OVERDUE, "") if now >= transaction.deadline else None
    untouched = members.is_untouched(state, transaction)
    if transaction.stale:
        return (Outcome.STALE if untouched else Outcome.OVERDUE), ""
    if transaction.trouble and untouched:
        return Outcome.REFUSED, transaction.trouble
    if transaction.trouble and job.owned:
        return Outcome.LOST, transaction.trouble
    if now < transaction.deadline:
        return None
    if job.owned and transaction.repeats >= REPEATS:
        words = transaction.stuck or "however often that was asked for"
        why = f"{leavers[0].name} was not made to go: {words}"
        return (Outcome.REFUSED if untouched else Outcome.LOST), why
    return Outcome.OVERDUE, ""


def _note_left(state: State, transaction: Transaction) -> ReasonedOutcome:
    """Return that all is gone; a replica that did not save at its end, as it had to, comes back.

    So does what has nowhere to go any more.
    """
    if (lost := members.node_lost(state, transaction)) is not None:
        return Outcome.LOST, lost
    if transaction.attempt == 1:
        for name, witness in sorted(transaction.witnesses.items()):
            saved = state.replicas[name].progress.checkpoint
            known = witness.checkpoint is not None or (saved is not None and saved.verified)
            if not known and name in transaction.after:
                return Outcome.LOST, "no verified checkpoint after the end"
    return Outcome.LEFT, ""


def _came(state: State, transaction: Transaction) -> ReasonedOutcome | None:
    """Return that every wanted replica runs, or has run as far as it had to."""
    wanted = members.wanted_replicas(state, transaction)
    there = all(
        (each.phase is Phase.RUNNING and each.leaving is None) or each.phase is Phase.SUCCEEDED
        for each in wanted
    )
    return (Outcome.CAME, "") if there and len(wanted) == len(transaction.wanted) else None


def _of_coming(state: State, job: Job, transaction: Transaction, now: float) -> ReasonedOutcome | None:
    """Return whether wanted replicas are missing, or have not shown that they train."""
    wanted = members.wanted_replicas(state, transaction)
    if (node := members.node_lost(state, transaction)) is not None:
        return Outcome.LOST, node
    missing = [each for each in wanted if each.phase is not Phase.RUNNING or each.leaving is not None]
    gone = [each for each in missing if not each.active and not each.ended]
    if gone and not job.owned:  # an owner starts again what crashed; it keeps its room until then
        return Outcome.LOST, f"{gone[0].name}: {gone[0].note or f'it is {gone[0].phase}'}"
    if transaction.trouble:
        return Outcome.LOST, transaction.trouble
    verifying = transaction.state is TransactionState.VERIFYING
    if verifying and not missing and _is_proven(job, transaction, wanted):
        return Outcome.PROVEN, ""
    if now < transaction.deadline:
        return None
    if missing:
        return Outcome.OVERDUE, f"{missing[0].name} did not start in time"
    return Outcome.OVERDUE, "it did not show in time that it trains"


def _is_proven(job: Job, transaction: Transaction, wanted: list[Replica]) -> bool:
    """Whether all that is wanted was seen to train; of what trains as one the first worker logs the steps."""
    names = {each.name for each in wanted}
    if transaction.whole and job.spec.coupled:
        names &= {job.spec.worker_names[0]}
    shown = all(witness.proven for name, witness in transaction.witnesses.items() if name in names)
    return shown and (not transaction.whole or _all_heard(transaction, wanted))


def _all_heard(transaction: Transaction, wanted: list[Replica]) -> bool:
    """Whether the sidecar of every worker has reported since all of them run."""
    since = transaction.running_at
    return since is not None and all(
        each.progress.sessions and (each.progress.reported_at or 0.0) >= since
        for each in wanted
        if each.role != "ps"
    )


def _began_anew(state: State, transaction: Transaction) -> str | None:
    """Return which witness did not resume from its checkpoint, in words; None where none is known not to."""
    for name, witness in sorted(transaction.witnesses.items()):
        replica = state.replicas[name]
        if replica.incarnation == witness.incarnation or name not in transaction.wanted:
            continue
        if (why := not_resumed(name, witness)) is not None:
            return why
    return None


def _runs(state: State, name: str) -> bool:
    replica = state.replicas.get(name)
    return replica is not None and replica.phase is Phase.RUNNING


def _describe_awaited(transaction: Transaction) -> str:
    return "its checkpoint was verified" if transaction.state in ASKING_STATES else "room was held"
