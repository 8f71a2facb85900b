"""How much disturbance at once the owner of the cluster accepts: the rest of that for one more move."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from specon_manager.model.actions import Objection, Refusal
from specon_manager.model.cluster import Replica
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.counts import format_count, format_times

BUSY: Final = "in flight, which is"
"""In the words of a refusal that is over as soon as another move is."""


def cluster_objection(snapshot: Snapshot) -> Objection | None:
    """Return that as many moves are in flight as the cluster may have; a gang's counts as one."""
    moves = len(snapshot.moves)
    return _object_spent(moves) if moves >= snapshot.settings.budgets.moves_at_once else None


def replicas_objection(replicas: Iterable[Replica], snapshot: Snapshot) -> Objection | None:
    """Return why one of the replicas that a move would end was moved enough for now."""
    budgets = snapshot.settings.budgets
    for replica in replicas:
        if replica.disrupted >= budgets.moves_per_replica:
            text = f"it was ended for a move {format_times(replica.disrupted)}, which is its budget"
            return Objection(Refusal.REPLICA_BUDGET, text)
        if snapshot.now < replica.cooldown_until:
            text = f"cooling down for {replica.cooldown_until - snapshot.now:.0f} s more"
            return Objection(Refusal.COOLDOWN, text)
    return None


def nodes_objection(nodes: Iterable[str | None], snapshot: Snapshot) -> Objection | None:
    """Return which of the nodes that a move would leave or join has enough moves in flight."""
    busy, most = snapshot.busy, snapshot.settings.budgets.moves_at_once_per_node
    for node in nodes:
        if node is not None and node in busy and busy[node] >= most:
            moves = format_count(busy[node], f"move of {node} is", f"moves of {node} are")
            text = f"{moves} {BUSY} its budget"
            return Objection(Refusal.NODE_BUDGET, text)
    return None


@lru_cache(maxsize=16)
def _object_spent(moves: int) -> Objection:
    text = f"{format_count(moves, 'move is', 'moves are')} {BUSY} the cluster's budget"
    return Objection(Refusal.CLUSTER_BUDGET, text)
