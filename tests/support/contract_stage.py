"""A backend on stage: what it is told, and what it says."""

import asyncio
import sys
from collections.abc import Callable

import msgspec

from specon_manager.backends.base import Backend
from specon_manager.backends.local.jobs import job_spec, read_job
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, StartReplica

REPLICA = "default/a/worker/0"
SECONDS = 20.0
STAY = "import time; time.sleep(600)"


class Stage:
    """One backend, what it has said, and a second manager after the first."""

    def __init__(self, make: Callable[[], Backend]) -> None:
        self._make = make
        self.backend = make()
        self.events: list[ev.Event] = []
        self._said = asyncio.Event()

    def hear(self, event: ev.Event) -> None:
        self.events.append(event)
        self._said.set()

    async def begin(self, state: State | None = None) -> None:
        await self.backend.begin(state or State(), self.hear)

    async def another_manager(self, state: State) -> None:
        """End this one and begin a new one that knows `state`."""
        await self.backend.end()
        self.events.clear()
        self.backend = self._make()
        await self.begin(state)

    async def hears(self, kind: type[ev.Event], count: int = 1) -> list[ev.Event]:
        """Return the events of a kind once there are so many."""
        async with asyncio.timeout(SECONDS):
            while len(found := [event for event in self.events if type(event) is kind]) < count:
                self._said.clear()
                await self._said.wait()
        return found

    def start(self, program: str = STAY, *, start: int = 1, node: str = "node-0") -> StartReplica:
        job = read_job(msgspec.json.encode({"name": "a", "command": [sys.executable, "-c", program]}))
        return StartReplica(
            replica=REPLICA, start=start, node=node, template=job_spec(job).template, reason="test"
        )

    async def running(self, program: str = STAY) -> ev.ReplicaStarted:
        """Start a replica and return the word of it."""
        await self.backend.carry_out(self.start(program))
        (started,) = await self.hears(ev.ReplicaStarted)
        assert isinstance(started, ev.ReplicaStarted)
        return started


def eviction(incarnation: str | None) -> EvictReplica:
    return EvictReplica(replica=REPLICA, incarnation=incarnation, grace_seconds=5.0, reason="test")
