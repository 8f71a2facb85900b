"""Keeps the descheduler's annotation on pods whose eviction is under way: it does not ask again meanwhile.

Source: `pkg/descheduler/evictions/evictions.go` of sigs.k8s.io/descheduler: a pod with both
`request-evict-only` and `eviction-in-progress` counts as being evicted until the latter is taken off, or it
is gone. Once it has been told to wait it assumes that for ten minutes and more, and forgets it only where
the annotation is taken off: of a move that was over before we looked it is written too, for a moment.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from specon_manager.backends.kube.interception.decision import is_open
from specon_manager.backends.kube.interception.desk import Desk
from specon_manager.backends.kube.interception.facts import PodFacts
from specon_manager.backends.kube.objects.annotation_keys import IN_PROGRESS, OURS
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0
_MOST: Final = 50
"""Annotations that are written at one look."""
_NEWS_SECONDS: Final = 60.0
"""So long after its end a move that nobody saw is told of: a leader that comes to it takes 15 s."""


class Marks:
    """The leader runs it."""

    def __init__(
        self,
        api: Api,
        desk: Desk,
        *,
        holds: Callable[[], bool],
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Write while `holds` says that this manager leads."""
        self._api, self._desk, self._holds, self._sleep = api, desk, holds, sleep
        self._wall = wall
        self._shown: set[str] = set()
        """Wishes at which the annotation was there."""

    async def run(self) -> None:
        """Keep them until cancelled."""
        while True:
            if self._desk.ready:
                await self.keep()
            await self._sleep(_LOOK_SECONDS)

    async def keep(self) -> None:
        """Write what differs, for so many pods at a time."""
        changes: list[tuple[PodFacts, str]] = []
        shown: set[str] = set()
        for pod in self._desk.cache.pods():
            evict_only, present = pod.marks
            if not evict_only or pod.ended or pod.leaving or present not in {"", OURS}:
                continue
            wanted = self._choose_mark(pod, shown)
            if wanted != present:
                changes.append((pod, wanted))
        self._shown = shown
        for pod, mark in changes[:_MOST]:
            if not self._holds():
                return
            change = {"metadata": {"uid": pod.uid, "annotations": {IN_PROGRESS: mark or None}}}
            try:
                await self._api.patch(PODS, pod.name, pod.namespace, change, form="merge")
            except (ApiError, ApiUnavailableError) as error:
                _log.debug("%s of %s/%s: %s", IN_PROGRESS, pod.namespace, pod.name, error)

    def _choose_mark(self, pod: PodFacts, shown: set[str]) -> str:
        """Return what the annotation is to be, empty for none; add the pod's latest wish if it was shown."""
        wishes = self._desk.wishes(pod)
        if not wishes:
            return ""
        last = wishes[-1]
        if pod.marks[1] or str(last.name) in self._shown:
            shown.add(str(last.name))
        elif not is_open(last) and self._wall() - last.ended_at <= _NEWS_SECONDS:
            return OURS
        return OURS if self._desk.puts_off(pod) else ""
