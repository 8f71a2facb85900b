"""The relay of a pod's output: to its own sidecar, bounded, with the API server's words where it refuses."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from specon_manager.backends.kube import log_relay
from specon_manager.backends.kube.log_relay import LogRelay
from specon_manager.backends.kube.transport.api import Api


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(log_relay, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(log_relay, "_LOOK_SECONDS", 0.05)


class ApiServer:
    """Answers for the log of `ml/train-0`, as told."""

    def __init__(self):
        self.asked, self.status, self.pieces = [], 200, [b"one\n", b"two\n"]
        self.hold = asyncio.Event()
        self.hold.set()

    async def answer(self, request):
        self.asked.append((request.path, dict(request.query)))
        if self.status != 200:
            status = {"kind": "Status", "message": "container is waiting to start", "reason": "BadRequest"}
            return web.json_response(status, status=self.status)
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        await self.hold.wait()
        return response


@contextlib.asynccontextmanager
async def served(handler):
    application = web.Application()
    application.router.add_get("/{tail:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def stage():
    """Give the API server, the relay, and how a sidecar with a token asks it."""
    server = ApiServer()

    async def pod_of(token):
        return {"good": ("ml", "train-0"), "other": ("ml", "train-1")}.get(token)

    async with served(server.answer) as url, aiohttp.ClientSession() as session:
        api = Api(url)
        relay = LogRelay(api, pod_of, 1)

        async def relayed(request):
            return await relay(request, request.query.get("token", "good"))

        async with served(relayed) as own:
            yield server, relay, lambda **query: session.get(own, params=query)
        await api.close()


async def test_a_sidecar_gets_the_log_of_its_own_pod(stage):
    """By the name in its token, whatever else it says; with times, and from when it asks."""
    server, _, ask = stage
    since = "2026-11-23T07:00:00+02:00"
    async with ask(container="trainer", since=since, pod="other", namespace="other") as response:
        assert (response.status, await response.read()) == (200, b"one\ntwo\n")
    query = {"container": "trainer", "sinceTime": since, "timestamps": "true", "follow": "true"}
    assert server.asked == [("/api/v1/namespaces/ml/pods/train-0/log", query)]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"container": "../x"}, 400),
        ({"container": "trainer", "since": "yesterday"}, 400),
        ({"container": "trainer", "token": "bad"}, 403),
    ],
)
async def test_who_asks_wrongly_is_refused(stage, query, status):
    """And the API server is not asked."""
    server, _, ask = stage
    async with ask(**query) as response:
        assert response.status == status
    assert server.asked == []


@pytest.mark.parametrize(("theirs", "ours"), [(400, 409), (403, 503), (404, 503)])
async def test_what_the_api_server_says_is_told(stage, theirs, ours):
    """A container that does not run yet, a permission that is not there."""
    server, relay, ask = stage
    server.status = theirs
    async with ask(container="trainer") as response:
        assert (response.status, relay.streams) == (ours, 0)
        assert "container is waiting to start" in (await response.json())["error"]


async def test_there_are_so_many_at_once(stage):
    """One more is told so; a place is free again when a sidecar has gone, though its trainer says nothing."""
    server, relay, ask = stage
    server.hold.clear()
    async with ask(container="trainer") as first:
        assert await first.content.readany()
        async with ask(container="trainer", token="other") as second:
            assert second.status == 503
            assert "settings.log_streams" in (await second.json())["error"]
        first.close()
    async with asyncio.timeout(10):
        while relay.streams:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
    server.hold.set()


async def test_a_silent_log_is_asked_for_anew(stage, monkeypatch):
    """A connection that nobody ends would keep a place for ever."""
    server, relay, ask = stage
    monkeypatch.setattr(log_relay, "_SILENT_LOOKS", 2)
    server.hold.clear()
    async with ask(container="trainer") as response:
        assert await response.read() == b"one\ntwo\n"
    assert relay.streams == 0
    server.hold.set()


async def test_a_pod_has_one_stream_and_takes_nobody_elses_place(stage):
    """Who asks again has the log there, and no longer where it asked before."""
    server, relay, _ = stage
    relay = LogRelay(relay._api, relay._pod_of, 2)
    server.hold.clear()

    async def relayed(request):
        return await relay(request, request.query["token"])

    async with (
        served(relayed) as own,
        aiohttp.ClientSession() as session,
        contextlib.AsyncExitStack() as open_,
    ):
        asked = []
        for _ in range(5):
            query = {"container": "trainer", "token": "good"}
            asked.append(await open_.enter_async_context(session.get(own, params=query)))
            assert (await asked[-1].content.readany()).startswith(b"one\n")
        query = {"container": "trainer", "token": "other"}
        async with session.get(own, params=query) as response:
            assert (response.status, relay.streams) == (200, 2)
        for each in asked[:-1]:
            with pytest.raises(aiohttp.ClientError):
                await each.read()
        server.hold.set()
        assert await asked[-1].read() in {b"", b"two\n"}
    assert relay.streams == 0
