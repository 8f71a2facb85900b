"""What PodDisruptionBudgets say of pods that leave together. Pure.

The API server asks a budget one eviction at a time, and takes one from its `disruptionsAllowed` for each that
it lets go. Pods that end by the object of their owner are asked for here in the same way, but all at once.

Source: the reference of policy/v1 PodDisruptionBudget, and KEP-3017 for pods that are not ready.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from specon_manager.backends.kube.objects.fields import count, mapping, mappings
from specon_manager.backends.kube.objects.selectors import selects
from specon_manager.backends.kube.transport.resources import Object
from specon_sidecar.counts import format_count

_EXEMPT: Final = frozenset({"Pending", "Succeeded", "Failed"})
"""Phases of pods whose eviction asks no budget."""


def disrupted_uids(budget: Object, pods: Iterable[Object]) -> frozenset[str]:
    """Return the UIDs of those of the pods that take a disruption of the budget when they go.

    One that has not begun, has ended or is on its way out takes none. Nor does one that is not ready, by
    `unhealthyPodEvictionPolicy`: always with AlwaysAllow; with IfHealthyBudget, which is the default, where
    enough of what the budget guards is healthy without it; a policy that is not known exempts nobody.
    """
    spec, status = mapping(budget.get("spec")), mapping(budget.get("status"))
    policy = spec.get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    healthy, desired = count(status.get("currentHealthy"), 0), count(status.get("desiredHealthy"), 0)
    lenient = policy == "AlwaysAllow" or (policy == "IfHealthyBudget" and healthy >= desired > 0)
    return frozenset(
        str(mapping(pod.get("metadata")).get("uid", ""))
        for pod in pods
        if _stays(pod)
        # Rather one budget too many is asked.
        and selects(spec.get("selector"), mapping(mapping(pod.get("metadata")).get("labels")), unknown=True)
        and not (lenient and not _ready(pod))
    )


def objection_to(budget: Object, going: int, *, taken: int = 0, whole: bool = False) -> str:
    """Return in words why the budget does not let this many pods go together; empty where it does.

    `taken` are disruptions that were used and that its status may not show yet; `whole`: the pods are all
    that the job has.
    """
    if not going:
        return ""
    metadata, status = mapping(budget.get("metadata")), mapping(budget.get("status"))
    name = f"disruption budget {metadata.get('name', '')}"
    if count(status.get("observedGeneration"), 0) < count(metadata.get("generation"), 1):
        return f"its {name} lets no pod go before its controller has looked at it"
    allowed = max(0, count(status.get("disruptionsAllowed"), 0) - taken)
    if going <= allowed:
        return ""
    most = max(0, count(status.get("expectedPods"), 0) - count(status.get("desiredHealthy"), 0))
    if not most:
        return f"its {name} never lets a pod go"
    if going > most and whole:
        return f"its {name} lets {most} of its {going} pods go at a time; it is changed as a whole"
    if going > most:
        return f"its {name} lets {most} go at a time, and {going} pods would go together"
    others = f", {taken} of others being on the way" if taken else ""
    together = format_count(going, "pod would go", "pods would go together")
    return f"its {name} lets {allowed or 'none'} go now{others}, and {together}"


def objections(
    budgets: Sequence[Object], pods: Sequence[Object], taken: Mapping[str, int], *, whole: bool = False
) -> list[str]:
    """Return what the budgets of a namespace have against it that these pods of it go together, by name.

    `taken` is by the UID of the budget; see `against`.
    """
    named = sorted(budgets, key=lambda budget: str(mapping(budget.get("metadata")).get("name", "")))
    found = (
        objection_to(
            budget, len(disrupted_uids(budget, pods)), taken=taken.get(uid_of(budget), 0), whole=whole
        )
        for budget in named
    )
    return [words for words in found if words]


def uid_of(budget: Object) -> str:
    """Return the UID of a budget."""
    return str(mapping(budget.get("metadata")).get("uid", ""))


def _stays(pod: Object) -> bool:
    """Whether a pod would stay if it were not for us, and counts for a budget as long as it does."""
    if mapping(pod.get("metadata")).get("deletionTimestamp") is not None:
        return False
    return mapping(pod.get("status")).get("phase", "Pending") not in _EXEMPT


def _ready(pod: Object) -> bool:
    return any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in mappings(mapping(pod.get("status")).get("conditions"))
    )
