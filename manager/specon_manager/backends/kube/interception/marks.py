"""Keeps the descheduler's annotation on pods whose eviction is under way: it does not ask again meanwhile.

Source: `pkg/descheduler/evictions/evictions.go` of sigs.k8s.io/descheduler: a pod with both
`request-evict-only` and `eviction-in-progress` counts as being evicted until the latter is taken off, or it
is gone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from specon_manager.backends.kube.interception.decision import is_open
from specon_manager.backends.kube.interception.desk import Desk
from specon_manager.backends.kube.interception.facts import PodFacts
from specon_manager.backends.kube.objects.annotations import IN_PROGRESS, OURS
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0
_MOST: Final = 50
"""Annotations that are written at one look."""


class Marks:
    """The leader runs it."""

    def __init__(
        self,
        api: Api,
        desk: Desk,
        *,
        holds: Callable[[], bool],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Write while `holds` says that this manager leads."""
        self._api, self._desk, self._holds, self._sleep = api, desk, holds, sleep

    async def run(self) -> None:
        """Keep them until cancelled."""
        while True:
            if self._desk.ready:
                await self.keep()
            await self._sleep(_LOOK_SECONDS)

    async def keep(self) -> None:
        """Write what differs, for so many pods at a time."""
        changes = [
            (pod, mark) for pod in self._desk.cache.pods() if (mark := self._choose_mark(pod)) is not None
        ]
        for pod, mark in changes[:_MOST]:
            if not self._holds():
                return
            change = {"metadata": {"uid": pod.uid, "annotations": {IN_PROGRESS: mark or None}}}
            try:
                await self._api.patch(PODS, pod.name, pod.namespace, change, form="merge")
            except (ApiError, ApiUnavailableError) as error:
                _log.debug("%s of %s/%s: %s", IN_PROGRESS, pod.namespace, pod.name, error)

    def _choose_mark(self, pod: PodFacts) -> str | None:
        """Return what the annotation is to be, empty for none; None where it may stay as it is."""
        evict_only, present = pod.marks
        if not evict_only or pod.ended or pod.leaving or present not in {"", OURS}:
            return None
        wanted = OURS if any(map(is_open, self._desk.wishes(pod))) else ""
        return None if wanted == present else wanted
