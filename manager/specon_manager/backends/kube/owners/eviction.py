"""Pods that are evicted: those of a StatefulSet and of some Jobs come back by themselves, without a count.

Their owner creates the next pod; where it may go is said to it by the admission webhook.
"""

from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.context import BlockedError, Hands
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.resources import PODS


async def evict(hands: Hands, pod: PodInfo, *, grace_seconds: int) -> None:
    """Evict the pod by the Eviction API, which asks the disruption budgets; one that is gone is fine.

    Raises BlockedError where a budget, too many requests, or a webhook do not let it.
    """
    hands.fence()
    try:
        await hands.api.evict(pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace_seconds)
    except ApiError as error:
        if error.blocked or error.throttled:
            raise BlockedError(error.message) from error
        await refuse_conflict(hands, pod, error)
        if not (error.not_found or error.conflict):
            raise


async def refuse_conflict(hands: Hands, pod: PodInfo, error: ApiError) -> None:
    """Raise BlockedError where an eviction met a conflict though the pod is still there: a webhook's."""
    if error.conflict and not await is_told(hands, pod):
        raise BlockedError(error.message) from error


async def is_told(hands: Hands, pod: PodInfo) -> bool:
    """Whether the pod is gone or on its way out: asked where nobody knows what came of an eviction."""
    try:
        found = await hands.api.get(PODS, pod.name, pod.namespace)
    except ApiError as error:
        if error.not_found:
            return True
        raise
    metadata = mapping(found.get("metadata"))
    return metadata.get("uid") != pod.uid or metadata.get("deletionTimestamp") is not None
