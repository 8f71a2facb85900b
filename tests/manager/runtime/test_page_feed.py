"""Pictures for all who watch: coalesced, bounded, with heartbeats, and with an end."""

import asyncio
import contextlib
import time

import pytest

from specon_manager.runtime.page.feed import CrowdedError, Feed


class Drawn:
    """Counts how often it was drawn, and what the newest change was then."""

    def __init__(self, **options):
        self.change = 0
        self.drawings = []
        self.feed = Feed(self._draw, **options)

    def _draw(self):
        self.drawings.append(time.monotonic())
        return str(self.change).encode()

    def happens(self):
        self.change += 1
        self.feed.tell_changed()


async def taken(events, count=1):
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]


def view(change):
    return f"event: view\ndata: {change}\n\n".encode()


async def test_a_listener_gets_the_present_picture_and_each_newer_one():
    """At once the first, then one after each change."""
    drawn = Drawn(pace=0.01)
    async with contextlib.aclosing(drawn.feed.events()) as events:
        assert await taken(events) == [view(0)]
        drawn.happens()
        assert await taken(events) == [view(1)]


async def test_changes_are_coalesced_to_the_pace():
    """A hundred changes within one pace are one picture, and pictures are no closer than the pace."""
    drawn = Drawn(pace=0.2)
    async with contextlib.aclosing(drawn.feed.events()) as events:
        await taken(events)
        for _ in range(100):
            drawn.happens()
        assert await taken(events) == [view(100)]
    first, second = drawn.drawings
    assert second - first >= 0.2


async def test_one_picture_serves_all():
    """Five who watch cost as many drawings as one."""
    drawn = Drawn(pace=0.05)
    async with contextlib.AsyncExitStack() as stack:
        watching = [
            await stack.enter_async_context(contextlib.aclosing(drawn.feed.events())) for _ in range(5)
        ]
        for _ in range(3):
            drawn.happens()
            await asyncio.gather(*(taken(events) for events in watching))
    assert len(drawn.drawings) <= 4


async def test_who_is_slow_misses_pictures_and_never_the_newest():
    """A reader that takes nothing for a while gets the current state, once."""
    drawn = Drawn(pace=0.01)
    async with (
        contextlib.aclosing(drawn.feed.events()) as slow,
        contextlib.aclosing(drawn.feed.events()) as quick,
    ):
        await taken(slow)
        await taken(quick)
        for change in range(1, 6):
            drawn.happens()
            assert await taken(quick) == [view(change)]
        assert await taken(slow) == [view(5)]


async def test_silence_is_broken_by_heartbeats():
    """Where nothing changes a comment comes, so that both sides know that the connection lives."""
    drawn = Drawn(pace=0.01, heartbeat=0.02)
    async with contextlib.aclosing(drawn.feed.events()) as events:
        assert await taken(events, 3) == [view(0), b": still here\n\n", b": still here\n\n"]


async def test_so_many_may_watch_and_no_more():
    """One more is refused; when one has gone there is room."""
    drawn = Drawn(pace=0.01, listeners=2)
    first, second, third = (drawn.feed.events() for _ in range(3))
    await taken(first)
    await taken(second)
    with pytest.raises(CrowdedError):
        await anext(third)
    await first.aclose()
    assert drawn.feed.listeners == 1
    async with contextlib.aclosing(drawn.feed.events()) as events:
        assert await taken(events) == [view(0)]
    await second.aclose()


async def test_the_end_comes_with_the_last_picture():
    """What changed just before the end is shown, whatever the pace, and the listener knows it was all."""
    drawn = Drawn(pace=60)
    events = drawn.feed.events()
    await taken(events)
    drawn.happens()
    waiting = asyncio.ensure_future(taken(events, 2))
    await asyncio.sleep(0)
    drawn.feed.end()
    assert await waiting == [view(1), b"event: end\ndata: {}\n\n"]
    with pytest.raises(StopAsyncIteration):
        await anext(events)
    assert drawn.feed.listeners == 0


@pytest.mark.parametrize(("seconds", "size", "rest"), [(0.0, 10, 0.5), (1.0, 10, 20.0), (0.0, 2**20, 4.0)])
async def test_pictures_that_cost_much_are_drawn_less_often(seconds, size, rest):
    """Drawing has a twentieth of the loop's time at most, and a listener's connection a bounded rate."""
    now = [100.0]

    def draw():
        now[0] += seconds
        return b"x" * size

    feed = Feed(draw, pace=0.5, monotonic=lambda: now[0])
    async with contextlib.aclosing(feed.events()) as events:
        await taken(events)
    assert feed._due - now[0] == pytest.approx(rest, rel=0.01)


async def test_nobody_watching_costs_nothing():
    """Nothing is drawn without a listener."""
    drawn = Drawn(pace=0.0)
    for _ in range(100):
        drawn.happens()
    drawn.feed.end()
    assert drawn.drawings == []
