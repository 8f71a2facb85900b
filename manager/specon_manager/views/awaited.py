"""What a transaction in flight waits for, in words."""

from specon_manager.core.state import State
from specon_manager.core.transaction import members
from specon_manager.model.cluster import Phase, role_of
from specon_manager.model.transactions import ASKING_STATES, Transaction, TransactionState
from specon_manager.views.names import list_names


def describe_wait(transaction: Transaction, state: State) -> str:
    """Return what the present state waits for."""
    if transaction.state is TransactionState.PROPOSED:
        nodes = {node for name, node in transaction.after.items() if name not in transaction.held}
        return f"room on {list_names(sorted(nodes))}"
    if transaction.state in ASKING_STATES:
        silent = [name for name, witness in sorted(transaction.witnesses.items()) if not witness.answered]
        return f"a verified checkpoint of {list_names(silent)}" if silent else "the next look"
    if transaction.state is TransactionState.LEAVING:
        going = [each.name for each in members.leavers(state, transaction)]
        return f"the end of {list_names(going)}" if going else "the end of the replicas that were told to end"
    if transaction.state is TransactionState.COMING:
        coming = [name for name in sorted(transaction.wanted) if not _runs(state, name)]
        return f"the start of {list_names(coming)}" if coming else "that everything runs"
    return _proofs(transaction, state)


def _proofs(transaction: Transaction, state: State) -> str:
    """Return which steps and reports are missing that would show that training goes on."""
    wanted, since = sorted(transaction.wanted), transaction.running_at or 0.0
    witnesses = transaction.witnesses
    unproven = [name for name in wanted if name in witnesses and not witnesses[name].proven]
    silent = [
        name
        for name in wanted
        if transaction.whole and role_of(name) != "ps" and not _is_heard(state, name, since)
    ]
    parts = [f"a step of {list_names(unproven)} that shows that it trains"] if unproven else []
    parts += [f"a report of {list_names(silent)}"] if silent else []
    return ", and ".join(parts) or "the next look"


def _is_heard(state: State, name: str, since: float) -> bool:
    replica = state.replicas.get(name)
    return replica is None or (replica.progress.reported_at or 0.0) >= since


def _runs(state: State, name: str) -> bool:
    replica = state.replicas.get(name)
    return replica is None or replica.phase is Phase.RUNNING
