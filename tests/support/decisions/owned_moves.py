"""A job that its owner places, and a move of one of its replicas that stands in any state."""

from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob
from specon_manager.model.transactions import FINAL_STATES, Transaction, TransactionState
from specon_sidecar.wire import Checkpoint
from support.decisions.cluster import DIGEST
from support.decisions.owners import Owners, described

A, A1 = "default/a/worker/0", "default/a/worker/1"
MOVE = "default/by-hand"
STATES = [state for state in TransactionState if state not in FINAL_STATES]


def running(replicas: int = 1, **changes: object) -> Owners:
    """Let job `a` run on node-0 at step 100; node-1 is empty."""
    cluster = Owners()
    cluster.observe(described("a", replicas, **changes))
    cluster.start_all("node-0")
    for name in sorted(cluster.live):
        cluster.report(name, step=100)
    cluster.orders.clear()
    return cluster


def moving(stop: TransactionState, **changes: object) -> Owners:
    """Bring a move of A to node-1 to this state; its orders wait."""
    cluster = running(**changes)
    cluster.sidecars_answer = False
    cluster.post(ev.MoveRequested(id=MOVE, replica=A, target="node-1", reason="maintenance"))
    cluster.orders.clear()
    checkpoint = Checkpoint(step=100, path="/c", digest=DIGEST)
    past = {
        TransactionState.RESERVED: lambda: cluster.post(ev.RoomHeld(transaction=MOVE, replica=A)),
        TransactionState.CHECKPOINTING: lambda: cluster.post(
            ev.InstructionDelivered(id=MOVE, replica=A, incarnation="uid-1")
        ),
        TransactionState.LEAVING: lambda: cluster.acknowledge(A, checkpoint=checkpoint),
        TransactionState.COMING: lambda: carry_out_placement(cluster),
        TransactionState.VERIFYING: lambda: carry_out_placement(cluster),
    }
    for state, happens in past.items():
        if move_of(cluster).state is stop:
            break
        happens()
        assert move_of(cluster).state is state
    return cluster


def carry_out_placement(cluster: Owners) -> None:
    """Let the owner do what it was ordered first."""
    cluster.carry_out_one(next(order for order in cluster.orders if isinstance(order, PlaceJob)))


def move_of(cluster: Owners) -> Transaction:
    """Return the move of A that is in flight."""
    found = cluster.state.transaction_of(A)
    assert found is not None
    return found
