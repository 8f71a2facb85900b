"""News about a transaction becomes part of its record; `look` draws the conclusions."""

import msgspec

from specon_manager.core.state import State, Step
from specon_manager.core.transaction import advance
from specon_manager.core.transaction.orders import fresh_until, orders
from specon_manager.core.transaction.promise import promised_step
from specon_manager.core.transaction.table import Outcome, patience
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.progress import Progress
from specon_manager.model.transactions import (
    ASKING_STATES,
    RESUMED,
    Kind,
    Transaction,
    TransactionState,
    Witness,
)
from specon_sidecar.wire import Acknowledgement, Checkpoint, Report


def room_held(state: State, event: ev.RoomHeld, now: float) -> Step:
    """Take note that there is room for a replica."""
    del now
    transaction = state.transactions.get(event.transaction)
    if transaction is None or event.replica not in transaction.after or event.replica in transaction.held:
        return state, []
    held = (*transaction.held, event.replica)
    return state.with_transaction(msgspec.structs.replace(transaction, held=held)), []


def room_refused(state: State, event: ev.RoomRefused, now: float) -> Step:
    """Take note that there is none."""
    del now
    transaction = state.transactions.get(event.transaction)
    if transaction is None or transaction.state is not TransactionState.PROPOSED:
        return state, []
    return _note_trouble(state, transaction, event.reason), []


def note_delivered(state: State, event: ev.InstructionDelivered, now: float) -> Step:
    """Take note that a sidecar knows of a request."""
    transaction = _asking(state, event.id, event.replica, event.incarnation)
    if transaction is None or transaction.state is not TransactionState.RESERVED:
        return state, []
    return advance.apply_outcome(state, transaction, Outcome.ASKED, now)


def take_answer(state: State, event: ev.InstructionAcknowledged, now: float) -> Step:
    """Take a sidecar's answer to the request for a checkpoint."""
    answer = event.acknowledgement
    transaction = _asking(state, answer.id, answer.replica, answer.incarnation)
    if transaction is None:
        return state, []
    witness = transaction.witnesses[answer.replica]
    spec = state.jobs[transaction.job].spec
    if not answer.done:
        return _note_trouble(state, transaction, f"no checkpoint: {answer.reason or 'refused'}"), []
    if answer.checkpoint is None and spec.checkpointing == "on-termination":
        witness = msgspec.structs.replace(witness, answered=True)  # verified before anything is restored
    elif not _permits(witness, answer):
        return _note_trouble(state, transaction, "the sidecar named no verified checkpoint"), []
    else:
        witness = msgspec.structs.replace(
            witness,
            answered=True,
            checkpoint=answer.checkpoint,
            checkpoint_at=now - answer.age,
            asked_for=spec.checkpointing != "on-termination",
        )
    witnesses = {**transaction.witnesses, answer.replica: witness}
    return state.with_transaction(msgspec.structs.replace(transaction, witnesses=witnesses)), []


def take_report(state: State, report: Report, now: float, before: Progress) -> State:
    """Note the first step of a new incarnation, and the step that proves that training continues.

    `before` is the record of the replica without this report.
    """
    transaction = state.transaction_of(report.replica)
    witness = None if transaction is None else transaction.witnesses.get(report.replica)
    if transaction is None or witness is None or transaction.state is not TransactionState.VERIFYING:
        return state
    replica = state.replicas[report.replica]
    if transaction.running_at is None or report.incarnation != replica.incarnation:
        return state
    if replica.incarnation == witness.incarnation:
        witness = _note_training(witness, report)
    else:
        earliest = transaction.running_at if transaction.gone_at is None else transaction.gone_at
        at = max(earliest, now - _age_of_first(report, before))
        witness = _note_resume(witness, report, now, at)
    if witness is transaction.witnesses[report.replica]:
        return state
    witnesses = {**transaction.witnesses, report.replica: witness}
    return state.with_transaction(msgspec.structs.replace(transaction, witnesses=witnesses))


def eviction_refused(state: State, event: ev.EvictionRefused, now: float) -> Step:
    """Take note that a replica cannot be made to end."""
    del now
    transaction = state.transaction_of(event.replica)
    if transaction is None or transaction.state is not TransactionState.LEAVING:
        return state, []
    told = transaction.ending.get(event.replica)
    if told is None or (event.incarnation is not None and told not in {"", event.incarnation}):
        return state, []
    return _note_refusal(state, transaction, event.reason)


def job_refused(state: State, event: ev.JobRefused, now: float) -> Step:
    """Take note that an order cannot be carried out, or not even be recorded."""
    del now
    transaction = state.transactions.get(event.transaction)
    if transaction is None or transaction.job != event.job:
        return state, []
    return _note_refusal(state, transaction, event.reason)


def note_expired(state: State, event: ev.OrderExpired, now: float) -> Step:
    """Take note that nothing was told to end, since the checkpoint that permits it has grown old."""
    del now
    transaction = state.transactions.get(event.transaction)
    if transaction is None or transaction.state is not TransactionState.LEAVING or transaction.attempt > 1:
        return state, []
    return state.with_transaction(msgspec.structs.replace(transaction, stale=True)), []


def note_sidecar_missing(state: State, event: ev.SidecarMissing, now: float) -> Step:
    """Take note of how many pods of a replica came without a sidecar, on the way there and back together."""
    del now
    transaction = state.transactions.get(event.transaction)
    if transaction is None or event.replica not in transaction.concerned:
        return state, []
    if event.count <= transaction.missing_sidecars.get(event.replica, 0):
        return state, []
    known = {**transaction.missing_sidecars, event.replica: event.count}
    return state.with_transaction(msgspec.structs.replace(transaction, missing_sidecars=known)), []


def order_again(state: State, now: float) -> Step:
    """Repeat the orders of transactions in flight; deadlines that passed while nobody watched begin again.

    A replica that was about to end may have trained on: then a new checkpoint is asked for first.
    """
    actions = list[Action]()
    for known in sorted(state.transactions.values(), key=lambda each: (each.proposed_at, each.id)):
        job = state.jobs.get(known.job)
        if job is None:
            continue
        seconds = patience(
            known.kind,
            known.state,
            state.settings.deadlines,
            grace=job.spec.grace_seconds,
            alone=known.kind is Kind.MOVE and not known.whole,
        )
        again = msgspec.structs.replace(known, deadline=max(known.deadline, now + seconds))
        until = fresh_until(state, again) if again.state is TransactionState.LEAVING else None
        if until is not None and now > until:
            again = msgspec.structs.replace(again, stale=True)
            state = state.with_transaction(again)
            continue  # `look` then decides on the orders
        state = state.with_transaction(again)
        actions += orders(state, again)
    return state, actions


def _asking(state: State, request: str, replica: str, incarnation: str) -> Transaction | None:
    """Return the transaction that waits for this answer of that incarnation, None where none does."""
    transaction = state.transaction_of(replica)
    if transaction is None or transaction.state not in ASKING_STATES or transaction.request != request:
        return None
    witness = transaction.witnesses.get(replica)
    if witness is None or witness.answered or witness.incarnation != incarnation:
        return None
    known = state.replicas[replica].incarnation
    return transaction if known == incarnation else None  # else the request is over


def _permits(witness: Witness, answer: Acknowledgement) -> bool:
    """Whether the checkpoint is verified, and no older than the known one."""
    checkpoint = answer.checkpoint
    if checkpoint is None or not checkpoint.verified:
        return False
    return witness.checkpoint is None or checkpoint.step >= witness.checkpoint.step


def _note_training(witness: Witness, report: Report) -> Witness:
    """Return a witness that was not ended: a step after the last one known is the proof."""
    step = None if report.last is None else report.last.step
    last = witness.last_step
    shown = last is None if step is None else last is None or step > last
    if witness.proven or not shown:
        return witness
    return msgspec.structs.replace(witness, proven=True, first_step=step)


def _note_resume(witness: Witness, report: Report, now: float, at: float) -> Witness:
    """Return a witness whose next incarnation runs: a step after the checkpoint's is the proof.

    `at` is when its first step came, if it has come.
    """
    if report.first is not None and witness.first_step is None:
        witness = _first_step(witness, report, now, at)
    step = None if report.last is None else report.last.step
    saved = promised_step(witness)
    if witness.proven:
        return witness
    if step is None and witness.last_step is None:
        return msgspec.structs.replace(witness, proven=True)  # its log names no steps
    if step is None or witness.first_step is None or (saved is not None and step <= saved):
        return witness
    return msgspec.structs.replace(witness, proven=True)


def _age_of_first(report: Report, before: Progress) -> float:
    """Return how long ago the first step of an incarnation came, seconds; 0 where none has come.

    A trainer may be faster than its sidecar begins to read. Lines read in one go all have the age of that
    reading: then the pace before tells how much earlier the first step came.
    """
    first, last = report.first, report.last
    if first is None:
        return 0.0
    if first.step is None or last is None or last.step is None or last.age < first.age:
        return first.age
    if before.step_seconds is None:
        return first.age
    return first.age + max(0, last.step - first.step) * before.step_seconds


def _first_step(witness: Witness, report: Report, now: float, at: float) -> Witness:
    """Return the witness with the end of the downtime, and with the lost steps.

    The log that the new incarnation continues is a better record of trained steps than the last report.
    """
    assert report.first is not None
    last, last_at = witness.last_step, witness.last_step_at
    former = report.former
    if former is not None and former.step is not None and (last is None or former.step >= last):
        last, last_at = former.step, now - former.age
    first = report.first.step
    lost = None
    if first is not None and last is not None:
        lost = max(0, last - _find_resumed(witness, report.checkpoint, first))
    return msgspec.structs.replace(
        witness,
        first_step=first,
        last_step=last,
        last_step_at=last_at,
        downtime=None if last_at is None else max(0.0, at - last_at),
        steps_lost=lost,
    )


def _find_resumed(witness: Witness, newest: Checkpoint | None, first: int) -> int:
    """Return the step from which it resumed at the earliest, by the first one that its log names.

    That of the newest checkpoint that is known, or a later one: while nobody led, more may have been saved.
    The `newest` that its own sidecar tells of is the one if the first step comes right behind it.
    """
    if witness.resumed_from is None or (newest is not None and newest.step == first - 1):
        return first - 1
    known = witness.resumed_from
    if witness.step_gap is not None:
        known = max(known, first - witness.step_gap)
    return min(first - 1, known)


def _note_trouble(state: State, transaction: Transaction, why: str) -> State:
    return state.with_transaction(msgspec.structs.replace(transaction, trouble=why))


def _note_refusal(state: State, transaction: Transaction, why: str) -> Step:
    """Take note of a refusal; on the way back it is tried until it is overdue, and people are told."""
    if why == RESUMED:
        return _note_trouble(state, transaction, why), []
    if transaction.attempt > 1:
        if transaction.state is not TransactionState.LEAVING:
            return state, []
        return state.with_transaction(msgspec.structs.replace(transaction, stuck=why)), []
    if transaction.state is TransactionState.VERIFYING:
        return state, []
    return _note_trouble(state, transaction, why), []
