"""Weights of running pods: the request of their trainer's processors is changed in place.

Only by the subresource `resize` (Kubernetes 1.33 and later), only processors, and never below what the pod's
owner allows. Containers are not restarted: those that ask for it are left alone, and so are pods whose
quality of service would change. What a pod requested first is written into an annotation before, so that
any later leader can restore it.
"""

import logging
from collections.abc import Callable
from typing import Final

from specon_manager.backends.kube.objects.annotation_keys import WHOLE_CPU
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.pod import PodInfo, trainer_of
from specon_manager.backends.kube.objects.weights import quantity, read_whole_cpu, requested_cpu
from specon_manager.backends.kube.owners.living_pod import read_living_pod
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import PODS
from specon_manager.backends.kube.watching.translate import options_of

_log = logging.getLogger(__name__)
_LEAST: Final = 0.001
"""Cores: a request of less is none, and none would change the quality of service."""


class Reweighting:
    """Changes what running pods request."""

    def __init__(self, api: Api, fence: Callable[[], None]) -> None:
        """Speak to `api`; `fence` raises where this manager leads no more."""
        self._api, self._fence = api, fence

    async def weigh(self, pod: PodInfo, weight: float) -> None:
        """Let the pod's trainer request `weight` times what it requested first; twice does no harm.

        A pod that is gone, or that cannot be resized, is left as it is. Raises ApiError where it is refused.
        """
        assert pod.detail is not None
        if pod.detail.unweightable and weight < 1.0:
            _log.warning("%s/%s keeps its weight: %s", pod.namespace, pod.name, pod.detail.unweightable)
            return
        live = await read_living_pod(self._api, pod)
        if live is None:
            return
        metadata = mapping(live.get("metadata"))
        trainer = trainer_of(live)
        present = requested_cpu(trainer)
        written = mapping(metadata.get("annotations")).get(WHOLE_CPU)
        whole = read_whole_cpu(written)
        if whole is None:
            whole = present
        lowest = options_of(pod.detail).min_cpu
        wanted = max(weight * whole, whole if lowest is None else min(lowest, whole), _LEAST)
        if abs(wanted - present) < _LEAST or whole <= 0:
            return
        if written is None:
            self._fence()
            note = {"metadata": {"uid": pod.uid, "annotations": {WHOLE_CPU: quantity(whole)}}}
            await self._api.patch(PODS, pod.name, pod.namespace, note, form="merge")
        self._fence()
        container = {"name": trainer.get("name"), "resources": {"requests": {"cpu": quantity(wanted)}}}
        await self._api.patch(
            PODS,
            pod.name,
            pod.namespace,
            {"metadata": {"uid": pod.uid}, "spec": {"containers": [container]}},
            form="strategic",
            subresource="resize",
        )
