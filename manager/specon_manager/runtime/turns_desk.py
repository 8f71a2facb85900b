"""What sidecars are told of turns: worked out again while anybody asks, and told soon where it changes.

However many ask, one looks for all of them; and where a look takes long, looks are as much rarer.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Final

from specon_manager.backends.time_slices import ends_none, turns_by_replica
from specon_manager.backends.turns import Schedule
from specon_manager.runtime.controller import Controller
from specon_sidecar.slices.lease import MOST_TURNS
from specon_sidecar.wire import SCHEMA, Turn, Turns

LEASE_SECONDS: Final = 4.0
"""For how long an answer holds: so long may a trainer be kept to its turns once the manager is gone."""
_LOOK_SECONDS: Final = 0.25
_LOOK_SHARE: Final = 10.0
"""A look that takes long is made so many times rarer than it is long."""


class TurnsDesk:
    """Answers for one controller."""

    def __init__(self, controller: Controller, is_ending: Callable[[str], bool] = ends_none) -> None:
        """Take whose state tells the weights, and what tells that a replica's pod ends."""
        self._controller, self._is_ending = controller, is_ending
        self._found: Mapping[str, Schedule] = {}
        self._ids: dict[str, str] = {}
        self._look_at = float("-inf")
        self._news: dict[str, asyncio.Event] = {}
        """Of those who wait; set once their turns are others."""
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None

    async def answer(self, replica: str, known: str, seconds: float) -> Turns:
        """Return a replica's turns once they are others than the known ones, or after so many seconds."""
        self._look()
        if self._ids.get(replica, "") == known and seconds > 0:
            await self._wait(replica, known, seconds)
        return self._tell(replica)

    async def _wait(self, replica: str, known: str, seconds: float) -> None:
        """Return once a replica's turns are others than those known, or the time is over."""
        self._waiting += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._keep_looking())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while self._ids.get(replica, "") == known:
                        await self._news.setdefault(replica, asyncio.Event()).wait()
        finally:
            self._waiting -= 1

    async def _keep_looking(self) -> None:
        """Look again while anybody waits."""
        try:
            while self._waiting:
                await asyncio.sleep(max(_LOOK_SECONDS, self._look_at - time.monotonic()))
                self._look()
        finally:
            self._looking = None
            self._tell_all()

    def _look(self) -> None:
        begun = time.monotonic()
        if begun < self._look_at:
            return
        found = turns_by_replica(self._controller.state, self._controller.clock.now(), self._is_ending)
        self._found = {name: each for name, each in found.items() if len(each.turns[name]) <= MOST_TURNS}
        before, self._ids = (
            self._ids,
            {name: _name_schedule(each, name) for name, each in self._found.items()},
        )
        for replica in [name for name in self._news if before.get(name) != self._ids.get(name)]:
            self._news.pop(replica).set()
        now = time.monotonic()
        self._look_at = now + max(_LOOK_SECONDS, _LOOK_SHARE * (now - begun))

    def _tell_all(self) -> None:
        """Let go of what those who waited left, and let nobody wait for a look that does not come."""
        for event in self._news.values():
            event.set()
        self._news.clear()

    def _tell(self, replica: str) -> Turns:
        clock = self._controller.clock.now()
        schedule = self._found.get(replica)
        if schedule is None:
            return Turns(schema=SCHEMA, clock=clock, seconds=LEASE_SECONDS)
        return Turns(
            schema=SCHEMA,
            id=self._ids[replica],
            period=schedule.period,
            on=tuple(Turn(begin=begin, length=length) for begin, length in schedule.turns[replica]),
            clock=clock,
            seconds=LEASE_SECONDS,
        )


def _name_schedule(schedule: Schedule, replica: str) -> str:
    written = repr((schedule.period, schedule.turns[replica])).encode()
    return hashlib.blake2s(written, digest_size=8).hexdigest()
