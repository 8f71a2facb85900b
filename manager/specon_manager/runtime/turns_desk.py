"""What sidecars are told of turns: worked out anew while anybody asks, and told at once where it changes."""

import asyncio
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


class TurnsDesk:
    """Answers for one controller."""

    def __init__(self, controller: Controller, is_ending: Callable[[str], bool] = ends_none) -> None:
        """Take whose state tells the weights, and what tells that a replica's pod ends."""
        self._controller, self._is_ending = controller, is_ending
        self._found: Mapping[str, Schedule] = {}
        self._ids: dict[str, str] = {}
        self._looked_at = float("-inf")

    async def answer(self, replica: str, known: str, seconds: float) -> Turns:
        """Return a replica's turns once they are others than the known ones, or after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            self._look()
            left = deadline - time.monotonic()
            if self._ids.get(replica, "") != known or left <= 0:
                return self._told(replica)
            await asyncio.sleep(min(left, _LOOK_SECONDS))

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = now
        found = turns_by_replica(self._controller.state, self._controller.clock.now(), self._is_ending)
        self._found = {name: each for name, each in found.items() if len(each.turns[name]) <= MOST_TURNS}
        self._ids = {name: _named(each, name) for name, each in self._found.items()}

    def _told(self, replica: str) -> Turns:
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


def _named(schedule: Schedule, replica: str) -> str:
    written = repr((schedule.period, schedule.turns[replica])).encode()
    return hashlib.blake2s(written, digest_size=8).hexdigest()
