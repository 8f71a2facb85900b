"""Writes in the background: when they are due, a few at a time, once more after a failure."""

import asyncio
import heapq
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.transport.backoff import Backoff
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 1.0
_AHEAD: Final = 1e6  # what goes before everything else that waits is due so long ago


class DueWrites:
    """Names of objects that have something new; what changes again before it is written is written once.

    Never two writes of one object at once: the older could come last.
    """

    def __init__(
        self,
        write: Callable[[str], Awaitable[None]],
        *,
        kind: str,
        holds: Callable[[], bool],
        rate: Rate,
        rng: random.Random,
        calls: Callable[[str], int] = lambda _: 1,
        at_once: int = 1,
        longest_pause: float = 60.0,
    ) -> None:
        """Call `write` with each due name; an error of the API puts the name off, longer each time.

        `rate` bounds the calls, and `calls` says how many of them a write takes; `kind` is for the log.
        NotLeadingError ends `run` while `holds` says that this manager leads: then another one wrote there.
        """
        self._write, self._kind, self._rate, self._rng = write, kind, rate, rng
        self._holds = holds
        self._calls, self._at_once, self._longest_pause = calls, at_once, longest_pause
        self._due: dict[str, float] = {}
        """When each is to be written, on the loop's clock; those that are not in it have nothing new."""
        self._queue: list[tuple[float, str]] = []
        self._failures: dict[str, Backoff] = {}
        self._busy: set[str] = set()
        self._woken = asyncio.Event()

    def put(self, name: str, *, after: float = 0.0) -> None:
        """Have an object written in so many seconds, or sooner if it was put so before."""
        self._schedule(name, asyncio.get_running_loop().time() + after)

    def put_first(self, name: str, *, place: float = 0.0) -> None:
        """Have an object written before all others that wait; of several the one with the lowest place."""
        self._schedule(name, asyncio.get_running_loop().time() - _AHEAD + place)

    def note_written(self, name: str) -> None:
        """Take note that an object was written by somebody else of this manager."""
        self._failures.pop(name, None)

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                name = self.next(loop.time()) if len(self._busy) < self._at_once else None
                if name is None:
                    await self._rest(loop.time())
                    continue
                for _ in range(self._calls(name)):
                    await self._rate.wait()
                self._busy.add(name)
                group.create_task(self._write_one(name))

    def next(self, now: float) -> str | None:
        """Take the next name that is due; None where none is."""
        while self._queue and self._queue[0][0] <= now:
            due, name = heapq.heappop(self._queue)
            if self._due.get(name) != due:
                continue  # a newer one was put since
            if name in self._busy:
                self._push(name, now + _FIRST_PAUSE)
                continue
            del self._due[name]
            return name
        return None

    def _schedule(self, name: str, due: float) -> None:
        if name in self._failures and name in self._due:
            return  # it waits for its next try, and will write the facts of then
        if due < self._due.get(name, float("inf")):
            self._push(name, due)
            self._woken.set()

    def _push(self, name: str, due: float) -> None:
        self._due[name] = due
        heapq.heappush(self._queue, (due, name))

    async def _rest(self, now: float) -> None:
        self._woken.clear()
        if len(self._busy) >= self._at_once or not self._queue:
            await self._woken.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, self._queue[0][0] - now)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _write_one(self, name: str) -> None:
        try:
            await self._write(name)
        except (ApiError, ApiUnavailableError, NotLeadingError, ValueError) as error:
            if isinstance(error, NotLeadingError) and self._holds():
                raise
            fresh = Backoff(_FIRST_PAUSE, self._longest_pause, self._rng)
            pause = self._failures.setdefault(name, fresh).next()
            if isinstance(error, ApiError) and error.retry_after is not None:
                pause = max(pause, error.retry_after)
            _log.warning("%s of %s is not written, next try in %.0f s: %s", self._kind, name, pause, error)
            self._push(name, asyncio.get_running_loop().time() + pause)
        else:
            self._failures.pop(name, None)
        finally:
            self._busy.discard(name)
            self._woken.set()
