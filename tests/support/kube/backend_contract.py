"""A backend on stage: what it is told, what it says, and what is really there of a replica."""

import abc
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import psutil

from specon_manager.backends.base import Backend, Order
from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.jobs import job_spec, read_job
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, HoldRoom, ReleaseRoom, StartReplica
from specon_manager.model.cluster import Job, JobSpec, Replica
from specon_manager.model.resources import NOTHING

REFUSALS = (ev.StartRefused, ev.JobRefused)
"""What is said of a start that fails: of a replica that we place, and of one that its owner does."""


class Stage(abc.ABC):
    """One backend with two nodes, what it has said, and a second manager after the first.

    What differs from backend to backend is how a replica comes to run, how it is made to end, and what can be
    seen of it from outside; the rules are the same.
    """

    seconds = 20.0
    """How long an outcome may take."""
    replica = "default/a/worker/0"
    nodes: tuple[str, str] = ("node-0", "node-1")
    pins = True
    """Whether a replica that is ordered to a node comes to run there and nowhere else."""
    ends_by_itself = True
    """Whether its own end is the end of an incarnation; else it is begun again in place."""

    def __init__(self) -> None:
        self.backend = self.make()
        self.events: list[ev.Event] = []
        self._said = asyncio.Event()

    # -- what each stage does in its own way -----------------------------------------------------

    @abc.abstractmethod
    def make(self) -> Backend:
        """Return a backend for the next manager; what runs is that of the one before."""

    @abc.abstractmethod
    async def running(self, *, slow_to_end: bool = False) -> ev.ReplicaStarted:
        """Get the first incarnation to run, and return the word of it."""

    @abc.abstractmethod
    async def startable(self, node: str) -> None:
        """Come to where a start is ordered: nothing of the replica is there, and `node` is its destination.

        Whatever was said until then is forgotten.
        """

    @abc.abstractmethod
    async def nothing_runs(self) -> None:
        """Come to where nothing of the replica is there, and nobody starts it by himself."""

    @abc.abstractmethod
    async def bound_for(self, node: str) -> None:
        """Record the move that the following orders belong to, where that matters."""

    @abc.abstractmethod
    async def ends(self, code: int) -> None:
        """Let the trainer end by itself; returns once it has, or is about to."""

    @abc.abstractmethod
    async def ended_by_others(self) -> None:
        """Let somebody who is no manager end the incarnation."""

    @abc.abstractmethod
    async def left(self, incarnation: str) -> list[str]:
        """Return what is still there of an incarnation, as seen without the backend."""

    @abc.abstractmethod
    async def rooms(self) -> list[str]:
        """Return what holds room for moves, by node, as seen without the backend."""

    def spec(self) -> JobSpec:
        """Return the job as the core knows it."""
        return JobSpec(name=self.job, replicas=(self.replica,))

    # -- what is common --------------------------------------------------------------------------

    @property
    def job(self) -> str:
        return self.replica.rsplit("/", 2)[0]

    def hear(self, event: ev.Event) -> None:
        self.events.append(event)
        self._said.set()

    async def begin(self, state: State | None = None) -> None:
        await self.backend.begin(state or State(), self.hear)

    async def another_manager(
        self, state: State, meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """End this one, let something happen that nobody sees, and begin one that knows `state`."""
        await self.backend.end()
        if meanwhile is not None:
            await meanwhile()
        self.events.clear()
        self.backend = self.make()
        await self.begin(state)

    def state(self, **known: object) -> State:
        """Return what a manager knows of the job; `known` is what it believes of the replica."""
        spec = self.spec()
        replicas = {name: Replica(name=name, job=spec.name, node=self.nodes[0]) for name in spec.replicas}
        replicas[self.replica] = msgspec.structs.replace(replicas[self.replica], starts=1, **known)
        return State(jobs={spec.name: Job(spec=spec, order=0, submitted_at=0.0)}, replicas=replicas)

    def said(self, *kinds: type[ev.Event]) -> list[ev.Event]:
        """Return the events of these kinds so far, without those about other replicas."""
        mine = (event for event in self.events if getattr(event, "replica", self.replica) == self.replica)
        return [event for event in mine if type(event) in kinds]

    async def hears(self, *kinds: type[ev.Event], count: int = 1) -> list[ev.Event]:
        """Return the events of these kinds once there are so many."""
        await self.comes(lambda: len(self.said(*kinds)) >= count)
        return self.said(*kinds)

    async def comes(self, told: Callable[[], object]) -> None:
        """Wait until something is true of what was said."""
        try:
            async with asyncio.timeout(self.seconds):
                while not told():
                    self._said.clear()
                    await self._said.wait()
        except TimeoutError:
            raise AssertionError(f"not within {self.seconds:g} s; said: {self.events}") from None

    async def settles(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a condition holds that no event reports."""
        ends = asyncio.get_running_loop().time() + self.seconds
        while not await look():
            assert asyncio.get_running_loop().time() < ends, f"not within {self.seconds:g} s: {look.__name__}"
            await asyncio.sleep(0.02)

    def start(self, node: str, *, start: int = 1) -> Order:
        return self._start(node, start)

    def eviction(self, incarnation: str | None, *, grace_seconds: float = 5.0) -> Order:
        return EvictReplica(
            replica=self.replica, incarnation=incarnation, grace_seconds=grace_seconds, reason="test"
        )

    def order_name(self, start: int) -> object:
        """Return what a refusal of that start names."""
        return start

    def named(self, refused: ev.Event) -> object:
        """Return what a refusal names."""
        return refused.start if isinstance(refused, ev.StartRefused) else None

    def _start(self, node: str, start: int) -> StartReplica:
        return StartReplica(replica=self.replica, start=start, node=node, template={}, reason="test")

    def hold(self, move: str, node: str) -> HoldRoom:
        return HoldRoom(transaction=move, replica=self.replica, node=node, requests=NOTHING, reason="test")

    def release(self, move: str, node: str) -> ReleaseRoom:
        return ReleaseRoom(transaction=move, replica=self.replica, node=node, reason="test")

    async def close(self) -> None:
        await self.backend.end()


_PROGRAM = """
import os, pathlib, signal, sys, time
last_word = pathlib.Path(sys.argv[1])
if sys.argv[2] == "slow":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.fork()
while not last_word.exists():
    time.sleep(0.02)
raise SystemExit(int(last_word.read_text()))
"""


class LocalStage(Stage):
    """Real processes: started by order, ended by their own program or by signals."""

    def __init__(self, directory: Path) -> None:
        cpu = min(os.sched_getaffinity(0))
        self._settings = LocalSettings(
            directory=directory,
            nodes=tuple(VirtualNode(name, (cpu,)) for name in self.nodes),
            working_directory=directory,
            environment=os.environ,
            samples=directory,
        )
        self._last_word = directory / "last-word"
        self._slow = False
        super().__init__()

    def make(self) -> LocalBackend:
        # No manager answers at that address; the sidecar of a trainer never disturbs it.
        return LocalBackend(
            self._settings, manager_url=lambda: "http://127.0.0.1:1", token=lambda *_: "token"
        )

    def _start(self, node: str, start: int) -> StartReplica:
        pace = "slow" if self._slow else "prompt"
        command = [sys.executable, "-c", _PROGRAM, str(self._last_word), pace]
        job = read_job(msgspec.json.encode({"name": "a", "command": command}))
        return msgspec.structs.replace(super()._start(node, start), template=dict(job_spec(job).template))

    async def running(self, *, slow_to_end: bool = False) -> ev.ReplicaStarted:
        self._slow = slow_to_end
        await self.backend.carry_out(self.start(self.nodes[0]))
        (started,) = await self.hears(ev.ReplicaStarted)

        async def trainer_runs() -> bool:
            return len(self._running()) == (2 if slow_to_end else 1)

        await self.settles(trainer_runs)
        assert isinstance(started, ev.ReplicaStarted)
        return started

    async def startable(self, node: str) -> None:
        del node  # a first start is ordered like any other
        self.events.clear()

    async def nothing_runs(self) -> None:
        self.events.clear()

    async def bound_for(self, node: str) -> None:
        del node  # the order to start says it

    async def ends(self, code: int) -> None:
        written = self._last_word.with_suffix(".new")
        written.write_text(str(code))
        written.rename(self._last_word)

    async def ended_by_others(self) -> None:
        for pid in self._running():
            os.kill(pid, signal.SIGKILL)

    async def left(self, incarnation: str) -> list[str]:
        del incarnation  # of this replica there is one at most
        return [f"process {pid}" for pid in self._running()]

    async def rooms(self) -> list[str]:
        return []  # the plan alone fills virtual nodes, and counts moves

    def _running(self) -> list[int]:
        """Return the processes of trainers, which alone have this path on their command line."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()
                if line[1:2] == ["-c"] and str(self._last_word) in line:
                    found.append(process.pid)
        return found

    async def close(self) -> None:
        await super().close()
        assert isinstance(self.backend, LocalBackend)
        await self.backend.evict_all(1.0)
