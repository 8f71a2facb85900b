"""The socket for the trainer's helper: who is heard, who is asked, and that nobody harms it."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from specon_sidecar.clock import RealTime
from specon_sidecar.hook import server
from specon_sidecar.hook.messages import Progress, Refused, Saved
from specon_sidecar.hook.server import MAX_CONNECTIONS, Hook
from specon_sidecar.trainer.process import CannotAskError


class Heard:
    def __init__(self):
        self.reports: list[Progress] = []
        self.saves: list[Saved] = []
        self.left: Saved | None = None

    def on_hello(self):
        pass

    def on_report(self, progress):
        self.reports.append(progress)

    async def on_saved(self, saved):
        self.saves.append(saved)

    async def offer(self):
        return self.left


class Helper:
    """One end of a connection, as a trainer has it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def say(self, kind, **content):
        self.writer.write(json.dumps({kind: content}).encode() + b"\n")
        await self.writer.drain()

    async def hear(self):
        line = await asyncio.wait_for(self.reader.readline(), 5)
        return json.loads(line) if line else None


class World:
    def __init__(self, folder: Path):
        self.heard = Heard()
        self.path = folder / "hook" / "s"
        self.hook = Hook(self.path, self.heard, RealTime())
        self.made = []

    async def connect(self):
        """Connect, and say nothing."""
        helper = Helper(*await asyncio.open_unix_connection(str(self.path)))
        self.made.append(helper.writer)
        return helper

    async def meet(self, **hello):
        """Connect as a helper does."""
        helper = await self.connect()
        token = self.path.with_name("token").read_text().strip()
        await helper.say("hello", **{"token": token, "pid": 1, "saves": True, **hello})
        assert "welcome" in await helper.hear()
        return helper


@pytest.fixture
async def world(tmp_path_factory):
    """Yield a hook that listens."""
    made = World(tmp_path_factory.mktemp("h"))
    serving = asyncio.create_task(made.hook.serve())
    await until(made.path.exists)
    await asyncio.sleep(0.05)
    yield made
    for writer in made.made:
        writer.close()
    await asyncio.sleep(0.05)
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - of the world, which has no events
            await asyncio.sleep(0.01)


async def test_socket_and_token_are_for_any_user_of_their_folder(world):
    """A user who may enter the folder may connect and read the token: the folder's mode says who."""
    modes = [
        oct(path.stat().st_mode)[-3:]
        for path in (world.path.parent, world.path, world.path.with_name("token"))
    ]
    assert modes == ["755", "666", "644"]


async def test_reports_are_heard_of_the_lowest_rank(world):
    """Of several ranks that report the lowest counts, also where it comes last, and the next after it."""
    second = await world.meet(rank=1)
    await second.say("report", step=1)
    await until(lambda: world.heard.reports)
    first = await world.meet(rank=0)
    await first.say("report", step=2)
    await until(lambda: len(world.heard.reports) == 2)
    await second.say("report", step=3)
    await first.say("report", step=4)
    await until(lambda: len(world.heard.reports) == 3)
    first.writer.close()
    await until(lambda: len(world.hook._peers) == 1)
    await second.say("report", step=5)
    await until(lambda: len(world.heard.reports) == 4)
    assert [one.step for one in world.heard.reports] == [1, 2, 4, 5]


async def test_one_is_asked_and_all_are_held(world):
    """The lowest rank that saves is asked, once; holds and releases go to all; its word is the answer."""
    first, second = await world.meet(rank=0), await world.meet(rank=1)
    world.hook.ask("one", 30.0)
    world.hook.ask("one", 30.0)
    world.hook.hold("one")
    world.hook.release("one")
    assert [next(iter(await first.hear())) for _ in range(3)] == ["checkpoint", "hold", "release"]
    assert [next(iter(await second.hear())) for _ in range(2)] == ["hold", "release"]
    assert world.hook.answer("one") is None
    await first.say("saved", path="/c", step=3, request="one")
    await until(lambda: world.hook.answer("one"))
    assert world.hook.answer("one") == Saved("/c", 3, "one")


async def test_refusal_is_an_answer(world):
    """Why it could not save is told in the trainer's words."""
    first = await world.meet()
    world.hook.ask("one", 0)
    await first.say("refused", request="one", reason="disk full")
    await until(lambda: world.hook.answer("one"))
    assert world.hook.answer("one") == Refused("one", "disk full")


async def test_answer_to_what_nobody_asked_is_none(world):
    """Only the request that is in flight is answered."""
    first = await world.meet()
    await first.say("saved", path="/c", step=3, request="other")
    await until(lambda: world.heard.saves)
    assert world.hook.answer("other") is None


async def test_another_is_asked_where_the_first_is_gone(world):
    """A trainer that started anew is asked in its place."""
    first = await world.meet()
    world.hook.ask("one", 0)
    first.writer.close()
    await until(lambda: not world.hook._peers)
    with pytest.raises(CannotAskError, match="not connected"):
        world.hook.ask("one", 0)
    again = await world.meet(pid=2)
    world.hook.ask("one", 0)
    assert (await again.hear())["checkpoint"]["request"] == "one"


async def test_why_nobody_can_be_asked_is_said(world):
    """Nobody ever there, and somebody who does not look for requests, are different reasons."""
    with pytest.raises(CannotAskError, match=r"never reported.*python -I.*mpirun"):
        world.hook.ask("one", 0)
    await world.meet(saves=False)
    with pytest.raises(CannotAskError, match=r"specon\.checkpoint_requested"):
        world.hook.ask("one", 0)


async def test_what_was_left_is_offered_to_the_first_program_of_a_rank(world):
    """A program that comes later in the same rank never wrote that checkpoint, and begins by itself."""
    world.heard.left = Saved("/c/9", 9)
    token = world.path.with_name("token").read_text().strip()
    offers = []
    for pid in (1, 1, 2):
        helper = await world.connect()
        await helper.say("hello", token=token, pid=pid)
        offers.append((await helper.hear())["welcome"]["resume"])
        helper.writer.close()
    assert offers == [{"path": "/c/9", "step": 9}, {"path": "/c/9", "step": 9}, None]


async def test_ranks_that_are_made_up_are_not_remembered_without_end(world, monkeypatch):
    """A client that connects again and again under new ranks takes no more memory than the most ranks do."""
    monkeypatch.setattr(server, "_MOST_RANKS", 3)
    world.heard.left = Saved("/c/9", 9)
    token = world.path.with_name("token").read_text().strip()
    offers = []
    for rank in (0, 1, 2, 3, 4, 1):
        helper = await world.connect()
        await helper.say("hello", token=token, pid=7, rank=rank)
        offers.append((await helper.hear())["welcome"]["resume"] is not None)
        helper.writer.close()
    assert offers == [True, True, True, False, False, True]
    assert len(world.hook._offered) == 3


@pytest.mark.parametrize(
    "first",
    [
        b'{"hello": {"token": "wrong"}}\n',
        b'{"hello": {"token": "\\ud800"}}\n',
        b'{"report": {"step": 1}}\n',
        b"nonsense\n",
        b"\n",
    ],
)
async def test_without_the_token_nobody_is_heard(world, first):
    """A client that does not show it first is sent away, and told nothing."""
    helper = await world.connect()
    helper.writer.write(first + b'{"report": {"step": 1}}\n')
    assert await asyncio.wait_for(helper.reader.read(), 5) == b""
    assert not world.heard.reports
    assert not world.hook.spoke


async def test_endless_line_is_cut_off(world):
    """A line without an end takes bounded memory, and its sender is sent away; others go on."""
    other = await world.meet()
    helper = await world.connect()
    with contextlib.suppress(OSError):
        for _ in range(1000):  # of a gigabyte, as far as it is taken
            helper.writer.write(b"x" * 1_000_000)
            await asyncio.wait_for(helper.writer.drain(), 1)
    helper.writer.transport.abort()
    await other.say("report", step=1)
    await until(lambda: world.heard.reports)


async def test_more_connections_than_the_bound_are_sent_away(world):
    """So many are heard at once; the next is not."""
    for rank in range(MAX_CONNECTIONS):
        await world.meet(rank=rank)
    late = await world.connect()
    assert await asyncio.wait_for(late.reader.read(), 5) == b""


async def test_flood_is_read_slowly_and_others_are_heard(world):
    """10,000 messages a second are taken at a bounded pace; another rank is heard meanwhile."""
    flood = await world.meet(rank=1)
    flood.writer.write(b'{"report": {"step": 1, "values": {"loss": 1.0}}}\n' * 10_000)
    await asyncio.sleep(0.5)
    assert len(world.heard.reports) < 500
    other = await world.meet(rank=0)
    await other.say("report", step=7)
    await until(lambda: any(one.step == 7 for one in world.heard.reports))
    flood.writer.transport.abort()


async def test_who_reads_nothing_is_sent_away(world):
    """What waits for somebody who does not read is bounded."""
    deaf = await world.meet()
    for _ in range(20_000):
        world.hook.hold("one")
    await until(lambda: not world.hook._peers)
    deaf.writer.transport.abort()


async def test_socket_of_the_sidecar_before_is_replaced(tmp_path_factory):
    """A sidecar that starts anew listens at the same place; a file of another kind is left alone."""
    path = tmp_path_factory.mktemp("h") / "s"
    for _ in range(2):
        serving = asyncio.create_task(Hook(path, Heard(), RealTime()).serve())
        await until(path.exists)
        await asyncio.sleep(0.05)
        assert not serving.done()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    path.unlink(missing_ok=True)
    path.write_text("mine")
    with pytest.raises(OSError, match="no socket"):
        await Hook(path, Heard(), RealTime()).serve()
