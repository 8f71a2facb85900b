"""Manifests for contract tests: small ones that every API server takes."""

import os
from typing import Any

IMAGE = os.environ.get("CONTRACT_IMAGE", "registry.example/contract:1")
"""Any image with sh; it is run on a whole cluster only, and tests of that skip where none is named."""
_UNTIL_TOLD = ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 1; done"]
"""What ends in order when it is told to has succeeded: then its Job is complete, and replaces nothing."""


def pod(name: str = "trainer", *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod that no scheduler takes, unless `schedulerName` says otherwise."""
    resources = {"requests": {"cpu": "10m", "memory": "8Mi"}}
    container = {"name": "main", "image": IMAGE, "command": _UNTIL_TOLD, "resources": resources}
    whole = {
        "schedulerName": "nobody",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "containers": [container],
        **spec,
    }
    return {"metadata": {"name": name, **(metadata or {})}, "spec": whole}


def gated(**spec: Any) -> dict[str, Any]:
    return pod(schedulingGates=[{"name": "specon.io/gate"}], **spec)


def job(name: str = "training", *, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    inside = pod(restartPolicy="Never", schedulerName="default-scheduler")["spec"] | (template or {})
    return {"metadata": {"name": name}, "spec": {"template": {"spec": inside}, **spec}}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a required node affinity of one term for each list of expressions."""
    wanted = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}


def expression(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


IGNORE_DISRUPTIONS = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
