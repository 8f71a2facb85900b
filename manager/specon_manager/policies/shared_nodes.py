"""How many replicas each node has: what to go by for jobs that request nothing, and so fit everywhere."""

from collections.abc import Mapping

from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING
from specon_manager.model.snapshot import Snapshot


class Crowd:
    """The replicas on each ready node: a count that one call of a policy adds to."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._count = {node.name: len(snapshot.on_node[node.name]) for node in snapshot.ready_nodes}

    def on(self, node: str) -> int:
        """Return how many replicas the node has, those that were just placed among them."""
        return self._count[node]

    def add(self, placement: Mapping[str, str]) -> None:
        """Count these replicas, node by replica, where they were placed."""
        for node in placement.values():
            self._count[node] += 1

    def order(self, spec: JobSpec) -> list[str] | None:
        """Return the nodes, that with the fewest replicas first; None for a job that requests something.

        For such a job the idle room decides.
        """
        if reserves(spec):
            return None
        return sorted(self._count, key=self._count.__getitem__)  # stable: of equals the first by name


def reserves(spec: JobSpec) -> bool:
    """Whether any replica of the job reserves something; one that does not shares the processors."""
    return spec.requests != NOTHING or spec.ps_requests not in (None, NOTHING)
