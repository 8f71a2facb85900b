"""A server on a real port, in front of a controller that runs one job."""

import contextlib
import ssl

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from specon_sidecar.classify import Category
from specon_sidecar.wire import Report, encode
from support.decisions.cluster import replica_of
from support.runtime.quiet_manager import Manager

A = replica_of("a")
FIRST = "0001"


class Listening:
    """A server that listens, and what one needs to talk to it."""

    def __init__(self, server, port, tokens, trusting):
        self.server, self.port, self.tokens = server, port, tokens
        self._trusting = trusting
        self._sequence = 0

    @property
    def url(self):
        return f"{'http' if self._trusting is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def bearer(self):
        return {"Authorization": f"Bearer {self.tokens.sidecar(A, FIRST)}"}

    def report(self, **changes):
        self._sequence += 1
        made = Report(
            schema=1,
            replica=A,
            incarnation=FIRST,
            session="s",
            sequence=self._sequence,
            category=Category.PROGRESSING,
        )
        return encode(msgspec.structs.replace(made, **changes))

    async def tell(self, body=None, headers=None, path="/v1/reports"):
        """Send a report on a connection of its own; return status and headers."""
        given = self.bearer | (headers or {})
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.url + path,
                data=self.report() if body is None else body,
                headers=given,
                ssl=self._trusting or True,
                server_hostname="localhost" if self._trusting else None,
            ) as answer,
        ):
            return answer.status, answer.headers.copy()


@pytest.fixture
def listening(tmp_path):
    """Return a function that opens a server with the limits that it is given."""

    @contextlib.asynccontextmanager
    async def opened(*, certificate=None, routes=(), **limits):
        tls, trusting = None, None
        if certificate is not None:
            tls, trusting = certificate.context, ssl.create_default_context(cadata=certificate.trusted)
        async with Manager(tmp_path).at_work() as manager:
            await manager.running("a")
            tokens = Tokens(tmp_path)
            server = Server(
                manager.controller, tokens, CollectorRegistry(), _no_jobs, routes=routes, **limits
            )
            port = await server.start("127.0.0.1", 0, tls=tls)
            try:
                yield Listening(server, port, tokens, trusting)
            finally:
                await server.stop()

    return opened


def _no_jobs(body, state):
    raise ValueError("no jobs here")
