"""The pod of the manager that leads is the last one to leave a node that is emptied: it moves the others."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from specon_manager.backends.kube.interception.decision import EVACUATION, FORGOTTEN_SECONDS
from specon_manager.backends.kube.interception.eviction import Answer, Eviction
from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.records.decoding import moment
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS

_log = logging.getLogger(__name__)
KEPT_SINCE: Final = f"{PREFIX}eviction-kept-since"
"""On the leader's pod: since when its eviction is put off."""
_SECONDS: Final = 1.5
_PASSES: Final = Answer(verdict="pass")


class LeaderLast:
    """Answers evictions of the pod that leads."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        leader: Callable[[], str],
        patience: float,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`leader` names the pod that leads, empty where none does; `patience` is in seconds."""
        self._api, self._namespace, self._leader = api, namespace, leader
        self._patience, self._wall = patience, wall

    def concerns(self, eviction: Eviction) -> bool:
        """Whether it is the leader's pod that is to go."""
        return eviction.namespace == self._namespace and eviction.name == self._leader() != ""

    async def answer(self, eviction: Eviction, keeps: Callable[[str], bool]) -> Answer:
        """Return the answer; `keeps` tells whether a pod on a node is still to be moved."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._answer(eviction, keeps)
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            _log.warning("the eviction of the leader passes: %s", error)
            return _PASSES

    async def _answer(self, eviction: Eviction, keeps: Callable[[str], bool]) -> Answer:
        pod = await self._api.get(PODS, eviction.name, eviction.namespace)
        node = str(mapping(pod.get("spec")).get("nodeName") or "")
        metadata = mapping(pod.get("metadata"))
        if not node or metadata.get("deletionTimestamp") is not None or eviction.dry_run or not keeps(node):
            return _PASSES
        now, since = self._wall(), _since(mapping(metadata.get("annotations")).get(KEPT_SINCE))
        if since is None or now - since > self._patience + FORGOTTEN_SECONDS:  # of a drain that was given up
            at = moment(now)
            assert at is not None
            change = {"metadata": {"uid": metadata.get("uid"), "annotations": {KEPT_SINCE: at.isoformat()}}}
            await self._api.patch(PODS, eviction.name, eviction.namespace, change, form="merge")
        elif now - since >= self._patience:
            return Answer(verdict="pass", words="specon lets its leader go before what it has to move")
        words = f"{EVACUATION}: this manager leads, and moves the replicas on {node} first"
        return Answer(verdict="wait", words=words)


def _since(given: object) -> float | None:
    try:
        return datetime.fromisoformat(given).timestamp() if isinstance(given, str) else None
    except ValueError:
        return None
