"""The clock by which tests in one event loop wait, and those who ask for the time."""

import asyncio
import inspect
import socket
import threading
import time

import pytest

from specon_manager.backends.kube.transport.reflector import Reflector
from support.clocks.fair_time import be_fair, fair_now

HOUR = 3600.0
BLOCKED = threading.Lock()


@pytest.fixture
async def fair():
    """Have the clock in the loop of the test."""
    be_fair()


@pytest.mark.usefixtures("fair")
async def test_whoever_waits_for_nothing_but_time_has_it_at_once():
    """An hour passes by each clock, and hardly any of the processor's."""
    worked, before = time.process_time(), (fair_now(), time.monotonic(), time.time())
    await asyncio.sleep(HOUR)
    after = (fair_now(), time.monotonic(), time.time())
    passed = [now - then for now, then in zip(after, before, strict=True)]
    assert passed == pytest.approx([HOUR] * 3, abs=1.0)
    assert time.process_time() - worked < 1.0


@pytest.mark.usefixtures("fair")
async def test_what_has_the_clock_by_default_is_told_by_it():
    """The clock is in place before the manager is imported."""
    clock = inspect.signature(Reflector).parameters["monotonic"].default
    before = clock()
    await asyncio.sleep(HOUR)
    assert clock() - before == pytest.approx(HOUR, abs=1.0)


@pytest.mark.usefixtures("fair")
async def test_a_message_comes_before_time_passes():
    """Nobody waits in vain for what was sent already."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    before = fair_now()
    theirs.send(b"x")
    async with asyncio.timeout(HOUR):
        assert await reader.read(1) == b"x"
    assert fair_now() - before < 1.0
    theirs.close()
    writer.close()


@pytest.mark.usefixtures("fair")
async def test_time_passes_no_faster_than_a_thread_works():
    """A timeout of the loop is not over before the thread had that time."""

    def work() -> str:
        BLOCKED.acquire()
        BLOCKED.acquire(timeout=0.3)
        BLOCKED.release()
        return "done"

    async with asyncio.timeout(20):
        assert await asyncio.to_thread(work) == "done"


@pytest.mark.usefixtures("fair")
async def test_work_counts_as_the_processor_time_that_it_took():
    """Whatever else has the processor meanwhile."""
    before = fair_now()
    BLOCKED.acquire()
    BLOCKED.acquire(timeout=0.5)
    BLOCKED.release()
    assert fair_now() - before < 0.4


@pytest.mark.usefixtures("fair")
async def test_to_another_thread_it_does_not_go_back():
    """It may ask at any moment."""
    told: list[float] = []

    def ask() -> None:
        told.extend(time.monotonic() for _ in range(1000))

    await asyncio.sleep(HOUR)
    told.append(fair_now())
    await asyncio.to_thread(ask)
    assert told == sorted(told)


def test_without_such_a_loop_the_clock_is_the_machine_s():
    """What a test let pass is not kept beyond it."""

    async def hour() -> None:
        be_fair()
        await asyncio.sleep(HOUR)

    before = time.monotonic(), time.time()
    asyncio.run(hour())
    assert time.monotonic() - before[0] < HOUR / 2
    assert time.time() - before[1] < HOUR / 2
