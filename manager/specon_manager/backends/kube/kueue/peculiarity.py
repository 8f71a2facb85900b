"""What about a Workload forbids to have it admitted again, though everything else permits it. Pure.

Sources, Kueue at ff69552e79 (August 2026): `prepareForEviction` of `pkg/workload/evict/evict.go` (admission
checks are asked again), `FromAssignment` of `pkg/podset/podset.go` (flavors and topologies become node
selectors and gates of pods), `minPodsCount` of `pkg/controller/jobs/job/job_controller.go`,
`IsExplicitlyRequestingTAS` of `pkg/workload`, and `pkg/workload/concurrentadmission`.
"""

from collections.abc import Iterable
from typing import Any, Final

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.transport.resources import Object

_PREFIX: Final = "kueue.x-k8s.io/"
_NAMES_ONLY: Final = frozenset({"podIndexLabel", "subGroupIndexLabel", "subGroupCount"})
"""How its pods are counted: Kueue says so in the `topologyRequest` of each Job and JobSet. It is no wish."""
_SHOWN: Final = 3
_LONGEST: Final = 80


def peculiarity(found: Object, *, elastic: bool = False) -> str:
    """Return why a Workload is neither moved nor sized, by what it says itself; empty where it may be.

    One that is `elastic` may have fewer pods than it was admitted with: it was scaled in.
    """
    metadata, spec, status = (mapping(found.get(part)) for part in ("metadata", "spec", "status"))
    labels = mapping(metadata.get("labels"))
    asked = mappings(spec.get("podSets"))
    given = mappings(mapping(status.get("admission")).get("podSetAssignments"))
    if f"{_PREFIX}multikueue-origin" in labels or status.get("clusterName"):
        return "MultiKueue says in which cluster it runs"
    if f"{_PREFIX}concurrent-admission-parent" in labels:
        return "it has a Workload for each of several flavors (ConcurrentAdmission)"
    if any(each.get("topologyAssignment") or each.get("delayedTopologyRequest") for each in given) or any(
        not _NAMES_ONLY.issuperset(mapping(each.get("topologyRequest"))) for each in asked
    ):
        return "its topology-aware scheduling would choose other nodes at the next admission"
    if any(each.get("minCount") is not None for each in asked) or (not elastic and _is_partial(asked, given)):
        return "it may be admitted again with fewer pods (partial admission)"
    if checks := mappings(status.get("admissionChecks")):
        return f"its admission checks would be asked again: {_name(checks)}"
    return ""


def _is_partial(asked: Iterable[Any], given: Iterable[Any]) -> bool:
    whole = {str(each.get("name")): each.get("count") for each in asked}
    counts = ((each.get("count"), whole.get(str(each.get("name")))) for each in given)
    return any(got is not None and want is not None and got != want for got, want in counts)


def _name(checks: list[Any]) -> str:
    names = [str(each.get("name"))[:_LONGEST] for each in checks]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
