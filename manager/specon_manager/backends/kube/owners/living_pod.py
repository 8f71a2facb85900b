"""A pod as the API has it now, right before something is done about it."""

from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError
from specon_manager.backends.kube.transport.resources import PODS, Object


async def read_living_pod(api: Api, pod: PodInfo) -> Object | None:
    """Return the pod; None where it is gone, is about to go, or another one has its name. Raises ApiError."""
    try:
        live = await api.get(PODS, pod.name, pod.namespace)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    metadata = mapping(live.get("metadata"))
    if metadata.get("uid") != pod.uid or metadata.get("deletionTimestamp") is not None:
        return None
    return live
