"""What is counted of the replicas of a node."""

from msgspec import Struct

from specon_manager.model.cluster import Replica
from specon_manager.model.resources import Resources
from specon_sidecar.classify import Category


class Census(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas of a node, counted."""

    replicas: int
    converged: int
    watching: int
    requests: Resources
    """Of all of them together."""


class Count:
    """A census while it is taken."""

    __slots__ = ("converged", "cpu", "gpu", "memory", "replicas", "watching")

    def __init__(self) -> None:
        self.replicas: list[Replica] = []
        self.converged = self.watching = 0
        self.cpu = self.memory = self.gpu = 0.0

    def add(self, replica: Replica) -> None:
        """Count a replica."""
        category, requests = replica.progress.category, replica.requests
        self.replicas.append(replica)
        self.converged += category is Category.CONVERGED
        self.watching += category is Category.WATCHING
        self.cpu += requests.cpu
        self.memory += requests.memory
        self.gpu += requests.gpu

    def census(self) -> Census:
        """Return what was counted."""
        return Census(
            replicas=len(self.replicas),
            converged=self.converged,
            watching=self.watching,
            requests=Resources(cpu=self.cpu, memory=self.memory, gpu=self.gpu),
        )
