"""A cluster in memory whose every step is counted, as a manager counts its own."""

from prometheus_client import CollectorRegistry

from specon_manager.model.settings import Settings
from specon_manager.runtime.controller import Stepped
from specon_manager.runtime.metrics import Metrics
from specon_sidecar.classify import Category
from support.decisions.cluster import SETTINGS, Cluster


class Observed(Cluster):
    """Its metrics are in `registry`."""

    def __init__(
        self, nodes: int = 2, *, cpus: float = 1.0, settings: Settings = SETTINGS, **options: int
    ) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, **options)
        super().__init__(nodes, cpus, settings)

    def post(self, event):
        before = self.state
        actions = super().post(event)
        stepped = Stepped(
            before=before, after=self.state, event=event, actions=actions, now=self.now, seconds=0.003
        )
        self.metrics.observe(stepped)
        return actions

    def value(self, name, **labels):
        """Return the value of a series, None where there is none."""
        return self.registry.get_sample_value(name, labels)

    def of_job(self, name, job, replica="worker-0"):
        """Return the value of a series of a single replica."""
        return self.value(f"specon_job_{name}", job_namespace="default", job_name=job, replica=replica)


def moved(cluster: Observed) -> str:
    """Have the replica of job a ordered to move away from c's node, and return it."""
    a, b, c, d = cluster.run("a", "b", "c", "d")
    for replica in (a, b, c, d):
        cluster.report(replica, step=100)
    cluster.die(b, 0)
    cluster.die(d, 0)
    cluster.report(a, Category.CONVERGED, step=200)
    cluster.tick()
    return a
