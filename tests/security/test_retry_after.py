"""The sidecar keeps silent for as long as a busy manager asks it to, and no longer than a minute."""

import math

import pytest
from aiohttp import web

from specon_sidecar.classify import Category
from specon_sidecar.reporting import client as client_module
from specon_sidecar.reporting.client import Client
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import Report

REPORT = Report(
    schema=1, replica="ns/a/worker/0", incarnation="x", session="s", sequence=1, category=Category.WATCHING
)


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
async def told(monkeypatch):
    """Return a function that lets a manager answer with a header once; then it is content."""
    clock = Clock()
    monkeypatch.setattr(client_module, "time", clock)
    calls = []

    async def answer(request):
        await request.read()
        calls.append(clock.now)
        status, header = answers.pop(0) if answers else (204, None)
        return web.Response(status=status, headers={} if header is None else {"Retry-After": header})

    answers = []
    application = web.Application()
    application.router.add_post("/v1/reports", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def silent_for(status, header):
        answers.append((status, header))
        async with Client(url, replica=REPORT.replica, incarnation="x") as client:
            assert await client.report(REPORT) is Outcome.LOST
            begun = clock.now
            while await client.report(REPORT) is Outcome.LOST:
                clock.now += 1
        # One call at each end of the silence, and none within.
        assert len(calls) % 2 == 0
        return clock.now - begun

    yield silent_for
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, "7", 7),
        (503, "2", 2),
        (429, "99999999999999", 60),
        (429, None, 0),
        (429, "soon", 0),
        (429, "-5", 0),
        (429, "²", 0),
        (500, "7", 0),
    ],
)
async def test_it_waits_as_it_is_told(told, status, header, seconds):
    """Only for 429 and 503, whole seconds, bounded; anything else is left to its own patience."""
    assert await told(status, header) == pytest.approx(seconds)
    assert math.isfinite(seconds)
