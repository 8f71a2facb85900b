"""What sidecars are told of turns: at once where they change, and again before they are over."""

import asyncio
import time

import pytest

from specon_manager.runtime.turns_desk import LEASE_SECONDS, TurnsDesk
from specon_sidecar.slices.lease import LONGEST_LEASE, Lease
from support.decisions.gpu_shares import NOW, job, state

A, B = "default/a/worker/0", "default/b/worker/0"
LOW = 0.02
EQUAL = state(job("a", "G"), job("b", "G"))
UNEQUAL = state(job("a", "G"), job("b", "G", weight=LOW))


class Controller:
    """What is asked of one."""

    def __init__(self, known):
        self.state, self.clock = known, self

    def now(self):
        return NOW + time.monotonic()


async def test_turns_are_a_lease_that_a_sidecar_takes():
    """On the manager's clock, for a few seconds."""
    desk = TurnsDesk(Controller(UNEQUAL))
    for replica in (A, B):
        turns = await desk.answer(replica, "", 0)
        Lease(turns.period, [(turn.begin, turn.length) for turn in turns.on], turns.clock + turns.seconds)
        assert turns.id
        assert turns.seconds == LEASE_SECONDS < LONGEST_LEASE
        assert turns.clock == pytest.approx(NOW + time.monotonic(), abs=60)


async def test_without_turns_nobody_is_stopped():
    """Equal weights, or a replica that nobody knows: no turns, and no id."""
    desk = TurnsDesk(Controller(EQUAL))
    for replica in (A, "default/unknown/worker/0"):
        turns = await desk.answer(replica, "", 0)
        assert (turns.id, turns.on) == ("", ())


async def test_what_changes_is_told_at_once_and_what_does_not_once_the_time_is_over():
    """The wait of a sidecar whose turns hold is its renewal."""
    controller = Controller(UNEQUAL)
    desk = TurnsDesk(controller)
    first = await desk.answer(A, "", 30)
    again = await desk.answer(A, first.id, 0.3)
    assert again.id == first.id
    assert again.clock > first.clock
    waiting = asyncio.create_task(desk.answer(A, first.id, 60))
    await asyncio.sleep(0)
    controller.state = EQUAL
    async with asyncio.timeout(30):
        assert (await waiting).on == ()


async def test_who_ends_is_told_to_run():
    """Its pod was deleted, by whomever: it has its grace period for itself."""
    ending = set()
    desk = TurnsDesk(Controller(UNEQUAL), ending.__contains__)
    first = await desk.answer(B, "", 0)
    assert first.on
    ending.add(B)
    async with asyncio.timeout(30):
        assert (await desk.answer(B, first.id, 60)).on == ()


async def test_one_looks_for_all_who_wait_and_rarer_where_that_takes_long(monkeypatch):
    """Else the manager of many pods would do nothing else."""
    looks = []

    def long(*_):
        looks.append(time.sleep(0.3))
        return {}

    monkeypatch.setattr("specon_manager.runtime.turns_desk.turns_by_replica", long)
    desk = TurnsDesk(Controller(UNEQUAL))
    await asyncio.gather(*(desk.answer(f"default/{number}/worker/0", "", 1) for number in range(30)))
    assert len(looks) <= 2


async def test_of_those_who_waited_nothing_is_left():
    """The desk forgets them, however many asked and whatever names they gave."""
    desk = TurnsDesk(Controller(EQUAL))
    await asyncio.gather(*(desk.answer(f"default/{number}/worker/0", "", 0.1) for number in range(30)))
    while (looking := desk._looking) is not None:
        await looking
    assert not desk._news
