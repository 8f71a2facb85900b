"""A server without a controller, or with another one: what sidecars are told meanwhile."""

import asyncio
import datetime as dt
import ssl

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from specon_manager.backends.kube.certificates.bundle import make_bundle
from specon_manager.backends.kube.certificates.served import ServedCertificate
from specon_manager.runtime.identities import IdentityUnavailableError
from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Report, encode
from support.decisions.cluster import replica_of

A = replica_of("a")
FIRST = "0001"
REPORT = encode(
    Report(schema=1, replica=A, incarnation=FIRST, session="s", sequence=1, category=Category.PROGRESSING)
)
ANSWER = encode(Acknowledgement(schema=1, replica=A, incarnation=FIRST, id="x", done=True))
STANDBY = {"error": "this manager is a standby: another one leads, or is about to"}


def refuse(body, state):
    raise ValueError("no jobs here")


class Stage:
    def __init__(self, tmp_path, controller=None, **changes):
        self.tokens = Tokens(tmp_path)
        identities = changes.pop("identities", self.tokens)
        self.server = Server(controller, identities, CollectorRegistry(), refuse, **changes)
        self.client = TestClient(TestServer(self.server.application()))

    async def __aenter__(self):
        await self.client.start_server()
        return self

    async def __aexit__(self, *_):
        await self.client.close()

    async def ask(self, method, path, data=None, token=None):
        headers = {"Authorization": f"Bearer {token or self.tokens.sidecar(A, FIRST)}"}
        async with self.client.request(method, path, data=data, headers=headers) as answer:
            content = await answer.read()
            return answer.status, answer.headers.get("Retry-After"), content

    def poll(self, wait=0):
        return self.ask("GET", f"/v1/instructions?replica={A}&incarnation={FIRST}&wait={wait}")


@pytest.mark.parametrize(
    ("method", "path", "data"),
    [
        ("POST", "/v1/reports", REPORT),
        ("POST", "/v1/acknowledgements", ANSWER),
        ("GET", "/v1/instructions?replica=x&incarnation=y", None),
        ("GET", "/v1/state", None),
        ("POST", "/v1/jobs", b"{}"),
    ],
)
async def test_a_standby_says_that_it_is_one(tmp_path, method, path, data):
    """503 with the time after which to come again: sidecars keep what they have to say."""
    async with Stage(tmp_path) as stage:
        status, again, said = await stage.ask(method, path, data)
        assert (status, again, msgspec.json.decode(said)) == (503, "2", STANDBY)


async def test_a_standby_is_alive_and_ready(tmp_path):
    """It serves what it has, such as the routes of a webhook."""

    async def hello(request):
        return web.Response(text="hello")

    async with Stage(tmp_path, routes=[web.get("/hello", hello)]) as stage:
        assert (await stage.ask("GET", "/healthz"))[0] == 200
        assert (await stage.ask("GET", "/readyz"))[0] == 200
        assert await stage.ask("GET", "/hello") == (200, None, b"hello")


async def test_readiness_may_be_told(tmp_path):
    """Whatever the controller does."""
    ready = False
    async with Stage(tmp_path, readiness=lambda: ready) as stage:
        assert (await stage.ask("GET", "/readyz"))[0] == 503
        ready = True
        assert (await stage.ask("GET", "/readyz"))[0] == 200


async def test_a_leader_takes_reports_until_it_is_none(manager, tmp_path):
    """The controller may come and go while the server runs."""
    await manager.running("a")
    async with Stage(tmp_path) as stage:
        assert (await stage.ask("POST", "/v1/reports", REPORT))[0] == 503
        stage.server.controller = manager.controller
        assert (await stage.ask("POST", "/v1/reports", REPORT))[0] == 204
        assert stage.server.controller is manager.controller
        stage.server.controller = None
        assert (await stage.ask("POST", "/v1/reports", REPORT))[0] == 503


async def test_who_waits_for_news_is_told_at_once_when_the_leader_goes(manager, tmp_path, monkeypatch):
    """Not after the long poll's minute: the next leader waits for it."""
    await manager.running("a")
    mailbox, waits = manager.controller.mailbox, asyncio.Event()
    news = mailbox.news

    async def noted(*what):
        waits.set()
        return await news(*what)

    monkeypatch.setattr(mailbox, "news", noted)
    async with Stage(tmp_path, manager.controller) as stage:
        waiting = asyncio.ensure_future(stage.poll(wait=60))
        await waits.wait()
        stage.server.controller = None
        async with asyncio.timeout(60):
            status, again, said = await waiting
        assert (status, again, msgspec.json.decode(said)) == (503, "2", STANDBY)


class Away:
    async def may_report(self, token, replica, incarnation):
        raise IdentityUnavailableError("the API server is away")

    async def is_owner(self, token):
        raise IdentityUnavailableError("the API server is away")


async def test_an_unknown_identity_is_no_refusal(manager, tmp_path):
    """503, so that a sidecar tries again; a 403 would be the end of its report."""
    await manager.running("a")
    async with Stage(tmp_path, manager.controller, identities=Away()) as stage:
        for method, path, data in (("POST", "/v1/reports", REPORT), ("GET", "/v1/state", None)):
            status, again, said = await stage.ask(method, path, data)
            assert (status, again) == (503, "2")
            assert b"the API server is away" in said


async def test_the_leader_may_go_while_a_token_is_looked_at(manager, tmp_path):
    """A report is not for a controller that has ended."""
    await manager.running("a")

    class Slow:
        async def may_report(self, token, replica, incarnation):
            stage.server.controller = None
            return True

        async def is_owner(self, token):
            stage.server.controller = None
            return True

    async with Stage(tmp_path, manager.controller, identities=Slow()) as stage:
        steps = len(manager.steps)
        for method, path, data in (("POST", "/v1/reports", REPORT), ("GET", "/v1/state", None)):
            stage.server.controller = manager.controller
            assert (await stage.ask(method, path, data))[0] == 503
        assert len(manager.steps) == steps


async def test_a_body_that_does_not_come_is_not_waited_for(manager, tmp_path):
    """408 after the limit; the connection is closed."""
    await manager.running("a")

    async def slowly():
        yield b"{"
        await asyncio.Event().wait()

    async with Stage(tmp_path, manager.controller, body_seconds=0.05) as stage:
        headers = {"Authorization": "Bearer x"}
        async with stage.client.post("/v1/reports", data=slowly(), headers=headers) as answer:
            assert answer.status == 408
            assert await answer.json() == {"error": "the body was not there within 0.05 seconds"}
            assert answer.headers["Connection"] == "close"


async def test_probes_have_a_port_of_their_own(tmp_path):
    """Without TLS, and with nothing on it that takes a token."""
    server = Server(None, Tokens(tmp_path), CollectorRegistry(), refuse)
    port = await server.start_probes("127.0.0.1", 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/v1/state", 404)):
            async with session.get(path) as answer:
                assert answer.status == status
    await server.stop()


async def test_the_server_speaks_tls(tmp_path):
    """With the context that it is given, whose certificate may come and change while it listens."""
    served = ServedCertificate()
    server = Server(None, Tokens(tmp_path), CollectorRegistry(), refuse)
    port = await server.start("127.0.0.1", 0, tls=served.context)
    bundle = make_bundle(("localhost",), dt.datetime.now(dt.UTC))
    served.load(bundle.certificate, bundle.key, bundle.trusted)
    trusting = ssl.create_default_context(cadata=bundle.trusted)
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{port}/healthz"
        async with session.get(url, ssl=trusting, server_hostname="localhost") as answer:
            assert answer.status == 200
    await server.stop()
