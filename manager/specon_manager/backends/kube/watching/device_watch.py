"""Follows claims, slices and taints of devices, and tells which replicas are about to lose one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from specon_manager.backends.kube.objects.device_taints import Announced, slim_claim, slim_rule, slim_slice
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import (
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from specon_manager.backends.kube.watching.device_book import DeviceBook, Holder
from specon_manager.model.events import ReplicaWarned

_log = logging.getLogger(__name__)
_PAUSE: Final = 300.0  # seconds; what a server has changes with its version and its feature gates


class DeviceWatch:
    """Announcements about devices, as events."""

    def __init__(
        self,
        api: Api,
        changed: Callable[[], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Call `changed` whenever there may be events."""
        self._api, self._changed, self._sleep = api, changed, sleep
        self._book = DeviceBook()
        self._told: dict[Holder, tuple[str, Announced]] = {}

    async def run(self) -> None:
        """Follow them until cancelled. What the server does not have is waited for, and said once."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(RESOURCE_SLICES, slim_slice, self._book.slice_changed))
            group.create_task(self._follow(RESOURCE_CLAIMS, slim_claim, self._book.claim_changed))
            group.create_task(self._follow(DEVICE_TAINT_RULES, slim_rule, self._book.rule_changed))

    def events(self, replica_of: Callable[[Holder], str | None]) -> list[ReplicaWarned]:
        """Return the events since the last call.

        `replica_of` returns which replica a pod is that runs, as the core knows it; None: none, or not yet.
        """
        announced = self._book.list_announced()
        events = [
            ReplicaWarned(replica=self._told.pop(holder)[0], incarnation=holder.uid)
            for holder in sorted(self._told.keys() - announced.keys(), key=lambda each: each.uid)
        ]
        for holder, news in announced.items():
            replica = replica_of(holder)
            if replica is None or self._told.get(holder) == (replica, news):
                continue
            self._told[holder] = (replica, news)
            events.append(
                ReplicaWarned(replica=replica, incarnation=holder.uid, why=news.why, leaves_at=news.leaves_at)
            )
        return events

    async def _follow(
        self,
        versions: Sequence[Resource],
        slim: Callable[[Any], Any],
        apply: Callable[[Any, Any], None],
    ) -> None:
        def changed(change: ObjectChange[Any]) -> None:
            apply(change.before, change.after)
            self._changed()

        await Reflector(self._api, await self._served(versions), slim=slim, changed=changed).run()

    async def _served(self, versions: Sequence[Resource]) -> Resource:
        """Return the first that the server has, as soon as it has one."""
        told = False
        while True:
            try:
                for resource in versions:
                    if await self._api.serves(resource):
                        return resource
            except (ApiError, ApiUnavailableError) as error:
                _log.debug("whether there are %s is not known: %s", versions[0].plural, error)
            else:
                if not told:
                    told = True
                    _log.info("the server has no %s: taints of devices say nothing", versions[0].plural)
            await self._sleep(_PAUSE)
