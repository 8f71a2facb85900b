"""Kueue's objects as a test needs them: as the API has them, and as we keep them."""

from typing import Any

import msgspec

from specon_manager.backends.kube.kueue.facts import (
    GATE,
    ClusterQueue,
    Workload,
    cluster_queue_facts,
    workload_facts,
)

NOW = 1_000_000.0
Object = dict[str, Any]


def queue(
    name: str,
    *,
    cohort: str = "",
    within: str = "LowerPriority",
    reclaim: str = "Never",
    borrows: bool = False,
    threshold: int | None = None,
    **quotas: object,
) -> ClusterQueue:
    """Return a ClusterQueue with quotas by `flavor/resource`; flavors of one resource are alternatives."""
    return cluster_queue_facts(
        queue_object(
            name,
            cohort=cohort,
            within=within,
            reclaim=reclaim,
            borrows=borrows,
            threshold=threshold,
            **quotas,
        )
    )


def queue_object(
    name: str,
    *,
    cohort: str = "",
    within: str = "LowerPriority",
    reclaim: str = "Never",
    borrows: bool = False,
    threshold: int | None = None,
    **quotas: object,
) -> Object:
    """Return a ClusterQueue as the API has it."""
    flavors: dict[str, list[Object]] = {}
    for share, amount in quotas.items():
        flavor, _, resource = share.partition("/")
        flavors.setdefault(flavor, []).append({"name": resource, "nominalQuota": str(amount)})
    groups: dict[frozenset[str], list[Object]] = {}
    for flavor, resources in flavors.items():
        covered = frozenset(each["name"] for each in resources)
        groups.setdefault(covered, []).append({"name": flavor, "resources": resources})
    preemption: Object = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if borrows:
        preemption["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": threshold}
    spec = {
        "cohortName": cohort,
        "preemption": preemption,
        "resourceGroups": [
            {"coveredResources": sorted(covered), "flavors": found} for covered, found in groups.items()
        ],
    }
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def running(
    name: str,
    queue: str,
    priority: int,
    *,
    reserved: float = 0,
    created: float = 0,
    evicted: bool = False,
    job: str = "",
    **usage: object,
) -> Workload:
    """Return a Workload that has its quota; usage by `flavor/resource`, times counted from NOW."""
    shares = [share.partition("/")[::2] for share in usage]
    assignment = {
        "flavors": {resource: flavor for flavor, resource in shares},
        "resourceUsage": {resource: str(usage[f"{flavor}/{resource}"]) for flavor, resource in shares},
    }
    admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
    made = workload_facts(_object(name, priority, {"admission": admission}, job))
    return msgspec.structs.replace(
        made, reserved_at=NOW + reserved, created_at=NOW + created, evicted=evicted
    )


def waiting(name: str, *, priority: int = 0, created: float = 0, **requests: object) -> Workload:
    """Return a Workload of LocalQueue `training/local` that waits, with our gate."""
    told = [{"resources": {resource: str(amount) for resource, amount in requests.items()}}]
    found = _object(name, priority, {"resourceRequests": told}, "")
    found["spec"]["preemptionGates"] = [{"name": GATE}]
    return msgspec.structs.replace(workload_facts(found), created_at=NOW + created)


def _object(name: str, priority: int, status: Object, job: str) -> Object:
    labels = {"kueue.x-k8s.io/job-uid": job} if job else {}
    metadata = {"name": name, "namespace": "training", "uid": name, "labels": labels, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"priority": priority, "queueName": "local"}, "status": status}
