"""The eviction of a pod: asks the disruption budgets, marks the pod as disrupted, begins its removal."""

from fakekube import failures, selectors
from fakekube.kinds import PDBS, PODS, Object
from fakekube.machinery import Machinery
from fakekube.store import clone

_REASON = "EvictionByEvictionAPI"


async def evict(machinery: Machinery, namespace: str, name: str, body: Object) -> Object:
    """Carry out an Eviction and return the answer's body; raises a 429 where a budget does not allow it."""
    pod = machinery.read(PODS, namespace, name)
    options = body.get("deleteOptions") or {}
    dry_run = bool(options.get("dryRun"))
    _check_preconditions(pod, options.get("preconditions") or {})
    phase = pod.get("status", {}).get("phase")
    exempt = phase in {"Succeeded", "Failed", "Pending"} or pod["metadata"].get("deletionTimestamp")
    budgets = [
        budget
        for budget in machinery.store.all(PDBS, namespace)
        if selectors.by_object(budget["spec"].get("selector"))(pod["metadata"].get("labels") or {})
    ]
    if not exempt:
        if len(budgets) > 1:
            told = (
                "This pod has more than one PodDisruptionBudget, "
                "which the eviction subresource does not support."
            )
            raise failures.FailureError(500, "InternalError", told)
        for budget in budgets:
            await _spend(machinery, budget, name, dry_run=dry_run)
    if not dry_run:
        if not pod["metadata"].get("deletionTimestamp"):
            told = "Eviction API: evicting"
            pod = await machinery.set_condition(PODS, pod, "DisruptionTarget", "True", _REASON, told)
        await machinery.delete(
            PODS, (namespace, name), {"gracePeriodSeconds": options.get("gracePeriodSeconds")}
        )
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_preconditions(pod: Object, wanted: Object) -> None:
    metadata = pod["metadata"]
    for field, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) not in {None, metadata[field]}:
            why = (
                f"Precondition failed: {words} in precondition: {wanted[field]}, "
                f"{words} in object meta: {metadata[field]}"
            )
            raise failures.conflict(PODS, metadata["name"], why)


async def _spend(machinery: Machinery, budget: Object, pod: str, *, dry_run: bool) -> None:
    """Take one disruption from a budget."""
    name = budget["metadata"]["name"]
    status = budget.get("status") or {}
    told = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        cause = f"The disruption budget {name} is still being processed by the server."
        causes = [("DisruptionBudget", cause, "")]
        raise failures.FailureError(429, "TooManyRequests", told, causes=causes, retry_after=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        cause = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise failures.FailureError(429, "TooManyRequests", told, causes=[("DisruptionBudget", cause, "")])
    if not dry_run:
        disrupted = {**clone(status.get("disruptedPods") or {}), pod: machinery.clock.text()}
        await machinery.set_status(PDBS, budget, disruptionsAllowed=allowed - 1, disruptedPods=disrupted)
