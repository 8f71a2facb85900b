import asyncio
from random import Random

import pytest
from aiohttp import web

from specon_sidecar.classify import Category
from specon_sidecar.reporting.client import Client
from specon_sidecar.reporting.links import Instructed, Reporter
from specon_sidecar.reporting.outbox import Outbox, OutboxSettings
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import (
    Acknowledgement,
    Instructions,
    IntervalInstruction,
    Report,
    StopInstruction,
    decode_acknowledgement,
    decode_report,
    encode,
)

REPLICA = "ns/job/worker/0"
REPORT = Report(
    schema=1, replica=REPLICA, incarnation="uid", session="s", sequence=1, category=Category.WATCHING
)
ACK = Acknowledgement(schema=1, replica=REPLICA, incarnation="uid", id="i1", done=True)


class FakeManager:
    """An HTTP server in this process; `answers` are taken in order, then 200."""

    def __init__(self):
        self.reports, self.acknowledgements, self.queries, self.tokens = [], [], [], []
        self.answers = []
        self.instructions = b'{"schema":1}'
        self.url = ""

    async def start(self):
        app = web.Application()
        app.router.add_post("/v1/reports", self._report)
        app.router.add_post("/v1/acknowledgements", self._acknowledge)
        app.router.add_get("/v1/instructions", self._instruct)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    def _answer(self, request):
        self.tokens.append(request.headers.get("Authorization"))
        answer = self.answers.pop(0) if self.answers else 200
        if answer == "lost":
            request.transport.close()
            return web.Response()
        headers = {"Location": "http://127.0.0.1:1/"} if answer == 302 else None
        return web.Response(status=answer, headers=headers)

    async def _report(self, request):
        self.reports.append(decode_report(await request.read()))
        return self._answer(request)

    async def _acknowledge(self, request):
        self.acknowledgements.append(decode_acknowledgement(await request.read()))
        return self._answer(request)

    async def _instruct(self, request):
        self.queries.append(dict(request.query))
        answer = self._answer(request)
        return web.Response(body=self.instructions) if answer.status == 200 else answer


@pytest.fixture
async def manager():
    fake = FakeManager()
    await fake.start()
    yield fake
    await fake.runner.cleanup()


@pytest.fixture
async def client(manager, tmp_path):
    (tmp_path / "token").write_text("secret-1\n")
    async with Client(
        manager.url, replica=REPLICA, incarnation="uid", token_file=str(tmp_path / "token")
    ) as connected:
        yield connected


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (200, Outcome.DELIVERED),
        (204, Outcome.DELIVERED),
        (302, Outcome.LOST),
        (400, Outcome.REFUSED),
        (401, Outcome.LOST),
        (403, Outcome.LOST),
        (408, Outcome.LOST),
        (410, Outcome.GONE),
        (422, Outcome.REFUSED),
        (429, Outcome.LOST),
        (500, Outcome.LOST),
        (503, Outcome.LOST),
        ("lost", Outcome.LOST),
    ],
)
async def test_answers_decide_what_becomes_of_a_message(manager, client, answer, outcome):
    """Only a clear no drops a message, only 410 ends the reporting; all else is tried again."""
    manager.answers = [answer]
    assert await client.report(REPORT) is outcome
    assert manager.reports[0] == REPORT


async def test_messages_arrive_as_they_are(manager, client):
    """Acknowledgements and reports reach their own addresses, unchanged."""
    await client.acknowledge(ACK)
    assert manager.acknowledgements == [ACK]


async def test_instructions_are_asked_for_with_what_is_known(manager, client):
    """The query names the replica, its incarnation, the wait and the ids that are known."""
    wanted = Instructions(schema=1, instructions=(StopInstruction(id="i3"),))
    manager.instructions = encode(wanted)
    assert await client.instructions(("i1", "i2"), wait=0.5) == (Outcome.DELIVERED, wanted.instructions)
    assert manager.queries == [{"replica": REPLICA, "incarnation": "uid", "wait": "0.5", "known": "i1,i2"}]


@pytest.mark.parametrize("body", [b"not JSON", b'{"schema":2}', b"[" * 70000, b" " * 70000])
async def test_an_answer_that_is_not_understood_is_as_good_as_none(manager, client, body):
    """Garbage, another version or too long a body never raise."""
    manager.instructions = body
    assert await client.instructions() == (Outcome.LOST, ())


async def test_the_token_is_read_anew_when_it_changes(manager, client, tmp_path):
    """Projected tokens rotate: the next message shows the new one."""
    await client.report(REPORT)
    (tmp_path / "new").write_text("secret-22")
    (tmp_path / "new").replace(tmp_path / "token")
    await client.report(REPORT)
    (tmp_path / "token").unlink()
    await client.report(REPORT)
    assert manager.tokens == ["Bearer secret-1", "Bearer secret-22", "Bearer secret-22"]


async def test_trouble_is_logged_once_and_without_the_token(manager, client, caplog):
    """A manager that is away for a day fills no log, and nothing secret is told."""
    manager.answers = [500, 500, 403, "lost"]
    for _ in range(4):
        await client.report(REPORT)
    messages = [record.getMessage() for record in caplog.records]
    assert sum("status 500" in message for message in messages) == 1
    assert not any("secret" in message for message in messages)


async def test_a_token_that_is_no_header_is_not_sent(manager, client, tmp_path, caplog):
    """A token file with several lines is told of, by name only."""
    (tmp_path / "token").write_text("secret\r\nX-Other: 1\n")
    await client.report(REPORT)
    assert manager.tokens == [None]
    assert "token file" in caplog.text
    assert "X-Other" not in caplog.text


async def test_a_manager_that_is_away_raises_nothing(client, manager):
    """Connection refused is an outcome like any other."""
    await manager.runner.cleanup()
    assert await client.report(REPORT) is Outcome.LOST
    assert await client.instructions() == (Outcome.LOST, ())


async def test_a_late_answer_is_no_answer(monkeypatch):
    """Every call is bounded in time."""
    monkeypatch.setattr("specon_sidecar.reporting.client._SEND_SECONDS", 0.3)
    sending, release = asyncio.Event(), asyncio.Event()

    async def never(_request):
        sending.set()
        await release.wait()
        return web.Response()

    server = web.AppRunner(web.Application())
    server.app.router.add_post("/v1/reports", never)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{server.addresses[0][1]}"
    async with Client(url, replica=REPLICA, incarnation="uid") as slow:
        assert await slow.report(REPORT) is Outcome.LOST
    assert sending.is_set()
    release.set()
    await server.cleanup()


class VirtualTime:
    """Sleeping takes no time, and is counted."""

    def __init__(self):
        self.time, self.slept = 0.0, []

    def now(self):
        return self.time

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Script:
    """A manager whose outcomes and instructions are given; it is gone when they end."""

    def __init__(self, outcomes=(), polls=()):
        self.outcomes, self.polls = list(outcomes), list(polls)
        self.reports, self.acknowledged, self.ages, self.known = [], [], [], []

    async def report(self, report):
        self.reports.append(report)
        return self.outcomes.pop(0) if self.outcomes else Outcome.GONE

    async def acknowledge(self, acknowledgement):
        self.acknowledged.append(acknowledgement.id)
        self.ages.append(acknowledgement.age)
        return self.outcomes.pop(0) if self.outcomes else Outcome.DELIVERED

    async def instructions(self, known, *, wait):
        self.known.append(known)
        await asyncio.sleep(0)
        return self.polls.pop(0) if self.polls else (Outcome.GONE, ())


async def test_reporter_sends_a_lost_report_again_and_then_heartbeats():
    """The same number again after a loss, the next one at the heartbeat, and none after 410."""
    script = Script([Outcome.LOST, Outcome.DELIVERED, Outcome.GONE])
    clock = VirtualTime()
    await Reporter(script, Outbox(OutboxSettings(), Random(1)), lambda _: REPORT, clock).run()
    assert [report.sequence for report in script.reports] == [1, 1, 2]
    assert clock.now() >= 10.0


def instructed(script, clock, carried):
    async def carry_out(instruction):
        carried.append(instruction.id)
        return Acknowledgement(schema=1, replica=REPLICA, incarnation="uid", id=instruction.id, done=True)

    return Instructed(script, carry_out, clock, Random(1))


async def test_instructions_are_carried_out_and_acknowledged_until_taken():
    """A lost acknowledgement is sent again; the instruction is not carried out again for it."""
    given = (IntervalInstruction(id="i1", seconds=2.0),)
    idle = [(Outcome.DELIVERED, ())] * 6
    script = Script([Outcome.LOST, Outcome.LOST], [(Outcome.DELIVERED, given), *idle])
    carried = []
    await instructed(script, VirtualTime(), carried).run()
    assert carried == ["i1"]
    assert script.acknowledged == ["i1"] * 3
    assert script.known[1] == ("i1",)


async def test_an_answer_that_was_not_taken_is_older_when_it_is_sent_again():
    """A manager that was away knows how long ago the checkpoint was known."""
    given = (IntervalInstruction(id="i1", seconds=2.0),)
    idle = [(Outcome.DELIVERED, ())] * 6
    script = Script([Outcome.LOST] * 5, [(Outcome.DELIVERED, given), *idle])
    clock = VirtualTime()
    await instructed(script, clock, []).run()
    assert len(script.ages) >= 5
    assert script.ages[0] == 0.0
    assert script.ages == sorted(set(script.ages))
    assert script.ages[-1] <= clock.now()


async def test_a_manager_that_does_not_wait_is_not_hammered():
    """Answers without news are at least a second apart, failures back off."""
    script = Script(polls=[(Outcome.DELIVERED, ())] * 3 + [(Outcome.LOST, ())] * 3)
    clock = VirtualTime()
    await instructed(script, clock, []).run()
    assert clock.slept[:3] == [1.0] * 3
    assert len(clock.slept) == 6
