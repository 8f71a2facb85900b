"""Bare pods: nobody creates them again, so we do, from a manifest that was made durable before.

Source of what a manifest must not have: what a real API server refuses, or sets itself.
"""

import copy
from typing import Final

from specon_manager.backends.kube.objects.annotation_keys import PINNED, WHOLE_CPU
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo, trainer_of
from specon_manager.backends.kube.objects.scheduling import HOSTNAME
from specon_manager.backends.kube.owners.context import Hands, RefusedError
from specon_manager.backends.kube.owners.eviction import evict
from specon_manager.backends.kube.owners.living_pod import read_living_pod
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.resources import PODS, Object

_METADATA: Final = ("name", "namespace", "labels", "annotations")
"""All that is kept: finalizers are set again by those who want them."""
_SET_ANEW: Final = ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy")
"""Of the specification: the first two belong to the pod that was, the others follow from its class."""


async def let_go(hands: Hands, replica: str, pod: PodInfo, *, grace_seconds: int) -> None:
    """Make durable how a bare pod is created again, then evict it; one that is gone is fine.

    Raises RefusedError where that cannot be kept or the pod is none, and BlockedError for a budget.
    """
    live = await read_living_pod(hands.api, pod)
    if live is None:
        return
    if mapping(live.get("metadata")).get("ownerReferences"):
        raise RefusedError("it is no bare pod: something owns it")
    hands.fence()
    if hands.keeper.read_manifest(replica) is None:
        try:
            await hands.keeper.keep_manifest(replica, manifest_of(live))
        except (LookupError, ValueError) as error:
            raise RefusedError(f"how to create it again cannot be kept: {error}") from error
    await evict(hands, pod, grace_seconds=grace_seconds)


async def bring_back(hands: Hands, replica: str, node: NodeInfo | None) -> bool:
    """Create a bare pod again; return whether one of its name is there, ours or another's.

    While the former one goes there is none yet: it is to be asked again. With `node` None it comes wherever
    the scheduler puts it. Raises RefusedError where nobody knows how to create it.
    """
    manifest = hands.keeper.read_manifest(replica)
    if manifest is None:
        raise RefusedError("how to create its pod again is not known")
    body = pin_to_node(manifest, node)
    namespace, name = str(body["metadata"]["namespace"]), str(body["metadata"]["name"])
    present = await _present(hands, namespace, name)
    if present is not None:
        return present
    hands.fence()
    try:
        await hands.api.create(PODS, body, namespace)
    except ApiError as error:
        if not error.already_exists:
            raise
        return False
    return True


def manifest_of(pod: Object) -> Object:
    """Return how to create a bare pod again, from the pod as the API has it."""
    metadata = {key: value for key, value in mapping(pod.get("metadata")).items() if key in _METADATA}
    spec = {key: value for key, value in mapping(pod.get("spec")).items() if key not in _SET_ANEW}
    manifest: Object = copy.deepcopy({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    annotations = manifest["metadata"].get("annotations") or {}
    if (whole := annotations.pop(WHOLE_CPU, None)) is not None:
        # Lowered in place: the next pod begins with what its owner asked for.
        trainer = mapping(trainer_of(manifest).get("resources")).get("requests")
        if isinstance(trainer, dict):
            trainer["cpu"] = whole
    hostname = annotations.pop(PINNED, None)
    selector = manifest["spec"].get("nodeSelector") or {}
    if hostname is not None and selector.get(HOSTNAME) == hostname:
        del selector[HOSTNAME]
    return manifest


def pin_to_node(manifest: Object, node: NodeInfo | None) -> Object:
    """Return the manifest for a pod that may run on this node only; None: wherever the scheduler puts it."""
    body = copy.deepcopy(manifest)
    if node is None:
        return body
    selector = body["spec"].setdefault("nodeSelector", {})
    if HOSTNAME not in selector:
        selector[HOSTNAME] = node.hostname
        body["metadata"].setdefault("annotations", {})[PINNED] = node.hostname
    return body


async def _present(hands: Hands, namespace: str, name: str) -> bool | None:
    """Whether the pod of that name stays: neither ended nor told to end; None where there is none."""
    try:
        pod = await hands.api.get(PODS, name, namespace)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    if mapping(pod.get("metadata")).get("deletionTimestamp") is not None:
        return False
    return mapping(pod.get("status")).get("phase") not in {"Succeeded", "Failed"}
