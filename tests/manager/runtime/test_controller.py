"""The loop around `step`: order, durability, failures of the backend."""

import asyncio
import itertools
import time

import pytest

from specon_manager.backends.base import NotLeadingError
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    EvictReplica,
    HoldRoom,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Settings
from specon_manager.runtime.journal import first_difference, recover
from specon_sidecar.classify import Category
from specon_sidecar.wire import Observation, Report
from support.decisions.cluster import replica_of
from support.decisions.snapshots import cluster_of

A = replica_of("a")


def job(name):
    return JobSpec(name=f"default/{name}", replicas=(replica_of(name),))


def start(replica=A, number=1):
    return StartReplica(replica=replica, start=number, node="node-0", template={}, reason="test")


def evict(replica=A):
    return EvictReplica(replica=replica, incarnation="0001", grace_seconds=1, reason="test")


async def _nothing(order):
    """Carry an order out without a word."""


async def drained(controller):
    """Wait until every order was carried out."""
    async with asyncio.timeout(60):
        while tasks := list(controller._tasks):
            await asyncio.wait(tasks)


async def test_what_led_to_an_order_is_on_disk_before_the_order_is_carried_out(manager):
    """A manager that is killed while it carries an order out finds the order in its journal."""
    seen = []

    async def carry(order):
        lines = manager.path.read_bytes().splitlines()
        seen.append([line for line in lines if f'"start":{order.start}'.encode() in line])
        recovered = recover(manager.path)
        assert recovered is not None
        assert recovered.state.replicas[order.replica].starts == order.start
        await manager.backend.succeed(order)

    manager.backend.carry = carry
    await manager.running("a")
    (lines,) = seen
    assert len(lines) == 1


async def test_the_journal_replays_what_the_controller_did(manager):
    """The controller adds nothing to `step`: a replay orders the same and ends in the same state."""
    await manager.running("a", "b")
    manager.backend.emit(ev.ReplicaGone(replica=A, incarnation="0001", exit_code=0))
    await manager.until(lambda state: state.replicas[A].phase is Phase.SUCCEEDED)
    manager.journal.sync()
    steps, difference = first_difference(manager.path)
    assert difference is None
    assert steps == len(manager.steps)
    recovered = recover(manager.path)
    assert recovered is not None
    assert recovered.state == manager.controller.state


async def test_orders_on_one_replica_wait_for_each_other(manager):
    """An eviction and the start after it do not overtake; orders on other replicas do not wait."""
    gate = asyncio.Event()
    log = []

    async def carry(order):
        log.append(("begin", type(order).__name__, order.replica))
        if isinstance(order, EvictReplica):
            await gate.wait()
        log.append(("end", type(order).__name__, order.replica))

    manager.backend.carry = carry
    manager.controller._dispatch(evict(A))
    manager.controller._dispatch(start(A, 2))
    manager.controller._dispatch(start("default/b/worker/0"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert log == [
        ("begin", "EvictReplica", A),
        ("begin", "StartReplica", "default/b/worker/0"),
        ("end", "StartReplica", "default/b/worker/0"),
    ]
    gate.set()
    await drained(manager.controller)
    assert log[-3:] == [
        ("end", "EvictReplica", A),
        ("begin", "StartReplica", A),
        ("end", "StartReplica", A),
    ]
    assert not manager.controller._last


async def test_an_order_that_fails_does_not_keep_the_next_from_its_turn(manager):
    """A failed eviction is over too."""

    async def carry(order):
        if isinstance(order, EvictReplica):
            raise OSError("the node does not answer")

    manager.backend.carry = carry
    manager.controller._dispatch(evict(A))
    manager.controller._dispatch(start(A, 2))
    await drained(manager.controller)
    assert [type(order) for order in manager.backend.orders] == [EvictReplica, StartReplica]


async def test_an_exception_of_a_start_is_a_refused_start(manager):
    """Whatever the backend runs into becomes an event, with the words of the exception."""

    async def carry(order):
        raise RuntimeError("no such image")

    manager.backend.carry = carry
    manager.controller.post(ev.JobSubmitted(job("a")))
    await manager.until(lambda state: A in state.replicas and state.replicas[A].crashes == 1)
    refused = [stepped.event for stepped in manager.steps if isinstance(stepped.event, ev.StartRefused)]
    assert refused == [ev.StartRefused(replica=A, start=1, reason="RuntimeError: no such image")]
    assert manager.controller.state.replicas[A].note == "crash 1: RuntimeError: no such image"


@pytest.mark.parametrize("order_fails", [True, False])
async def test_an_exception_of_holding_room_is_refused_room(manager, order_fails):
    """Only an order whose failure means something to `step` leads to an event."""
    hold = HoldRoom(
        transaction="move-1",
        replica="default/a/worker/0",
        node="node-0",
        requests=Resources(),
        reason="test",
    )
    release = ReleaseRoom(transaction="move-1", replica="default/a/worker/0", node="node-0", reason="test")

    async def carry(order):
        raise ValueError("full")

    manager.backend.carry = carry
    manager.controller._dispatch(hold if order_fails else release)
    await drained(manager.controller)
    manager.controller.post(ev.JobSubmitted(job("a")))
    await manager.until(lambda state: A in state.replicas)
    told = [stepped.event for stepped in manager.steps if isinstance(stepped.event, ev.RoomRefused)]
    refused = ev.RoomRefused(transaction="move-1", replica=A, reason="ValueError: full")
    assert told == ([refused] if order_fails else [])


async def test_requests_go_to_the_mailbox_and_not_to_the_backend(manager):
    """Checkpoints are the sidecars' business."""
    request = RequestCheckpoint(
        id="move-1.2", transaction="move-1", replica=A, incarnation="0001", deadline=2e9, reason="test"
    )
    manager.controller._dispatch(request)
    assert manager.controller.mailbox.open(A, "0001", now=0.0)
    manager.controller._dispatch(WithdrawRequest(id="move-1.2", replica=A, reason="test"))
    assert not manager.controller.mailbox.open(A, "0001", now=0.0)
    assert not manager.backend.orders


async def test_a_tick_comes_by_itself(manager_of):
    """Deadlines are looked at though nothing happens."""
    async with manager_of(Settings(policy="specon", tick=0.01)) as manager:
        seen = len(_ticks(manager))
        await manager.until(lambda state: len(_ticks(manager)) >= seen + 3)


async def test_a_flood_of_events_does_not_hold_up_the_tick(manager_of):
    """Reports alone call for no Tick, but time does, however many come."""
    async with manager_of(Settings(policy="specon", tick=0.01)) as manager:
        stop = asyncio.Event()

        async def flood():
            while not stop.is_set():
                capacity = Resources(cpu=1)
                manager.controller.post(
                    ev.NodeObserved(node="node-0", capacity=capacity, usage=Resources(cpu=len(manager.steps)))
                )
                await asyncio.sleep(0)

        flooding = asyncio.ensure_future(flood())
        seen = len(_ticks(manager))
        await manager.until(lambda state: len(_ticks(manager)) >= seen + 3)
        stop.set()
        await flooding


async def test_what_matters_to_the_policy_is_followed_by_a_tick_at_once(manager):
    """A submitted job does not wait for the next regular Tick, which is 1000 s away."""
    await manager.running("a")
    assert manager.controller.state.replicas[A].node == "node-0"


async def test_what_waits_for_another_move_begins_at_its_end(manager_of):
    """The budget of moves at once is free then, and the next regular Tick is 1000 s away."""
    settings = Settings(policy="fifo", tick=1000.0, budgets=Budgets(moves_at_once=1))
    state = cluster_of({"node-0": "cc", "node-1": ""}, settings=settings)
    async with manager_of(settings, state) as manager:
        manager.backend.carry = _nothing
        for name in ("c0", "c1"):
            asked = ev.MoveRequested(id=name, replica=replica_of(name), target="node-1", reason="test")
            manager.controller.post(asked)
        await manager.until(lambda state: list(state.requests) == ["c1"])
        refused = ev.RoomRefused(transaction="c0", replica=replica_of("c0"), reason="full")
        manager.controller.post(refused)
        await manager.until(lambda state: list(state.transactions) == ["c1"])


async def test_more_events_than_one_batch_are_all_looked_at_in_their_order(manager):
    """The loop takes a bounded number at a time and leaves none."""
    count = 1201
    for number in range(count):
        usage = Resources(cpu=number)
        manager.controller.post(ev.NodeObserved(node="node-0", capacity=Resources(cpu=1), usage=usage))
    await manager.until(lambda state: state.nodes["node-0"].usage.cpu == count - 1)
    seen = [
        stepped.event.usage.cpu
        for stepped in manager.steps
        if isinstance(stepped.event, ev.NodeObserved) and stepped.event.node == "node-0"
    ]
    assert seen[-count:] == [float(number) for number in range(count)]


async def test_observers_see_every_step_once(manager):
    """Before, after, event, actions and time of each; each begins where the last ended."""
    await manager.running("a")
    for earlier, later in zip(manager.steps, manager.steps[1:], strict=False):
        assert later.before is earlier.after
        assert later.now >= earlier.now
        assert later.seconds >= 0
    assert manager.steps[-1].after is manager.controller.state


async def test_a_manager_is_ready_only_after_it_took_over(tmp_path, manager_of):
    """Before the backend has begun and the state is taken over, nobody should send it anything."""
    async with manager_of() as manager:
        await manager.until(lambda state: True)
        assert manager.backend.begun == 1
        started = [s.event for s in manager.steps if isinstance(s.event, ev.ManagerStarted)]
        assert started == [ev.ManagerStarted("test", manager.settings)]
        await asyncio.sleep(0)
    assert not manager.controller.ready
    assert manager.backend.over == 1


async def test_a_manager_that_ends_drops_what_it_was_carrying_out(manager_of):
    """Nothing hangs: an order that never ends is cancelled with the manager."""
    cancelled = []
    begun = asyncio.Event()

    async def carry(order):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(order)
            raise

    async with manager_of() as manager:
        manager.backend.carry = carry
        manager.controller.post(ev.JobSubmitted(job("a")))
        await asyncio.wait_for(begun.wait(), 60)
    assert cancelled == manager.backend.orders


async def test_a_backend_that_cannot_begin_ends_the_manager(manager_of):
    """The failure is the caller's to see; it is not swallowed by the loop."""
    manager = manager_of.made()

    async def fail(state, emit):
        raise OSError("no such cluster")

    manager.backend.begin = fail
    with pytest.raises(OSError, match="no such cluster"):
        await manager.controller.run("test", manager.settings)
    assert not manager.controller.ready
    manager.journal.close()


async def test_a_restarted_manager_gives_the_orders_again_that_were_in_flight(manager_of, tmp_path):
    """What was ordered and not carried out is ordered by the next manager, with the same number."""

    async def lose(order):
        await asyncio.Event().wait()

    async with manager_of() as first:
        first.backend.carry = lose
        first.controller.post(ev.JobSubmitted(job("a")))
        await first.until(lambda state: A in state.replicas and state.replicas[A].phase is Phase.STARTING)
    recovered = recover(first.path)
    assert recovered is not None
    assert recovered.state == first.controller.state
    async with manager_of(state=recovered.state) as second:
        await second.until(lambda state: state.replicas[A].phase is Phase.RUNNING)
    assert [order.start for order in second.backend.orders] == [1]


def _ticks(manager):
    return [stepped for stepped in manager.steps if isinstance(stepped.event, ev.Tick)]


@pytest.mark.parametrize("where", ["memory", "backend"])
async def test_a_manager_that_was_deposed_ends_and_orders_nothing_more(manager_of, where, caplog):
    """Whether its memory or its backend finds out first, the caller sees it and no event is made of it.

    Its log does not name an order that was never given.
    """
    caplog.set_level("INFO")
    manager = manager_of.made()

    async def depose(*arguments, **named):
        raise NotLeadingError("another one leads")

    if where == "memory":
        manager.controller._memory.commit = depose
    else:
        manager.backend.carry = depose
    manager.controller.post(ev.JobSubmitted(job("a")))
    async with asyncio.timeout(60):
        with pytest.raises(NotLeadingError, match="another one leads"):
            await manager.controller.run("test", manager.settings)
    assert len(manager.backend.orders) == (where == "backend")
    assert ("StartReplica" in caplog.text) == (where == "backend")
    assert not any(isinstance(stepped.event, ev.StartRefused) for stepped in manager.steps)
    assert manager.backend.over == 1
    manager.journal.close()


async def test_a_move_that_cannot_be_recorded_is_refused_and_not_begun(manager):
    """Its room is not held, and `step` is told why, in the words of the memory."""
    await manager.running("a")
    commit = manager.controller._memory.commit

    async def refuse(state, *, acting):
        await commit(state, acting=acting)
        return dict.fromkeys(state.transactions, "the quota is used up")

    manager.controller._memory.commit = refuse
    manager.backend.orders.clear()
    manager.controller.post(ev.ReportReceived(report_of(A, step=10)))
    manager.controller.post(ev.MoveRequested(id="default/x", replica=A, target="node-1"))
    await manager.until(lambda state: state.history)
    assert manager.controller.state.history[-1].note == "the quota is used up"
    await drained(manager.controller)
    assert not any(isinstance(order, HoldRoom) for order in manager.backend.orders)


def report_of(replica, *, step):
    last = Observation(name="loss", value=1.0, age=0.0, step=step)
    return Report(
        schema=1,
        replica=replica,
        incarnation="0001",
        session="s",
        sequence=1,
        category=Category.PROGRESSING,
        first=last,
        last=last,
    )


async def test_thousands_of_events_leave_others_their_turns(manager):
    """While a memory with nothing to wait for commits batch after batch, others get their turn."""

    class Instant:
        def note(self, now, event, actions):
            pass

        async def commit(self, state, *, acting):
            return {}

    manager.controller._memory = Instant()
    turns, last = 0, "node-2999"
    for number in range(3000):
        capacity = Resources(cpu=1, memory=8e9)
        manager.controller.post(ev.NodeObserved(node=f"node-{number}", capacity=capacity, usage=Resources()))
    async with asyncio.timeout(60):
        while last not in manager.controller.state.nodes:
            turns += 1
            await asyncio.sleep(0)
    assert turns >= 3000 // 500


async def test_after_a_long_tick_the_next_one_waits_four_times_as_long(manager):
    """A burst of events is no burst of Ticks: else the server would answer nobody meanwhile."""
    burnt, ticks = 0.03, []

    def burn(stepped):
        if isinstance(stepped.event, ev.Tick):
            ticks.append(time.perf_counter())
            until = time.thread_time() + burnt
            while time.thread_time() < until:
                pass

    await drained(manager.controller)
    manager.controller.observers.append(burn)
    jobs = iter(range(1000))
    async with asyncio.timeout(60):
        while len(ticks) < 4:
            manager.controller.post(ev.JobSubmitted(job(f"j{next(jobs)}")))
            await asyncio.sleep(0.002)
    assert min(later - earlier for earlier, later in itertools.pairwise(ticks)) >= 4 * burnt


async def test_deadlines_that_passed_while_the_manager_was_frozen_begin_again(manager_of):
    """What answers a request in time lies unread at its sockets then."""
    given, observed = (Queue(name="team", quota=Resources(cpu=cpu)) for cpu in (64, 4))
    settings = Settings(policy="fifo", tick=1.0, queues=(given,))
    state = cluster_of({"node-0": "c", "node-1": ""}, settings=settings)
    frozen = []
    async with manager_of(state.settings, state) as manager:
        manager.controller.clock._monotonic = lambda: time.monotonic() + sum(frozen)
        asked = ev.MoveRequested(id="m", replica=replica_of("c0"), target="node-1", reason="test")
        await manager.until(lambda _: manager.controller._taken_over)
        manager.controller.post(ev.QueuesObserved(queues=(observed,)))
        manager.controller.post(asked)
        await manager.until(lambda state: "m" in state.transactions and state.transactions["m"].request)
        while not manager.controller._woken._waiters:  # noqa: ASYNC110  (nobody says that it waits)
            await asyncio.sleep(0)
        deadline = manager.controller.state.transactions["m"].deadline
        frozen.append(deadline + 1 - manager.controller.clock.now())
        manager.controller.post(ev.Tick())
        await manager.until(
            lambda _: isinstance((last := manager.steps[-1]).event, ev.Tick) and last.now > deadline
        )
        assert manager.controller.state.transactions["m"].deadline > deadline
        assert manager.controller.state.queues == {"team": observed}


async def test_a_slow_record_is_no_standstill(manager_of):
    """Else each deadline that is set again would have to be written, which takes as long again."""
    async with manager_of(Settings(policy="fifo", tick=0.01)) as manager:
        slow = []
        manager.controller.clock._monotonic = lambda: time.monotonic() + sum(slow)
        commit = manager.controller._memory.commit

        async def write(state, *, acting):
            slow.append(12.0)
            return await commit(state, acting=acting)

        manager.controller._memory.commit = write
        seen = len(_ticks(manager))
        await manager.until(lambda _: len(_ticks(manager)) >= seen + 3)
        assert sum(isinstance(stepped.event, ev.ManagerStarted) for stepped in manager.steps) == 1
