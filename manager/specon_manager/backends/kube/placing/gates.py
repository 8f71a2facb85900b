"""A pod that waits for our scheduling gate is let go, to its node or wherever the scheduler puts it.

Both are one patch that holds only for the version of the pod that was read: a pod whose gate is gone, but
whose node is not named yet, would be scheduled anywhere. What may be changed while a pod is gated: KEP-3838.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE, PINNED
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.objects.scheduling import HOSTNAME
from specon_manager.backends.kube.owners.context import Hands, RefusedError
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.resources import PODS, Object

_ATTEMPTS: Final = 8
"""Somebody else, first of all the scheduler, may write the pod at the same time."""
_AT_ONCE: Final = 8
"""Pods that are released at the same time."""


async def release_all(hands: Hands, targets: Sequence[tuple[PodInfo, str | None]]) -> None:
    """Release several pods, a few at a time; the first that fails is told when all were tried."""
    trouble: list[BaseException] = []
    for first in range(0, len(targets), _AT_ONCE):
        part = targets[first : first + _AT_ONCE]
        done = await asyncio.gather(
            *(release(hands, pod, hostname) for pod, hostname in part), return_exceptions=True
        )
        trouble += [each for each in done if isinstance(each, BaseException)]
    if trouble:
        raise trouble[0]


async def release(hands: Hands, pod: PodInfo, hostname: str | None) -> bool:
    """Take our gate from a pod; `hostname`: only this node may have it. Return whether it was still there.

    Raises RefusedError where the pod is bound to another node by its own selector.
    """
    for attempt in range(_ATTEMPTS):
        try:
            found = await hands.api.get(PODS, pod.name, pod.namespace)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        patch = (
            release_patch(found, hostname) if mapping(found.get("metadata")).get("uid") == pod.uid else None
        )
        if patch is None:
            return False
        hands.fence()
        try:
            await hands.api.patch(PODS, pod.name, pod.namespace, patch, form="strategic")
        except ApiError as error:
            if error.not_found:
                return False
            if error.invalid:
                raise RefusedError(f"pod {pod.name} cannot be released: {error.message}") from error
            if not error.conflict or attempt == _ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


def release_patch(pod: Object, hostname: str | None) -> Object | None:
    """Return the strategic patch for it; None where the pod has no gate of ours, or is on its way out. Pure.

    Raises RefusedError where the pod is bound to another node by its own selector.
    """
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    if metadata.get("deletionTimestamp") is not None or not _is_gated(spec):
        return None
    patch: Object = {
        "metadata": {"resourceVersion": metadata.get("resourceVersion")},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": ADMISSION_GATE}]},
    }
    chosen = mapping(spec.get("nodeSelector")).get(HOSTNAME)
    if hostname is None or chosen == hostname:
        return patch
    if chosen is not None:
        raise RefusedError(
            f"pod {metadata.get('name')} asks for the node {chosen} by its nodeSelector,"
            f" and is to be on {hostname}"
        )
    patch["metadata"]["annotations"] = {PINNED: hostname}
    patch["spec"]["nodeSelector"] = {HOSTNAME: hostname}
    return patch


def _is_gated(spec: Any) -> bool:
    return any(each.get("name") == ADMISSION_GATE for each in mappings(spec.get("schedulingGates")))
