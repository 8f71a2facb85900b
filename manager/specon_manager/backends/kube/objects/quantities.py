"""What a pod requests, by Kubernetes' own formula, and quantities such as `250m` and `1.5Gi` as numbers.

Source: Kubernetes documentation, "Sidecar Containers" (resource sharing within containers), "Pod Overhead",
and the serialisation rules of `resource.Quantity`. Pure.
"""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from specon_manager.backends.kube.objects.fields import mappings
from specon_manager.model.resources import Resources

AmountByResource = dict[str, float]
"""Amounts by resource name: `cpu` in cores, everything else in its own unit."""

_QUANTITY: Final = re.compile(r"([+-]?[0-9]*\.?[0-9]*)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_SCALES: Final[dict[str, float]] = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)},
}
_GPUS: Final = frozenset({"gpu.intel.com/i915", "gpu.intel.com/xe"})
_MOST: Final = 1e15
"""As much as `Resources` allows: an absurd request of somebody's pod is no reason to end."""


@functools.lru_cache(maxsize=4096)
def quantity(text: str) -> float:
    """Return the number that a quantity is, in its base unit.

    Raises ValueError for a text that is no quantity, naming it.
    """
    match = _QUANTITY.fullmatch(text)
    try:
        number = float(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or not math.isfinite(number):
        raise ValueError(f"quantity: {text!r} is none")
    if match[3] is not None:
        return number * 10.0 ** int(match[3])
    return number * _SCALES.get(match[2] or "", 1.0)


def amounts_of(listed: object) -> AmountByResource:
    """Return the amounts of a resource list; a text that is no quantity counts as nothing."""
    amounts: AmountByResource = {}
    for name, given in listed.items() if isinstance(listed, dict) else ():
        try:
            amounts[name] = max(0.0, quantity(str(given)))
        except ValueError:
            continue
    return amounts


def requested_amounts(spec: Mapping[str, Any]) -> AmountByResource:
    """Return what a pod with this specification reserves on its node, by resource name.

    The containers and native sidecars run together; an init container runs beside the native sidecars
    listed before it; of the two the larger counts, and the overhead of the runtime class comes on top. A
    request on the level of the pod replaces the sum of its containers.
    """
    together: AmountByResource = {}
    for container in mappings(spec.get("containers")):
        together = _sum(together, _requests_of(container))
    sidecars: AmountByResource = {}
    largest: AmountByResource = {}
    for container in mappings(spec.get("initContainers")):
        asked = _requests_of(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, asked)
            largest = _most(largest, sidecars)
        else:
            largest = _most(largest, _sum(sidecars, asked))
    whole = _most(_sum(together, sidecars), largest)
    of_pod = spec.get("resources")
    if isinstance(of_pod, dict):
        whole |= _requests_of({"resources": of_pod})
    return _sum(whole, amounts_of(spec.get("overhead")))


def resources_of(amounts: Mapping[str, float]) -> Resources:
    """Return CPU, memory and GPUs of the amounts; every vendor's resource that ends in `/gpu` is a GPU."""
    gpus = sum(
        amount
        for name, amount in amounts.items()
        if name.endswith("/gpu") or name in _GPUS or name.startswith("nvidia.com/mig-")
    )
    cpu, memory = amounts.get("cpu", 0.0), amounts.get("memory", 0.0)
    return Resources(cpu=min(_MOST, cpu), memory=min(_MOST, memory), gpu=min(_MOST, gpus))


def format_quantities(amounts: Mapping[str, float]) -> dict[str, str]:
    """Return the amounts as quantities: CPU in thousandths of a core, the rest in whole units, rounded up."""
    return {
        name: f"{math.ceil(round(amount * 1000, 6))}m" if name == "cpu" else str(math.ceil(amount))
        for name, amount in sorted(amounts.items())
        if amount > 0
    }


def _requests_of(container: Mapping[str, Any]) -> AmountByResource:
    """Return the requests of a container; where only a limit is given, the API server requests that."""
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return {}
    return amounts_of(resources.get("limits")) | amounts_of(resources.get("requests"))


def _sum(one: AmountByResource, other: AmountByResource) -> AmountByResource:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}


def _most(one: AmountByResource, other: AmountByResource) -> AmountByResource:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in one.keys() | other.keys()}
