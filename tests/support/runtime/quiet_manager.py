"""A controller with a backend that does what a test says, and a journal in a temporary folder."""

import asyncio
import contextlib

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, HoldRoom, StartReplica
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Controller
from specon_manager.runtime.journal import NAME, Journal
from specon_manager.runtime.memory import JournalMemory
from support.decisions.cluster import replica_of

QUIET = Settings(policy="specon", tick=1000.0)
"""No Tick comes by itself while a test runs."""


class FakeBackend:
    """Two nodes; carries orders out at once unless `carry` says otherwise."""

    def __init__(self):
        self.orders = []
        self.begun = 0
        self.over = 0
        self.carry = self.succeed

    async def begin(self, state, emit):
        self.begun += 1
        self.emit = emit
        for index in range(2):
            capacity = Resources(cpu=1, memory=8e9)
            emit(ev.NodeObserved(node=f"node-{index}", capacity=capacity, usage=Resources()))

    async def carry_out(self, order):
        self.orders.append(order)
        await self.carry(order)

    async def end(self):
        self.over += 1

    async def succeed(self, order):
        if isinstance(order, StartReplica):
            self.emit(
                ev.ReplicaStarted(
                    replica=order.replica,
                    incarnation=f"{order.start:04d}",
                    node=order.node,
                    start=order.start,
                )
            )
        elif isinstance(order, EvictReplica):
            gone = ev.ReplicaGone(replica=order.replica, incarnation=order.incarnation, evicted=True)
            self.emit(gone)
        elif isinstance(order, HoldRoom):
            self.emit(ev.RoomHeld(transaction=order.transaction, replica=order.replica))


class Manager:
    """A controller that runs, with what a test wants to see of it."""

    def __init__(self, path, settings=QUIET, state=None):
        self.path = path / NAME
        state = state or State(settings=settings)
        self.journal = Journal(self.path, began_at=1000.0, version="test")
        self.journal.begin(state)
        self.backend = FakeBackend()
        self.controller = Controller(
            state=state,
            memory=JournalMemory(self.journal),
            backend=self.backend,
            clock=Clock(at_least=1000.0),
        )
        self.steps = []
        self._stepped = asyncio.Event()
        self.controller.observers.append(self._observe)
        self.settings = settings

    def _observe(self, stepped):
        self.steps.append(stepped)
        self._stepped.set()

    async def until(self, holds):
        """Wait until the state is as wanted; a state that never is fails the test."""
        async with asyncio.timeout(60):
            while not holds(self.controller.state):
                self._stepped.clear()
                await self._stepped.wait()

    async def running(self, *jobs):
        for job in jobs:
            spec = JobSpec(name=f"default/{job}", replicas=(replica_of(job),))
            self.controller.post(ev.JobSubmitted(spec))
        names = [replica_of(job) for job in jobs]
        await self.until(
            lambda state: all(n in state.replicas and state.replicas[n].incarnation for n in names)
        )

    @contextlib.asynccontextmanager
    async def at_work(self):
        running = asyncio.ensure_future(self.controller.run("test", self.settings))
        try:
            await self.until(lambda state: len(state.nodes) == 2)
            yield self
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            self.journal.close()
