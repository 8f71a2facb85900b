"""Metrics of nodes, with their names as labels: bounded in number, and gone with the node."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_sidecar.classify import Category

MOST_NODES: Final = 1000
"""How many nodes have series of their own: the first by name."""


class NodeMetrics(Collector):
    """Counts the replicas of each node when it is scraped: that is done less often than Ticks come."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._state = State()
        registry.register(self)

    def forget(self) -> None:
        """Tell of no node: another manager does."""
        self._state = State()

    def observe(self, state: State) -> None:
        """Take the state in."""
        self._state = state

    def describe(self) -> list[Metric]:
        """Return the metric without its samples."""
        return [_family()]

    def collect(self) -> Iterator[Metric]:
        """Yield the metric as of now; what no replica of a node is, is not told."""
        nodes = sorted(self._state.nodes)[:MOST_NODES]
        counts = {node: Counter[Category]() for node in nodes}
        for replica in self._state.replicas.values():
            if replica.phase is Phase.RUNNING and replica.node in counts:
                counts[replica.node][replica.progress.category] += 1
        family = _family()
        for node in nodes:
            for category, count in sorted(counts[node].items()):
                family.add_metric([node, category.value], float(count))
        yield family


def _family() -> GaugeMetricFamily:
    text = f"Running replicas by node and category, of the first {MOST_NODES} nodes by name."
    return GaugeMetricFamily("specon_node_replicas", text, labels=("node", "category"))
