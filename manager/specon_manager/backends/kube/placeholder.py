"""The pod that holds room for a move on its target, and gets the image pulled there early. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.pod import (
    MOVE,
    PLACEHOLDER,
    Detail,
    NodeInfo,
    PodInfo,
    trainer_of,
)
from specon_manager.backends.kube.objects.quantities import format_quantities, requested_amounts
from specon_manager.backends.kube.objects.scheduling import HOSTNAME
from specon_manager.backends.kube.transport.resources import Object

_SHAREABLE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COMMAND: Final = ("sleep", "2147483647")
"""Harmless; an image that has no such program holds room just as well, for it is restarted now and then."""
_USER: Final = 65532
_PULLED: Final = frozenset(
    {"CrashLoopBackOff", "RunContainerError", "CreateContainerError", "CreateContainerConfigError"}
)
"""Why a container may wait though its image is there."""
_NOT_PULLED: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def placeholder_name(move: str, replica: str) -> str:
    """Return the name of the placeholder for a replica of a move: a second order finds the first one's."""
    return _name(f"{move}\n{replica}")


def defended_name(move: str, replica: str, node: str) -> str:
    """Return the name of the pod that keeps room on a node for a replica of a move from its equals."""
    return _name(f"{move}\n{replica}\n{node}")


def former_name(move: str) -> str:
    """Return the name that version 0.1 gave the placeholder of a move, which had one replica."""
    return _name(move)


def _name(what: str) -> str:
    return f"specon-room-{hashlib.sha256(what.encode()).hexdigest()[:16]}"


def placeholder(
    pod: Object,
    *,
    move: str,
    replica: str,
    migration: str,
    node: NodeInfo,
    priority_class: str = "",
    reference: Mapping[str, Any] | None = None,
    name: str = "",
) -> Object:
    """Return the manifest of a pod that requests on `node` what `pod`, a replica of the move, does.

    `migration` is the name of the move's object, and `reference` refers to it, so that the room is given
    back with it.
    """
    spec, metadata = mapping(pod.get("spec")), mapping(pod.get("metadata"))
    trainer = trainer_of(pod)
    amounts = format_quantities(requested_amounts(spec))
    whole = {name: amount for name, amount in amounts.items() if name not in _SHAREABLE}
    container = {
        "name": "room",
        "image": str(trainer.get("image", "")),
        "imagePullPolicy": trainer.get("imagePullPolicy", "IfNotPresent"),
        "command": list(_COMMAND),
        # Devices cannot be shared: their limit must be their request.
        "resources": {"requests": amounts, "limits": whole} if whole else {"requests": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    held: Object = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {HOSTNAME: node.hostname},
        "tolerations": mappings(spec.get("tolerations")),
        "containers": [container],
    }
    for field in ("imagePullSecrets", "schedulerName"):
        if spec.get(field):
            held[field] = spec[field]
    if priority_class:
        held["priorityClassName"] = priority_class
    described: Object = {
        "name": name or placeholder_name(move, replica),
        "namespace": metadata.get("namespace"),
        "labels": {PLACEHOLDER: migration},
        "annotations": {MOVE: move},
    }
    if reference is not None:
        described["ownerReferences"] = [dict(reference)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": described, "spec": held}


def room(pod: PodInfo, node: str) -> tuple[Literal["held", "waiting", "trouble"], str]:
    """Return whether a placeholder holds room on `node` with the image there; the obstacle in words."""
    detail = pod.detail
    assert detail is not None
    if pod.deleting or pod.ended:
        why = f": {detail.reason}" if detail.reason else ""
        return "trouble", f"the pod that held the room was taken away{why}"
    if not pod.node:
        return ("trouble", detail.unschedulable) if detail.unschedulable else ("waiting", "not scheduled yet")
    if pod.node != node:
        return "trouble", f"the pod that is to hold the room is on {pod.node}"
    if detail.trains or detail.waiting in _PULLED or detail.exit_code is not None:
        return "held", ""
    if detail.waiting in _NOT_PULLED:
        return "trouble", _words(detail)
    return "waiting", "the node still pulls its image"


def _words(detail: Detail) -> str:
    said = f": {detail.waiting_message}" if detail.waiting_message else ""
    return f"the image could not be pulled ({detail.waiting}{said})"
