"""A pod and the wishes for its move, as those see them who answer evictions."""

from typing import Any

from specon_manager.backends.kube.interception.facts import PodFacts, pod_facts
from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.pins import Glance

NOW = 1000.0
UID = "0a1b2c3d-0000-0000-0000-000000000001"


def pod(
    *,
    annotations: dict[str, str] | None = None,
    uid: str = UID,
    node: str = "node-0",
    deleting: bool = False,
    phase: str = "Running",
    bare: bool = False,
) -> PodFacts:
    """Return a pod of a StatefulSet of one, or of nobody, with a sidecar."""
    metadata: dict[str, Any] = {
        "name": "train-0",
        "namespace": "training",
        "uid": uid,
        "labels": {"specon.io/sidecar": "injected", "job": "train"},
        "annotations": {"specon.io/inject": "true", **(annotations or {})},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "o", "controller": True}
        ],
    }
    if bare:
        del metadata["ownerReferences"]
        metadata["annotations"]["specon.io/recreate"] = "true"
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ready = [{"type": "Ready", "status": "True"}]
    return pod_facts(
        {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, "conditions": ready}}
    )


def wish(
    state: MoveState | None = None,
    *,
    age: float = 10.0,
    uid: str = UID,
    ended: float = 0.0,
    number: int = 1,
    **changes: Any,
) -> Glance:
    """Return the wish that an eviction of the pod was turned into, so many seconds ago."""
    return Glance(
        name=Name("training", f"evict-{uid}" if number == 1 else f"evict-{uid}-{number}"),
        uid="w",
        replica="training/train/worker/0",
        state=state,
        hostname=None,
        leave="node-0",
        evicted=f"train-0/{uid}",
        created_at=NOW - age,
        ended_at=ended,
        **changes,
    )
