"""Pods that are replaced without a count when they are evicted: a StatefulSet's, and some Jobs'.

Their owner creates the next pod by itself; where it may go is said to it by the admission webhook.
"""

from specon_manager.backends.kube.owners.way import BlockedError, Coming, Hands, Leaving, RefusedError
from specon_manager.backends.kube.transport.api import ApiError


async def evict(hands: Hands, leaving: Leaving) -> None:
    """Evict the pod by the Eviction API, which asks the disruption budgets; one that is gone is fine.

    Raises BlockedError where a budget, or too many requests, do not let it.
    """
    hands.fence()
    pod = leaving.pod
    try:
        await hands.api.evict(pod.name, pod.namespace, uid=pod.uid, grace_seconds=leaving.grace_seconds)
    except ApiError as error:
        if error.blocked or error.throttled:
            raise BlockedError(error.message) from error
        if not (error.not_found or error.conflict):
            raise


class Eviction:
    """Evicts the one pod."""

    async def let_go(self, hands: Hands, leaving: Leaving) -> None:
        """Evict the pod."""
        await evict(hands, leaving)

    async def bring_back(self, hands: Hands, coming: Coming) -> None:
        """Leave it to the owner, which creates the next pod when the former one is gone."""
        del hands
        if coming.owner is None:
            raise RefusedError("its owner is gone")
