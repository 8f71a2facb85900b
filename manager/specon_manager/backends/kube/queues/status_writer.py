"""Writes into each TrainingQueue what its jobs use: by the leader, when it changes, and not often."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.queues.record import QueueInfo, queue_status
from specon_manager.backends.kube.queues.watch import QueueWatch
from specon_manager.backends.kube.records.decoding import moment
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import TRAINING_QUEUES, Object
from specon_manager.core.queue_use import QueueUse, uses_of
from specon_manager.core.state import State

_log = logging.getLogger(__name__)
_PAUSE: Final = 10.0
"""Seconds between two looks, and so between two writes of one queue."""
_PER_SECOND: Final = 5.0


class QueueStatusWriter:
    """Keeps the statuses of the TrainingQueues up to date."""

    def __init__(
        self,
        api: Api,
        watch: QueueWatch,
        *,
        identity: str,
        holds: Callable[[], bool],
        state: Callable[[], State],
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Write as the manager `identity` while `holds` says that it leads; `state` is the known one."""
        self._api, self._watch, self._identity = api, watch, identity
        self._holds, self._state, self._wall, self._sleep = holds, state, wall, sleep
        self._rate = Rate(_PER_SECOND, 5, sleep=sleep)
        self._written: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """The status written into each queue, with the uid of its object."""

    async def run(self) -> None:
        """Write until cancelled. Raises NotLeadingError once another manager leads."""
        await self._watch.synced.wait()
        while True:
            await self.write()
            await self._sleep(_PAUSE)

    async def write(self) -> None:
        """Write what has changed since it was last written; what cannot be written is tried the next time."""
        infos = self._watch.infos
        for name in self._written.keys() - infos.keys():
            del self._written[name]
        uses = uses_of(self._state()) if infos else {}
        for name, info in sorted(infos.items()):
            status = queue_status(uses.get(name, QueueUse()), self._watch.message(name), self._identity)
            if self._written.get(name) != (info.uid, status):
                await self._rate.wait()
                await self._write_one(name, info, status)

    async def _write_one(self, name: str, info: QueueInfo, status: Mapping[str, Any]) -> None:
        if not self._holds():
            raise NotLeadingError(f"{self._identity} does not hold the lease any more")
        at = moment(self._wall())
        body: Object = {
            "metadata": {"uid": info.uid},
            "status": {**status, "updatedAt": None if at is None else at.isoformat()},
        }
        try:
            await self._api.patch(TRAINING_QUEUES, name, None, body, form="merge", subresource="status")
        except ApiUnavailableError as error:
            _log.debug("the use of queue %s is not written yet: %s", name, error)
        except ApiError as error:
            if not (error.not_found or error.conflict or error.throttled):
                _log.warning("the use of queue %s cannot be written: %s", name, error)
        else:
            self._written[name] = (info.uid, status)
