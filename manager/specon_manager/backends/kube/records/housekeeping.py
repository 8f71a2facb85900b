"""Old Migrations are removed, and what they need no more; in the background, and nobody waits for it."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import MIGRATIONS

_log = logging.getLogger(__name__)
_PER_REPLICA: Final = 10
_IN_ALL: Final = 1000
_PAUSE: Final = 0.2
_RETRY_PAUSE: Final = 30.0


class Housekeeping:
    """Remembers which Migrations have ended, and keeps the latest: 10 of each replica, 1,000 in all."""

    def __init__(
        self,
        api: Api,
        *,
        holds: Callable[[], bool],
        per_replica: int = _PER_REPLICA,
        in_all: int = _IN_ALL,
        pause: float = _PAUSE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Remove while `holds` says that this manager leads, one every `pause` seconds at most."""
        self._api, self._holds = api, holds
        self._per_replica, self._in_all, self._pause = per_replica, in_all, pause
        self._sleep = sleep
        self._ended: dict[Name, tuple[float, str, str]] = {}
        """When each ended, its replica, and its uid."""
        self._of_replica: dict[str, set[Name]] = {}
        self._spare: deque[tuple[Name, str | None]] = deque()
        """The records to remove, with their uids; one without a uid only loses its manifest."""
        self._woken = asyncio.Event()

    def note_ended(self, replica: str, at: float, name: Name, uid: str) -> None:
        """Take note of a Migration that has ended; the oldest ones make room for it."""
        if name in self._ended:  # deleted by somebody, and made again: maybe for another replica
            self._forget(name)
        self._ended[name] = (at, replica, uid)
        mine = self._of_replica.setdefault(replica, set())
        mine.add(name)
        if len(mine) > self._per_replica:
            self._remove(min(mine, key=self._age))
        if len(self._ended) > self._in_all:
            self._remove(min(self._ended, key=self._age))

    def _age(self, name: Name) -> tuple[float, str]:
        return self._ended[name][0], str(name)

    def drop_manifest(self, name: Name) -> None:
        """Have the manifest taken out of a Migration that has ended."""
        self._spare.append((name, None))
        self._woken.set()

    def _forget(self, name: Name) -> str:
        """Forget a Migration that has ended, and return its uid."""
        _, replica, uid = self._ended.pop(name)
        mine = self._of_replica[replica]
        mine.discard(name)
        if not mine:
            del self._of_replica[replica]
        return uid

    def _remove(self, name: Name) -> None:
        uid = self._forget(name)
        self._spare.append((name, uid))
        self._woken.set()

    async def run(self) -> None:
        """Remove the due records, until cancelled."""
        while True:
            if not self._spare:
                self._woken.clear()
                await self._woken.wait()
            if not self._holds():
                await self._sleep(_RETRY_PAUSE)
                continue
            name, uid = self._spare[0]
            pause = self._pause
            try:
                await self._tidy(name, uid)
            except ApiUnavailableError as error:
                _log.info("Migration %s is not tidied up yet: %s", name, error)
                pause = _RETRY_PAUSE
            except ApiError as error:
                if error.throttled:
                    pause = error.retry_after or _RETRY_PAUSE
                else:
                    self._spare.popleft()
                    if not (error.not_found or error.conflict):
                        _log.warning("Migration %s is not tidied up: %s", name, error)
            else:
                self._spare.popleft()
            await self._sleep(pause)

    async def _tidy(self, name: Name, uid: str | None) -> None:
        if uid is not None:
            await self._api.delete(MIGRATIONS, name.name, name.namespace, uid=uid)
            return
        await self._api.patch(
            MIGRATIONS,
            name.name,
            name.namespace,
            {"status": {"manifest": None}},
            form="merge",
            subresource="status",
        )
