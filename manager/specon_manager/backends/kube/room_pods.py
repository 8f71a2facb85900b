"""The pods that keep room: made after the pod of a replica as it is now, and deleted at once."""

from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo
from specon_manager.backends.kube.owners.context import Hands
from specon_manager.backends.kube.placeholder import placeholder
from specon_manager.backends.kube.transport.errors import ApiError
from specon_manager.backends.kube.transport.resources import PODS, Object


async def room_for(
    hands: Hands,
    pod: PodInfo,
    node: NodeInfo,
    *,
    move: str,
    replica: str,
    migration: str,
    priority_class: str,
    name: str = "",
) -> Object:
    """Return the manifest of a pod that requests on the node what `pod` does; see `placeholder`."""
    return placeholder(
        await hands.api.get(PODS, pod.name, pod.namespace),
        move=move,
        replica=replica,
        migration=migration,
        node=node,
        priority_class=priority_class,
        reference=hands.keeper.reference(replica),
        name=name,
    )


async def give_back(hands: Hands, name: str, namespace: str) -> None:
    """Delete such a pod; one that is gone is no error."""
    hands.fence()
    try:
        await hands.api.delete(PODS, name, namespace, grace_seconds=0)
    except ApiError as error:
        if not error.not_found:
            raise
