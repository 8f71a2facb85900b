"""Amounts as manifests write them, and what a pod asks for in all."""

from collections.abc import Iterable
from functools import lru_cache

from fakekube.kinds import Object

_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
Amounts = dict[str, float]


@lru_cache(maxsize=4096)
def amount(text: str | float) -> float:
    """Return a quantity as a number; raises ValueError."""
    if not isinstance(text, str):
        return float(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * _SUFFIXES[suffix]
    return float(text)


def amounts(texts: Object | None) -> Amounts:
    return {name: amount(text) for name, text in (texts or {}).items()}


def add(*each: Amounts) -> Amounts:
    total: Amounts = {}
    for one in each:
        for name, number in one.items():
            total[name] = total.get(name, 0.0) + number
    return total


def greatest(each: Iterable[Amounts]) -> Amounts:
    most: Amounts = {}
    for one in each:
        for name, number in one.items():
            most[name] = max(most.get(name, 0.0), number)
    return most


def requested(pod: Object) -> Amounts:
    """Return what a pod takes: its containers and native sidecars, or an init step that needs more."""
    spec = pod["spec"]

    def of(container: Object) -> Amounts:
        return amounts((container.get("resources") or {}).get("requests"))

    beside: Amounts = {}
    steps = []
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            beside = add(beside, of(container))
        else:
            steps.append(add(beside, of(container)))
    running = add(beside, *(of(container) for container in spec["containers"]))
    return add(greatest([running, *steps]), amounts(spec.get("overhead")), {"pods": 1.0})
