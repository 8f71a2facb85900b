"""Jobs of Kueue in virtual time: trainers that step, save and pause, and a manager with its gatekeeper."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from specon_manager.backends.kube.kueue.decision import PreemptionGateSettings
from specon_manager.backends.kube.kueue.gatekeeper import Gatekeeper
from specon_manager.backends.kube.kueue.lookout import LocalQueues
from specon_manager.model import events as ev
from specon_manager.model.actions import RequestCheckpoint
from specon_manager.model.settings import Deadlines
from specon_sidecar.wire import Checkpoint
from support.clocks.virtual_time import virtual_now
from support.decisions.cluster import DIGEST, SETTINGS
from support.decisions.owners import Owners, described
from support.kube.kueue_api import KueueApi
from support.kube.kueue_objects import NOW
from support.kube.kueue_stub import KueueStub

STEP_SECONDS = 0.05


class Notes:
    """Remembers what would be told of objects."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def record(self, _reference: object, note: Any) -> None:
        self.told.append((note.reason, note.text))


class Trainer:
    """What trains of one job: all of it goes step by step."""

    def __init__(self, began: float, step: int) -> None:
        self.began, self.step, self.paused = began, step, False
        self.saved: int | None = None
        self.saved_at = 0.0

    def train(self, now: float) -> None:
        """Come to the step of this moment."""
        if not self.paused:
            self.step += int((now - self.began) / STEP_SECONDS + 1e-6)
            self.began = now


class KueueStage:
    """Everything but Kueue itself is the manager's own code."""

    def __init__(
        self,
        *,
        hold: bool = True,
        patience: float = 60.0,
        heeds_gates: bool = True,
        save_seconds: Callable[[str], float] = lambda _: 2.0,
    ) -> None:
        """`hold`: whether trainers pause after they have saved; `save_seconds`, how long that takes."""
        self.hold, self._save_seconds = hold, save_seconds
        deadlines = msgspec.structs.replace(SETTINGS.deadlines, checkpoint=120.0, pause=30.0)
        assert isinstance(deadlines, Deadlines)
        self.cluster = Owners(settings=msgspec.structs.replace(SETTINGS, deadlines=deadlines))
        self.api, self.notes = KueueApi(), Notes()
        self.kueue = KueueStub(self.api, self.now, admit=self._admitted, end=self._ended, gate=heeds_gates)
        self.settings = PreemptionGateSettings(enabled=True, patience=patience)
        self.trainers: dict[str, Trainer] = {}
        self.reached: dict[str, int] = {}
        self.lost: list[int] = []
        """Steps that each preemption cost."""
        self.ends: list[tuple[str, float, Trainer]] = []
        """Who was ended when, as it was then."""
        self.asked: dict[str, set[str]] = {}
        """Who was asked to save, by the Workload for which that was."""
        self.worked: Callable[[], float] = time.thread_time
        """How long the manager has worked."""
        self.sizes: dict[str, int] = {}
        self.leads = True
        self._saving: set[asyncio.Task[None]] = set()
        self._leader: list[asyncio.Task[None]] = []

    def now(self) -> float:
        return NOW + virtual_now()

    async def run(self, story: Awaitable[None]) -> None:
        """Let everybody work until the story is told."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = [group.create_task(each) for each in (self.kueue.run(), self._tick())]
            self._leader = [group.create_task(each) for each in self.manager()]
            await story
            for task in (*tasks, *self._leader):
                task.cancel()

    def take_over(self) -> None:
        """Kill the manager, and let another one lead: what has ended it has never heard of."""
        for task in self._leader:
            task.cancel()
        self.cluster.state = msgspec.structs.replace(self.cluster.state, history=())
        self._leader = [self._group.create_task(each) for each in self.manager()]

    def manager(self) -> list[Any]:
        """Return what a manager that leads does for Kueue."""
        local = LocalQueues(self.api)  # type: ignore[arg-type]
        self.gatekeeper = Gatekeeper(
            self.api,  # type: ignore[arg-type]
            self.settings,
            local_queues=local,
            recorder=self.notes,  # type: ignore[arg-type]
            owner_of=lambda job: {"uid": f"job-{job.partition('/')[2]}"},
            holds=lambda: self.leads,
            worked=self.worked,
        )
        return [local.run(), self.gatekeeper.run(lambda: self.cluster.state, self.now, self.post)]

    def train(self, name: str, queue: str, *, cpu: float = 1.0, workers: int = 1, **about: object) -> None:
        """Submit a training job of ours, of low priority; several workers train as one."""
        self.sizes[name] = workers
        immovable = f"Kueue manages Job/{name}"
        about.setdefault("checkpointing", "asked")
        self.cluster.observe(described(name, workers, coupled=workers > 1, immovable=immovable, **about))
        self.kueue.submit(name, queue, cpu=cpu, priority=0, gated=True)

    def post(self, event: ev.Event) -> None:
        """Let the manager hear of something, and carry out what it orders of trainers."""
        if isinstance(event, ev.SaveRequested):
            preemptor = event.reason.rpartition("/")[2]
            self.asked.setdefault(preemptor, set()).add(event.replica.split("/")[1])
        self.cluster.now = max(self.cluster.now, self.now())
        actions = self.cluster.post(event)
        self.cluster.orders.clear()
        for action in actions:
            if isinstance(action, RequestCheckpoint):
                task = asyncio.get_running_loop().create_task(self._saves(action))
                self._saving.add(task)
                task.add_done_callback(self._saving.discard)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(5.0)
            self.post(ev.Tick())

    async def _saves(self, asked: RequestCheckpoint) -> None:
        """Do as a sidecar and its trainer do: save the step of this moment, verify, and pause."""
        name = asked.replica.split("/")[1]
        trainer = self.trainers.get(name)
        if trainer is None:
            return
        trainer.train(self.now())
        seconds = self._save_seconds(name)
        if self.hold and asked.pause:
            trainer.paused = True
        step = trainer.step
        await asyncio.sleep(seconds)
        if self.trainers.get(name) is trainer and self.cluster.asked(asked.replica) == asked.id:
            trainer.saved, trainer.saved_at = step, self.now()
            self.cluster.now = max(self.cluster.now, self.now())
            self.cluster.acknowledge(
                asked.replica, checkpoint=Checkpoint(step=step, path="/c", digest=DIGEST)
            )
            self.cluster.orders.clear()

    def _admitted(self, name: str) -> None:
        if name not in self.sizes:
            return
        self.trainers[name] = Trainer(self.now(), self.reached.get(name, 0))
        self.cluster.now = max(self.cluster.now, self.now())
        for index in range(self.sizes[name]):
            self.cluster.appears(f"default/{name}/worker/{index}", "node-0")
        self.cluster.orders.clear()

    async def _ended(self, name: str) -> None:
        trainer = self.trainers.pop(name, None)
        if trainer is None:
            return
        trainer.train(self.now())
        self.ends.append((name, self.now(), trainer))
        saved = trainer.saved or self.reached.get(name, 0)
        self.lost.append(trainer.step - saved)
        self.reached[name] = saved
        await asyncio.sleep(0.2)
        self.cluster.now = max(self.cluster.now, self.now())
        for index in range(self.sizes[name]):
            self.cluster.die(f"default/{name}/worker/{index}", 143, evicted=True)
        self.cluster.orders.clear()
