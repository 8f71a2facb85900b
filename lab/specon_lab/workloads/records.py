"""What every workload is made of: equal nodes, names of replicas, and reproducible draws."""

from random import Random
from typing import Final

from specon_manager.model.cluster import Node
from specon_manager.model.resources import Resources

GB: Final = 1e9
NAMESPACE: Final = "default"


def equal_nodes(count: int, capacity: Resources) -> tuple[Node, ...]:
    """Return that many nodes, `node-1`, `node-2`, ..."""
    return tuple(Node(name=f"node-{number}", capacity=capacity) for number in range(1, count + 1))


def replica_names(job: str, workers: int, ps: int = 0) -> tuple[str, ...]:
    """Return the names of the parameter servers, then of all workers that `namespace/job` may ever have."""
    servers = tuple(f"{job}/ps/{index}" for index in range(ps))
    return servers + tuple(f"{job}/worker/{index}" for index in range(workers))


def seed_random(text: str) -> Random:
    """Return a source of draws that gives the same for the same text, on any machine."""
    return Random(text)  # noqa: S311  (reproducible sampling, not cryptography)
