"""The counts of the replicas of a node."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from specon_manager.model.cluster import Replica
from specon_manager.model.resources import NOTHING, Resources
from specon_sidecar.classify import Category


class Census(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas of a node, counted."""

    replicas: int
    converged: int
    watching: int
    sharing: int
    """Those that reserve neither processors nor GPUs."""
    requests: Resources
    """Of all of them together."""


NOBODY: Final = Census(replicas=0, converged=0, watching=0, sharing=0, requests=NOTHING)


def take_census(replicas: Iterable[Replica]) -> Census:
    """Return the census of these replicas; sums of fractions depend on their order."""
    number = converged = watching = sharing = 0
    cpu = memory = gpu = 0.0
    for replica in replicas:
        number += 1
        category, requests = replica.progress.category, replica.requests
        if category is Category.CONVERGED:
            converged += 1
        elif category is Category.WATCHING:
            watching += 1
        if not requests.cpu and not requests.gpu:
            sharing += 1
        cpu += requests.cpu
        memory += requests.memory
        gpu += requests.gpu
    amount = Resources(cpu=cpu, memory=memory, gpu=gpu)
    return Census(replicas=number, converged=converged, watching=watching, sharing=sharing, requests=amount)
