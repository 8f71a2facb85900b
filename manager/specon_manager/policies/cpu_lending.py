"""Converged replicas give processors to those beside them that still grow, in place, and get them back.

The least disruptive step there is: a weight is lowered before a move is thought of. Only where the owner says
how far (`lowest_cpu`), and only while someone on the node can use it. What a replica reserves stays its own:
its room is kept, so that it can have its processors back at any moment. SpeCon's categories; the weights in
place are SLAQ's idea (Zhang et al., SoCC 2017).
"""

from collections.abc import Iterator

from specon_manager.model.actions import Reweight
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count


def ease(snapshot: Snapshot) -> Iterator[Reweight]:
    """Propose the weights that should change now: lowered where others grow, restored where none does."""
    if not snapshot.reweight:
        return
    for node in snapshot.ready_nodes:
        for replica in snapshot.on_node[node.name]:
            if not _steady(replica, snapshot):
                continue
            lowest = lowest_weight(replica, snapshot)
            if lowest is None:
                continue
            if replica.weight == 1.0 and gives_way(replica, snapshot):
                others = format_count(
                    _count_growing(replica, snapshot), "other still grows", "others still grow"
                )
                why = (
                    f"it has converged, and {others} on {node.name}:"
                    f" {lowest:.0%} of its processors until then"
                )
                yield Reweight(replica=replica.name, weight=lowest, reason=why)
            elif replica.weight < 1.0 and not gives_way(replica, snapshot):
                grows = replica.progress.category is not Category.CONVERGED
                why = f"it is {replica.progress.category}" if grows else f"nobody else on {node.name} grows"
                yield Reweight(replica=replica.name, weight=1.0, reason=f"{why}: it has its processors back")


def eases_first(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether the weight of a replica is to be lowered before a move of it is thought of."""
    return (
        snapshot.reweight
        and replica.weight == 1.0
        and replica.node in snapshot.nodes
        and lowest_weight(replica, snapshot) is not None
        and gives_way(replica, snapshot)
    )


def lowest_weight(replica: Replica, snapshot: Snapshot) -> float | None:
    """Return the smallest weight that the owner of a replica allows; None where it allows none below 1."""
    spec = snapshot.jobs[replica.job].spec
    if spec.lowest_cpu is None or replica.requests.cpu <= 0:
        return None
    weight = spec.lowest_cpu / replica.requests.cpu
    return max(weight, 0.01) if weight < 1 else None


def gives_way(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether a replica has converged and others on its node still grow."""
    return replica.progress.category is Category.CONVERGED and _count_growing(replica, snapshot) > 0


def _count_growing(replica: Replica, snapshot: Snapshot) -> int:
    """Return how many other replicas on its node are not known to have converged."""
    if replica.node is None or replica.node not in snapshot.on_node:
        return 0
    census = snapshot.census(replica.node)
    return census.replicas - census.converged


def _steady(replica: Replica, snapshot: Snapshot) -> bool:
    return (
        replica.phase is Phase.RUNNING
        and replica.leaving is None
        and replica.name not in snapshot.moving
        and replica.job not in snapshot.changing
    )
