"""The kept facts of Kueue's objects: Workloads, ClusterQueues and LocalQueues. Pure.

Fields are those of `kueue.x-k8s.io/v1beta2`. Anything may be missing or of another form: then it counts as
not said.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.kueue.peculiarity import peculiarity
from specon_manager.backends.kube.objects.annotation_keys import SUSPENDED_FOR
from specon_manager.backends.kube.objects.fields import count, mapping, mappings
from specon_manager.backends.kube.objects.quantities import (
    AmountByResource,
    amounts_of,
    quantity,
    requested_amounts,
)
from specon_manager.backends.kube.transport.resources import Object

GATE: Final = "specon.io/checkpoint"
"""Our gate among the `preemptionGates` of a Workload."""
BOOST: Final = "kueue.x-k8s.io/priority-boost"
JOB_UID: Final = "kueue.x-k8s.io/job-uid"
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
_REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
OPEN, CLOSED = "Open", "Closed"
_INT32: Final = 2**31
_LONGEST: Final = 10
"""Characters of an int32 without its sign."""

Share = tuple[str, str]
"""A flavor and a resource of it."""
Used = Mapping[Share, float]


class PreemptionGate(Struct, frozen=True, gc=False):
    """What `status.preemptionGates` says of one gate."""

    name: str
    open: bool
    since: str
    """As the API has it."""


class Workload(Struct, frozen=True, kw_only=True):
    """One Workload."""

    namespace: str
    name: str
    uid: str
    version: str
    local_queue: str
    priority: int
    """With its boost: Kueue heeds that where its feature gate PriorityBoost is on."""
    created_at: float
    active: bool
    evicted: bool
    finished: bool
    reserved_at: float | None
    """Since when it has its quota; None where it has none."""
    cluster_queue: str
    """That which admitted it; empty while none has."""
    usage: Used
    """What it has, by flavor and resource: what it was given, less what a scale-in gave back."""
    requests: Mapping[str, float]
    """What it asks for, by resource."""
    blocked_since: float | None
    """Since when Kueue would preempt for it and a gate forbids that; None where it does not."""
    gated: bool
    """Whether our gate is in its specification."""
    gates: tuple[PreemptionGate, ...]
    jobs: frozenset[str]
    """UIDs of what it stands for."""
    admitted: bool = False
    mark: str = ""
    """For which move we deactivated it; empty where we did not."""
    peculiar: str = ""
    """What about it forbids to have it admitted again, in words; empty where nothing does."""
    pods: int = 1
    """How many pods it asks for."""
    elastic: bool = False
    """Whether Kueue takes it for a slice of an elastic job: it marks none while its feature gate is off."""
    replaces: str = ""
    """Namespace and name of the slice in whose stead it would be admitted; empty where it grows none."""

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    @property
    def reference(self) -> str:
        """The same, as other Workloads name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def gate(self) -> PreemptionGate | None:
        """Our gate as its status has it; None where it says nothing, which counts as closed."""
        return next((each for each in self.gates if each.name == GATE), None)

    @property
    def is_pending(self) -> bool:
        """Whether it waits for its quota."""
        return self.active and not self.finished and self.reserved_at is None


class Quota(Struct, frozen=True, gc=False):
    """What a ClusterQueue has of one resource of one flavor."""

    nominal: float
    borrowing_limit: float | None


class ClusterQueue(Struct, frozen=True, kw_only=True):
    """One ClusterQueue."""

    name: str
    uid: str
    cohort: str
    """Empty where it is in none."""
    quotas: Mapping[Share, Quota]
    groups: tuple[tuple[frozenset[str], tuple[str, ...]], ...]
    """The resources that share their flavors, and these flavors in the order in which they are tried."""
    within: str
    """Whom it preempts of its own: Never, LowerPriority or LowerOrNewerEqualPriority."""
    reclaim: str
    """Whom it preempts in the cohort to get its own quota back: Never, LowerPriority or Any."""
    borrows: bool
    """Whether it preempts in the cohort while it borrows (`borrowWithinCohort`)."""
    threshold: int | None
    """Then only up to this priority."""
    stopped: bool = False
    """Whether it admits nothing at this moment."""


class LocalQueue(Struct, frozen=True, kw_only=True):
    """One LocalQueue."""

    uid: str
    cluster_queue: str
    stopped: bool = False
    """Whether it admits no Workloads."""


def workload_facts(found: Object) -> Workload:
    """Return the kept facts of a Workload."""
    metadata, spec, status = (mapping(found.get(part)) for part in ("metadata", "spec", "status"))
    conditions = {str(each.get("type")): each for each in mappings(status.get("conditions"))}
    admission = mapping(status.get("admission"))
    annotations = mapping(metadata.get("annotations"))
    boost, elastic = _int32(annotations.get(BOOST)), annotations.get(_ELASTIC) == "true"
    owners = {str(each.get("uid")) for each in mappings(metadata.get("ownerReferences"))}
    label = mapping(metadata.get("labels")).get(JOB_UID)
    return Workload(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        local_queue=str(spec.get("queueName", "")),
        priority=_number(spec.get("priority")) + boost,
        created_at=seconds(metadata.get("creationTimestamp")) or 0.0,
        active=spec.get("active") is not False,
        evicted=_since(conditions, "Evicted") is not None,
        finished=_since(conditions, "Finished") is not None,
        reserved_at=_since(conditions, "QuotaReserved"),
        cluster_queue=str(admission.get("clusterQueue", "")),
        usage=_usage(admission, spec),
        requests=_requests(spec, status),
        blocked_since=_since(conditions, "BlockedOnPreemptionGates"),
        gated=any(each.get("name") == GATE for each in mappings(spec.get("preemptionGates"))),
        gates=tuple(
            PreemptionGate(
                name=str(each.get("name", "")),
                open=each.get("position") == OPEN,
                since=str(each.get("lastTransitionTime", "")),
            )
            for each in mappings(status.get("preemptionGates"))
        ),
        jobs=frozenset(owners | ({str(label)} if label else set())),
        admitted=_since(conditions, "Admitted") is not None,
        mark=str(annotations.get(SUSPENDED_FOR) or ""),
        peculiar=peculiarity(found, elastic=elastic),
        pods=min(_INT32, sum(count(each.get("count"), 1) for each in mappings(spec.get("podSets")))),
        elastic=elastic,
        replaces=str(annotations.get(_REPLACES) or "") if elastic else "",
    )


def cluster_queue_facts(found: Object) -> ClusterQueue:
    """Return the kept facts of a ClusterQueue."""
    metadata, spec = mapping(found.get("metadata")), mapping(found.get("spec"))
    conditions = mappings(mapping(found.get("status")).get("conditions"))
    preemption = mapping(spec.get("preemption"))
    borrowing = mapping(preemption.get("borrowWithinCohort"))
    threshold = borrowing.get("maxPriorityThreshold")
    quotas, groups = dict[Share, Quota](), list[tuple[frozenset[str], tuple[str, ...]]]()
    for group in mappings(spec.get("resourceGroups")):
        flavors = mappings(group.get("flavors"))
        covered = frozenset(
            str(each) for each in group.get("coveredResources") or () if isinstance(each, str)
        )
        groups.append((covered, tuple(str(each.get("name")) for each in flavors)))
        for flavor in flavors:
            for resource in mappings(flavor.get("resources")):
                limit = resource.get("borrowingLimit")
                quotas[str(flavor.get("name")), str(resource.get("name"))] = Quota(
                    nominal=_amount(resource.get("nominalQuota")),
                    borrowing_limit=None if limit is None else _amount(limit),
                )
    return ClusterQueue(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        cohort=str(spec.get("cohortName") or spec.get("cohort") or ""),
        quotas=quotas,
        groups=tuple(groups),
        within=str(preemption.get("withinClusterQueue") or "Never"),
        reclaim=str(preemption.get("reclaimWithinCohort") or "Never"),
        borrows=str(borrowing.get("policy") or "Never") != "Never",
        threshold=None if threshold is None else _number(threshold),
        stopped=_is_stopped(spec)
        or any(each.get("type") == "Active" and each.get("status") == "False" for each in conditions),
    )


def local_queue_facts(found: Object) -> LocalQueue:
    """Return the kept facts of a LocalQueue."""
    metadata, spec = mapping(found.get("metadata")), mapping(found.get("spec"))
    return LocalQueue(
        uid=str(metadata.get("uid", "")),
        cluster_queue=str(spec.get("clusterQueue", "")),
        stopped=_is_stopped(spec),
    )


def seconds(given: object) -> float | None:
    """Return the time that the API has written, seconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(given).timestamp() if isinstance(given, str) else None
    except (ValueError, OverflowError):
        return None


def _is_stopped(spec: Mapping[str, Any]) -> bool:
    return spec.get("stopPolicy") in {"Hold", "HoldAndDrain"}


def _since(conditions: Mapping[str, Mapping[str, Any]], kind: str) -> float | None:
    """Return since when a condition is true; 0 where it is, and does not say since when."""
    found = conditions.get(kind)
    if found is None or found.get("status") != "True":
        return None
    return seconds(found.get("lastTransitionTime")) or 0.0


def _usage(admission: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[Share, float]:
    """Return what it has: where it has fewer pods than it was admitted with, that much less.

    As `totalRequestsFromAdmission` of Kueue's `pkg/workload` does: a scale-in leaves the admission as it was.
    """
    pods = {str(each.get("name")): count(each.get("count"), 1) for each in mappings(spec.get("podSets"))}
    usage: dict[Share, float] = {}
    for each in mappings(admission.get("podSetAssignments")):
        flavors = mapping(each.get("flavors"))
        given = count(each.get("count"), 0)
        there = pods.get(str(each.get("name")), given)
        left = there / given if there < given else 1.0
        for resource, amount in amounts_of(each.get("resourceUsage")).items():
            share = str(flavors.get(resource, "")), resource
            usage[share] = usage.get(share, 0.0) + amount * left
    return usage


def _requests(spec: Mapping[str, Any], status: Mapping[str, Any]) -> AmountByResource:
    """Return what all pods ask for together, as Kueue has worked it out where it has said so."""
    total: AmountByResource = {}
    told = mappings(status.get("resourceRequests"))
    for each in told:
        _add(total, amounts_of(each.get("resources")), 1)
    if told:
        return total
    for each in mappings(spec.get("podSets")):
        template = mapping(mapping(each.get("template")).get("spec"))
        _add(total, requested_amounts(template), count(each.get("count"), 1))
    return total


def _add(total: AmountByResource, amounts: AmountByResource, times: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0.0) + times * amount


def _amount(given: object) -> float:
    try:
        return quantity(str(given))
    except ValueError:
        return 0.0


def _number(given: object) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) and abs(given) <= _INT32 else 0


def _int32(given: object) -> int:
    """Return the signed integer of 32 bits that a text is; 0 for any other, which Kueue refuses."""
    text = given if isinstance(given, str) else ""
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST):
        return 0
    return int(text) if -_INT32 <= int(text) < _INT32 else 0
