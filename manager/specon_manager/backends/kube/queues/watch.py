"""The TrainingQueues as every manager sees them, and told to the core by the one that leads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from specon_manager.backends.base import Emit
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.selectors import selects
from specon_manager.backends.kube.queues.record import QueueInfo, queue_info
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import NAMESPACES, TRAINING_QUEUES, Object
from specon_manager.backends.kube.transport.served import when_served
from specon_manager.model.events import QueuesObserved
from specon_manager.model.queues import Queue

_log = logging.getLogger(__name__)


class _Namespace(Struct, frozen=True):
    uid: str
    labels: Mapping[str, Any]


class QueueWatch:
    """Follows the TrainingQueues; `run` it in every manager, and `tell` in the one that leads."""

    def __init__(
        self,
        api: Api,
        *,
        given: Collection[Queue] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Watch. `given` are queues of the configuration; an object of the same name counts instead."""
        self._api, self._sleep = api, sleep
        self._given = {queue.name: queue for queue in given}
        self._valid: dict[str, QueueInfo] = {}
        """What each object said when all of it could be read, by name."""
        self._woken = asyncio.Event()
        self._reflector = Reflector(api, TRAINING_QUEUES, slim=queue_info, changed=self._note_change)
        self._namespaces = Reflector(api, NAMESPACES, slim=_slim, changed=lambda _: self._woken.set())

    @property
    def synced(self) -> asyncio.Event:
        """Set once all TrainingQueues were seen, or there cannot be any."""
        return self._reflector.synced

    @property
    def infos(self) -> Mapping[str, QueueInfo]:
        """The objects as they are now, by name."""
        return {name: info for (_, name), info in self._reflector.items.items()}

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All queues by name; of an unreadable object the last valid one, else its quota is 0.

        One that selects namespaces takes nobody's jobs before those were seen.
        """
        found = dict(self._given)
        for name, info in self.infos.items():
            found[name] = self._with_namespaces(self._valid.get(name, info))
        return tuple(found[name] for name in sorted(found))

    def _with_namespaces(self, info: QueueInfo) -> Queue:
        if info.selector is None:
            return info.queue
        taken = [
            name
            for (_, name), namespace in self._namespaces.items.items()
            if selects(info.selector, namespace.labels, unknown=False)
        ]
        return msgspec.structs.replace(info.queue, namespaces=tuple(sorted(taken)))

    @property
    def _shares(self) -> Mapping[str, float]:
        return {name: info.share for name, info in self.infos.items() if info.share is not None}

    def message(self, name: str) -> str:
        """Return the mistake of the object of that name, and what counts instead; empty: no mistake."""
        info = self._reflector.items.get(("", name))
        return "" if info is None or not info.problems else self._objection(name, info)

    async def run(self) -> None:
        """Follow the TrainingQueues until cancelled; without their definition there are none."""
        await when_served(self._api, TRAINING_QUEUES, self._follow, absent=self.synced.set, sleep=self._sleep)

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            group.create_task(self._namespaces.run())

    async def tell(self, emit: Emit) -> None:
        """Say which queues there are, and again whenever that changes. Until cancelled."""
        await self.synced.wait()
        told: tuple[Queue, ...] | None = None
        while True:
            self._woken.clear()
            if self.queues != told:
                told = self.queues
                emit(QueuesObserved(queues=told, shares=self._shares))
            await self._woken.wait()

    def _note_change(self, change: ObjectChange[QueueInfo]) -> None:
        name, after = change.key[1], change.after
        if after is None:
            self._valid.pop(name, None)
        elif not after.problems:
            self._valid[name] = after
        else:
            _log.warning("TrainingQueue %s: %s", name, self._objection(name, after))
        self._woken.set()

    def _objection(self, name: str, info: QueueInfo) -> str:
        instead = "the last valid quota" if name in self._valid else "0 for it"
        return f"{'; '.join(info.problems)}: {instead} counts"


def _slim(item: Object) -> _Namespace:
    metadata = mapping(item.get("metadata"))
    return _Namespace(uid=str(metadata.get("uid", "")), labels=mapping(metadata.get("labels")))
