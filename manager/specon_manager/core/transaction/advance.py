"""What an outcome does to a transaction: the next state by the table, and what that state begins with."""

import msgspec

from specon_manager.core.state import State, Step
from specon_manager.core.transaction import ends, members
from specon_manager.core.transaction.orders import orders, room_released, withdrawn
from specon_manager.core.transaction.table import Outcome, following, patience
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Leaving, Phase, Replica
from specon_manager.model.transactions import (
    ASKING_STATES,
    FINAL_STATES,
    Kind,
    Transaction,
    TransactionState,
    Witness,
)
from specon_sidecar.counts import format_times
from specon_sidecar.wire import Checkpoint

REPEATS = 2
"""How often an order to end is given again before what does not obey is called stuck."""
_ASKS = 4
"""How often checkpoints are asked for, where they grow old before they are acted upon."""


def apply_outcome(
    state: State, transaction: Transaction, outcome: Outcome, now: float, *, note: str = ""
) -> Step:
    """Return the state after the outcome happened to the transaction, and the orders."""
    if outcome is Outcome.STALE and transaction.asks >= _ASKS:
        # To ask forever would end as badly as to act upon old checkpoints: nothing was told to end.
        outcome, note = Outcome.REFUSED, f"its checkpoints grew old {format_times(transaction.asks)}"
    found = following(transaction.kind, transaction.attempt, transaction.state, outcome)
    if found is None:
        return state, []
    target, attempt = found
    why = note or str(outcome)
    if target is TransactionState.SUCCEEDED and transaction.came_back:
        target, why = TransactionState.ROLLED_BACK, transaction.note or why
    if target in FINAL_STATES:
        return ends.close_transaction(state, transaction, target, now, note=why, anew=outcome is Outcome.ANEW)
    actions = list[Action]()
    following_one = msgspec.structs.replace(transaction, state=target, trouble="", stale=False)
    if attempt > transaction.attempt:
        owned = state.jobs[transaction.job].owned
        if not owned and (lacking := members.no_way_back(state, transaction, now)) is not None:
            note = f"{why}; then on the way back: {lacking}"
            return ends.close_transaction(state, transaction, TransactionState.FAILED, now, note=note)
        actions += room_released(transaction, why)
        following_one = _turn_back(state, following_one, why)
        state = _hold_the_way_back(state, following_one)
    elif transaction.state in ASKING_STATES and target not in ASKING_STATES:
        actions += withdrawn(transaction)
    state = state.with_transaction(set_deadline(state, following_one, now))
    state, ordered = enter_state(state, state.transactions[transaction.id], transaction.state, now)
    return state, actions + ordered


def set_deadline(state: State, transaction: Transaction, now: float) -> Transaction:
    """Return the transaction with the deadline of a state that begins now; a wait keeps its own."""
    known = state.transactions.get(transaction.id)
    if known is not None and known.state in ASKING_STATES and transaction.state in ASKING_STATES:
        return transaction  # counted from the request
    seconds = patience(
        transaction.kind,
        transaction.state,
        state.settings.deadlines,
        grace=state.jobs[transaction.job].spec.grace_seconds,
        alone=transaction.kind is Kind.MOVE and not transaction.whole,
    )
    return msgspec.structs.replace(transaction, deadline=now + seconds)


def tell(state: State, transaction: Transaction, now: float) -> tuple[State, bool]:
    """Let the records of what has to go say so, and those of what stays not; return whether any is news."""
    news = False
    for replica in members.ending_replicas(state, transaction):
        goes = members.must_go(transaction, replica)
        if goes and replica.leaving is None:
            told = Leaving(
                purpose=members.purpose_of(transaction, replica.name),
                since=now,
                deadline=transaction.deadline,
                reason=f"{transaction.id}: {transaction.note or transaction.reason}",
            )
            state, news = state.with_replica(msgspec.structs.replace(replica, leaving=told)), True
        elif not goes and replica.phase is Phase.RUNNING and _was_told(replica):
            state = state.with_replica(msgspec.structs.replace(replica, leaving=None))
    return state, news


def await_proof(state: State, transaction: Transaction, now: float) -> State:
    """Return the state in which every wanted replica runs since now, and nothing is proven yet."""
    witnesses = {}
    for name, witness in transaction.witnesses.items():
        record = state.replicas.get(name)
        if record is not None and record.incarnation == witness.incarnation:
            # It trains on meanwhile: a step after the last one known is the proof.
            witness = msgspec.structs.replace(witness, last_step=record.progress.step)  # noqa: PLW2901
        witnesses[name] = msgspec.structs.replace(witness, proven=False, first_step=None)
    return state.with_transaction(msgspec.structs.replace(transaction, running_at=now, witnesses=witnesses))


def _turn_back(state: State, transaction: Transaction, why: str) -> Transaction:
    """Return the transaction on its way back; an owner puts elsewhere what has no node to go back to."""
    before = transaction.before
    if state.jobs[transaction.job].owned:
        ready = {node.name for node in state.nodes.values() if node.ready}
        before = {name: node if node in ready else "" for name, node in before.items()}
    return msgspec.structs.replace(
        transaction, attempt=2, note=why, before=before, repeats=0, ending={}, stuck="", running_at=None
    )


def _hold_the_way_back(state: State, transaction: Transaction) -> State:
    """Let what waits hold room where it goes back to, and none where it could not start."""
    for replica in members.wanted_replicas(state, transaction):
        node = transaction.wanted[replica.name] or None
        if replica.holds and not replica.active and replica.node != node:
            held = msgspec.structs.replace(replica, node=node, holds=node is not None)
            state = state.with_replica(held)
    return state


def enter_state(state: State, transaction: Transaction, former: TransactionState | None, now: float) -> Step:
    """Return the state in which the present state of the transaction has begun, and what it orders.

    `former` is the state before it; None: it is the first.
    """
    if transaction.state is TransactionState.LEAVING:
        again = former is TransactionState.LEAVING and bool(transaction.ending)
        return _leaving(state, transaction, now, again=again)
    if transaction.state is TransactionState.CHECKPOINTING and former is TransactionState.RESERVED:
        return state, []  # a wait that only got a new name
    if transaction.state is TransactionState.CHECKPOINTING and former is TransactionState.LEAVING:
        state = _ask_anew(state, transaction)
    elif transaction.state is TransactionState.COMING:
        state = _coming(state, transaction, now)
    elif transaction.state is TransactionState.VERIFYING:
        state = await_proof(state, transaction, now)
    return state, orders(state, state.transactions[transaction.id])


def _leaving(state: State, transaction: Transaction, now: float, *, again: bool) -> Step:
    if again:
        repeats = transaction.repeats + 1
        stuck = transaction.stuck
        if repeats > REPEATS and not stuck:
            late = [each.name for each in members.leavers(state, transaction)]
            stuck = f"{late[0]} was told {format_times(repeats)} to end and is still there" if late else ""
        transaction = msgspec.structs.replace(transaction, repeats=repeats, stuck=stuck)
        state = state.with_transaction(transaction)
        return state, orders(state, transaction)
    if transaction.changing_at is None:
        transaction = msgspec.structs.replace(
            transaction, changing_at=now, witnesses=_last_seen(state, transaction)
        )
    leavers = members.leavers(state, transaction)
    transaction = msgspec.structs.replace(
        transaction, ending={each.name: each.incarnation or "" for each in leavers}
    )
    state, _ = tell(state.with_transaction(transaction), transaction, now)
    if not leavers and transaction.wanted:
        return state, []  # nothing to wait for: what comes next is ordered at once
    return state, orders(state, transaction)


def _ask_anew(state: State, transaction: Transaction) -> State:
    """Ask for new checkpoints: those at hand are older than what may be lost."""
    witnesses = {
        name: msgspec.structs.replace(witness, answered=False, asked_step=state.replicas[name].progress.step)
        for name, witness in transaction.witnesses.items()
    }
    asked = msgspec.structs.replace(transaction, asks=transaction.asks + 1, witnesses=witnesses)
    return state.with_transaction(asked)


def _coming(state: State, transaction: Transaction, now: float) -> State:
    """Let wanted replicas that do not run be about to start, and note from where they continue."""
    if transaction.attempt == 1:
        transaction = msgspec.structs.replace(
            transaction,
            gone_at=now,
            changing_at=now if transaction.changing_at is None else transaction.changing_at,
            witnesses=_find_last_saved(state, transaction),
        )
    state = state.with_transaction(msgspec.structs.replace(transaction, ending={}))
    state = members.drop_newcomers(state, transaction)  # before anybody is told of the others
    for replica in members.wanted_replicas(state, transaction):
        if replica.phase is Phase.RUNNING or replica.ended:
            continue
        starting = msgspec.structs.replace(
            replica,
            phase=Phase.STARTING,
            node=transaction.wanted[replica.name] or None,
            incarnation=None,
            starts=replica.starts + 1,
            deadline=None,
            not_before=0.0,
            holds=False,
            leaving=None,
            weight=1.0,
            weighed=False,
        )
        state = state.with_replica(starting)
    return state


def _last_seen(state: State, transaction: Transaction) -> dict[str, Witness]:
    """Return the witnesses with the last step that is known of each before it is told to end."""
    found = {}
    for name, witness in transaction.witnesses.items():
        progress = state.replicas[name].progress
        found[name] = msgspec.structs.replace(
            witness,
            began_step=progress.first_step if progress.began_step is None else progress.began_step,
            last_step=progress.step,
            last_step_at=progress.step_at,
        )
    return found


def _find_last_saved(state: State, transaction: Transaction) -> dict[str, Witness]:
    """Return the witnesses with what each saved last, perhaps when it was told to end."""
    found = {}
    for name, witness in transaction.witnesses.items():
        progress = state.replicas[name].progress
        known = progress.checkpoint
        final = known if known is not None and known.verified else None
        kept = witness.checkpoint or final
        found[name] = msgspec.structs.replace(
            witness,
            checkpoint=kept,
            resumed_from=_latest(kept, final),
            step_gap=progress.step_gap,
            last_step=_most(witness.last_step, progress.step),
            last_step_at=progress.step_at if progress.step_at is not None else witness.last_step_at,
        )
    return found


def _latest(one: Checkpoint | None, other: Checkpoint | None) -> int | None:
    steps = [checkpoint.step for checkpoint in (one, other) if checkpoint is not None]
    return max(steps, default=None)


def _most(one: int | None, other: int | None) -> int | None:
    return max((step for step in (one, other) if step is not None), default=None)


def _was_told(replica: Replica) -> bool:
    return replica.leaving is not None and replica.leaving.purpose not in {"complete", "fail"}
