"""The loop around `step` and changes of jobs: nothing is done that is not on record, nor too early."""

import asyncio
import contextlib

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob, RequestCheckpoint
from specon_manager.model.resources import Resources
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Controller
from support.decisions.cluster import SETTINGS

JOB = "default/bert"
PLACE = PlaceJob(job=JOB, transaction="change-1", placement={}, grace_seconds=1.0, reason="test")
ASK = RequestCheckpoint(
    id="change-2.2",
    transaction="change-2",
    replica=f"{JOB}/worker/0",
    incarnation="uid-1",
    deadline=2e9,
    reason="test",
)


class NoMemory:
    """Remembers nothing; says which changes cannot be recorded."""

    def __init__(self, refused=()):
        self.refused = dict(refused)

    def note(self, now, event, actions):
        pass

    async def commit(self, state, *, acting):
        return self.refused


class NoBackend:
    """Tells of many nodes as it begins, and notes what it is to do."""

    def __init__(self, nodes=0):
        self.nodes, self.orders = nodes, []

    async def begin(self, state, emit):
        for index in range(self.nodes):
            emit(ev.NodeObserved(node=f"node-{index}", capacity=Resources(cpu=1.0), usage=Resources()))

    async def carry_out(self, order):
        self.orders.append(order)

    async def end(self):
        pass


def controller_of(memory, backend):
    return Controller(state=State(settings=SETTINGS), memory=memory, backend=backend, clock=Clock(0.0))


async def test_a_change_that_cannot_be_recorded_is_refused_and_not_begun():
    """Its owner is asked for nothing, no checkpoint is asked for, and `step` is told why."""
    backend = NoBackend()
    controller = controller_of(NoMemory({"change-1": "the quota is used up", "change-2": "no room"}), backend)
    controller._step = lambda event: [PLACE, ASK]
    controller.post(ev.QueuesObserved(queues=()))
    await controller._turn()
    assert list(controller._events) == [
        ev.JobRefused(job=JOB, transaction="change-1", reason="the quota is used up"),
        ev.JobRefused(job=JOB, transaction="change-2", reason="no room"),
    ]
    assert backend.orders == []
    assert controller.mailbox.open(ASK.replica, ASK.incarnation, now=0.0) == ()


async def test_no_policy_is_asked_before_everything_was_told_that_is_there():
    """More events than fit into one turn: until all of them happened the state is an earlier manager's."""
    controller = controller_of(NoMemory(), NoBackend(nodes=1200))
    happened = []
    controller.observers.append(lambda stepped: happened.append(type(stepped.event)))
    running = asyncio.create_task(controller.run("one", SETTINGS))
    async with asyncio.timeout(60):
        while ev.Tick not in happened:  # noqa: ASYNC110  (observers are told, and wake nobody)
            await asyncio.sleep(0.01)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert happened.index(ev.ManagerStarted) < happened.index(ev.Tick)
    assert happened[: happened.index(ev.Tick)].count(ev.NodeObserved) == 1200
