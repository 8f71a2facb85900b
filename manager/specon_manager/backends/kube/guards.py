"""Which rooms a move keeps from its equals, and the names of the pods that do it; see `Defence`. Pure."""

from msgspec import Struct

from specon_manager.backends.kube.placeholder import defended_name
from specon_manager.model.transactions import UNTOUCHED_STATES, Kind, Transaction, TransactionState


class Guard(Struct, frozen=True):
    """Room that is, or may be, kept for a replica."""

    move: str
    replica: str
    node: str

    @property
    def name(self) -> str:
        """The name of its pod."""
        return defended_name(self.move, self.replica, self.node)


def guards_of(transaction: Transaction) -> list[Guard]:
    """Return the room that a move in flight needs; none before a replica of it was told to end. Pure.

    Once all its replicas run, it needs only the way back; on the way back it does not need the targets.
    """
    if transaction.kind is not Kind.MOVE or transaction.state in UNTOUCHED_STATES:
        return []
    runs = transaction.state is TransactionState.VERIFYING
    found: list[Guard] = []
    for replica in transaction.concerned:
        source, target = transaction.before.get(replica, ""), transaction.after.get(replica, "")
        back = transaction.attempt > 1
        nodes = [] if runs and (back or source == target) else [source]
        nodes += [] if runs or back else [target]
        found += [Guard(transaction.id, replica, node) for node in dict.fromkeys(nodes) if node]
    return found
