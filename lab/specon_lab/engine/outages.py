"""Nodes of the simulated cluster: what the manager is told of them, and their failures."""

from collections.abc import Callable

from specon_lab.engine.progress import Pace
from specon_lab.engine.world import Incarnation, SimulatedNode, World
from specon_lab.workloads.workload import NodeFailure
from specon_manager.model import events as ev
from specon_manager.model.cluster import Node
from specon_manager.model.resources import Resources


class Outages:
    """Reports the nodes, and loses them with all that is on them when the workload says so."""

    def __init__(self, world: World, pace: Pace, *, lost: Callable[[Incarnation, str], None]) -> None:
        """Tell `lost` of each incarnation that is gone with its node, and why."""
        self._world = world
        self._pace = pace
        self._lost = lost
        self._records = {node.name: node for node in world.workload.nodes}

    def begin(self) -> None:
        """Report the nodes, and plan their failures."""
        for node in self._records.values():
            self._tell_of(node, ready=node.ready)
        for failure in self._world.workload.failures:
            self._world.agenda.at(failure.at, self._fail, failure, passing=True)

    def ready(self, node: str) -> bool:
        """Whether the node is known and takes replicas now."""
        return node in self._records and self._records[node].ready and not self._world.nodes[node].failures

    def _fail(self, failure: NodeFailure) -> None:
        """Lose a node; the jobs that trained on it go back to what they have saved."""
        world, node = self._world, self._world.nodes[failure.node]
        node.failures += 1
        world.agenda.at(world.now + failure.seconds, self._come_back, node, passing=True)
        if node.failures > 1:
            return
        self._tell_of(self._records[node.name], ready=False)
        for incarnation in list(node.incarnations.values()):
            job = incarnation.job
            if incarnation.up and incarnation.ending is None:
                self._pace.stop(job)
                job.ledger.lost += job.trainer.fall_back()
            self._lost(incarnation, f"node {node.name} is lost")

    def _come_back(self, node: SimulatedNode) -> None:
        node.failures -= 1
        if not node.failures:
            self._tell_of(self._records[node.name], ready=self._records[node.name].ready)

    def _tell_of(self, node: Node, *, ready: bool) -> None:
        self._world.emit(
            ev.NodeObserved(
                node=node.name, capacity=node.capacity, usage=Resources(), ready=ready, labels=node.labels
            )
        )
