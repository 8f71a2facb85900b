"""By what a node says that it is about to be emptied. Pure.

- annotation: `specon.io/maintenance-at` with a time; ours, for those who plan maintenance.
- cordon: `spec.unschedulable`.
- taint: of those who remove nodes, put on before they evict: the cluster autoscaler, Karpenter, AWS' node
  termination handler, GKE.
- condition: `MaintenancePlanned` and `DrainInProgress`, as KEP-5683 has them; a draft, names may change.
"""

from datetime import UTC, datetime
from typing import Final

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.transport.resources import Object

MAINTENANCE_AT: Final = f"{PREFIX}maintenance-at"
"""On a node: when its maintenance begins, ISO 8601; without a zone it is UTC."""
REMOVERS: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/spot-itn",
        "cloud.google.com/impending-node-termination",
    }
)
"""Taints by which a node is about to go."""
_CONDITIONS: Final = frozenset({"MaintenancePlanned", "DrainInProgress"})
_LONGEST: Final = 40


def warnings_of(node: Object) -> tuple[str, ...]:
    """Return by what it is announced, in the words of `Settings.warnings`."""
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    taints = {str(each.get("key")) for each in mappings(spec.get("taints"))}
    true = {
        str(each.get("type")) for each in mappings(status.get("conditions")) if each.get("status") == "True"
    }
    found = {
        "annotation": maintenance_at(node) is not None,
        "cordon": spec.get("unschedulable") is True,
        "taint": bool(taints & REMOVERS),
        "condition": bool(true & _CONDITIONS),
    }
    return tuple(word for word, announced in found.items() if announced)


def maintenance_at(node: Object) -> float | None:
    """Return when its maintenance begins, Unix seconds; None where nobody says, or says nonsense."""
    given = mapping(mapping(node.get("metadata")).get("annotations")).get(MAINTENANCE_AT)
    if not isinstance(given, str) or len(given) > _LONGEST:
        return None
    try:
        at = datetime.fromisoformat(given)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
