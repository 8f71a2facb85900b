"""A manager in a cluster of owners whose memory is in custom resources, as the controller would drive it."""

import asyncio
import contextlib

from fakekube.kinds import MIGRATIONS, TRAINING_PROGRESSES
from specon_manager.backends.kube.records.memory import ClusterMemory
from specon_manager.backends.kube.transport.api import Api
from specon_manager.model import events as ev
from specon_sidecar.classify import Category
from support.clocks.fair_time import be_fair
from support.decisions.cluster import SETTINGS
from support.decisions.owners import Owners, described

R = "default/mnist/worker/0"
START = 1_795_000_000.0


class Remembered(Owners):
    """Every event is noted; `commit` is for the test to call."""

    def __init__(self, memory):
        self.memory = memory
        super().__init__()
        self.now = START

    def post(self, event):
        actions = super().post(event)
        self.memory.note(self.now, event, actions)
        return actions

    def run_job(self, job="mnist"):
        spec = described(job)
        self.observe(spec)
        self.start_all()
        for name in spec.replicas:
            self.report(name, Category.PROGRESSING, 100)

    def request(self, name="default/by-hand", replica=R):
        return self.post(ev.MoveRequested(id=name, replica=replica, target="node-1", reason="test"))

    async def commit(self):
        return await self.memory.commit(self.state, acting=True)

    async def commit_all(self, rounds=50):
        """Carry one order out after the other, each after a commit; return when nothing is left."""
        for _ in range(rounds):
            await self.commit()
            if not self.orders:
                return
            self.carry_out_one(self.orders[0])
        raise AssertionError("orders without end")


class Memories:
    """Makes memories of one cluster, and looks at what they wrote; who waits for them waits in no time."""

    def __init__(self, cluster, stack):
        be_fair()
        self.cluster = cluster
        self._stack = stack
        self.api = Api(server=cluster.url, token="")

    async def loaded(self, identity="one", **changes):
        given = {"sleep": lambda _: asyncio.sleep(0.001), **changes}
        memory = ClusterMemory(self.api, identity=identity, wall=lambda: START, **given)
        state = await memory.load(SETTINGS)
        return memory, state

    async def manager(self, identity="one", **changes):
        memory, state = await self.loaded(identity, **changes)
        manager = Remembered(memory)
        if state.replicas:
            manager.state = state
        return manager

    def in_background(self, memory):
        task = asyncio.ensure_future(memory.run())
        self._stack.push_async_callback(_ended, task)
        return task

    def migration(self, name="by-hand", namespace="default"):
        return self.cluster.store.get(MIGRATIONS, (namespace, name))

    def progress(self, name="mnist-worker-0", namespace="default"):
        return self.cluster.store.get(TRAINING_PROGRESSES, (namespace, name))

    def requests(self, method, what):
        return [path for how, path in self.cluster.server.requests if how == method and what in path]

    async def until(self, holds):
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110  (a server's store has no event to wait for)
                await asyncio.sleep(0.005)


async def _ended(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
