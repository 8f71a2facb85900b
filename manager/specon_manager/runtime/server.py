"""The manager's HTTP server: reports and instructions for sidecars, state and submissions for people."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import (
    InstructionAcknowledged,
    InstructionDelivered,
    JobSubmitted,
    ReportReceived,
)
from specon_manager.runtime.controller import Controller
from specon_manager.runtime.tokens import Tokens
from specon_sidecar.wire import (
    MAX_MESSAGE_BYTES,
    SCHEMA,
    Instructions,
    WireError,
    decode_acknowledgement,
    decode_report,
    encode,
)

_log = logging.getLogger(__name__)
_LONGEST_POLL: Final = 60.0
_MOST_JOB_BYTES: Final = 1024 * 1024

ReadJob = Callable[[bytes, State], JobSpec]
"""Turns a submitted body into a job; raises ValueError with every mistake named."""


class Server:
    """Routes, checks and answers; decides nothing."""

    def __init__(
        self, controller: Controller, tokens: Tokens, registry: CollectorRegistry, read_job: ReadJob
    ) -> None:
        self._controller = controller
        self._tokens = tokens
        self._registry = registry
        self._read_job = read_job
        self._submitted: set[str] = set()  # what is on its way through the loop is in no state yet
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port (a free one for 0). Raises OSError when it is taken."""
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, reuse_address=True).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Answer what waits, and close."""
        self._stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def application(self) -> web.Application:
        """Return the routes."""
        application = web.Application(client_max_size=_MOST_JOB_BYTES)
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.post("/v1/reports", self._report),
                web.get("/v1/instructions", self._instructions),
                web.post("/v1/acknowledgements", self._acknowledge),
                web.get("/v1/state", self._owner(self._state)),
                web.post("/v1/jobs", self._owner(self._submit)),
            ]
        )
        return application

    async def _healthz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        ready = self._controller.ready
        return web.Response(text="ok\n" if ready else "not ready\n", status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _report(self, request: web.Request) -> web.Response:
        try:
            report = decode_report(await _body(request))
        except WireError as error:
            return _problem(400, str(error))
        refusal = self._check(request, report.replica, report.incarnation)
        if refusal is not None:
            return refusal
        self._controller.post(ReportReceived(report))
        return web.Response(status=204)

    async def _instructions(self, request: web.Request) -> web.Response:
        query = request.query
        replica, incarnation = query.get("replica", ""), query.get("incarnation", "")
        refusal = self._check(request, replica, incarnation)
        if refusal is not None:
            return refusal
        try:
            wait = float(query.get("wait", "0"))
        except ValueError:
            return _problem(400, f"wait: {query['wait']!r} is not a number of seconds")
        if not 0 <= wait <= _LONGEST_POLL:
            return _problem(400, f"wait: {wait:g} is not between 0 and {_LONGEST_POLL:g} seconds")
        known = frozenset(query.get("known", "").split(","))
        mailbox = self._controller.mailbox
        news = asyncio.ensure_future(mailbox.news(replica, incarnation, known, wait))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({news, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            stopping.cancel()
        instructions = mailbox.open(replica, incarnation, self._controller.clock.now())
        for instruction in instructions:
            if instruction.id not in known:
                delivered = InstructionDelivered(id=instruction.id, replica=replica, incarnation=incarnation)
                self._controller.post(delivered)
        return _json(encode(Instructions(schema=SCHEMA, instructions=instructions)))

    async def _acknowledge(self, request: web.Request) -> web.Response:
        try:
            acknowledgement = decode_acknowledgement(await _body(request))
        except WireError as error:
            return _problem(400, str(error))
        refusal = self._check(request, acknowledgement.replica, acknowledgement.incarnation)
        if refusal is not None:
            return refusal
        self._controller.post(InstructionAcknowledged(acknowledgement))
        return web.Response(status=204)

    async def _state(self, request: web.Request) -> web.Response:
        del request
        return _json(msgspec.json.encode(self._controller.state.flattened()))

    async def _submit(self, request: web.Request) -> web.Response:
        try:
            spec = self._read_job(await request.read(), self._controller.state)
        except ValueError as error:
            return _problem(422, str(error))
        if spec.name in self._controller.state.jobs or spec.name in self._submitted:
            return _problem(409, f"name: there is a job {spec.name!r} already")
        self._submitted.add(spec.name)
        self._controller.post(JobSubmitted(spec))
        return _json(msgspec.json.encode({"job": spec.name}), status=201)

    def _check(self, request: web.Request, replica: str, incarnation: str) -> web.Response | None:
        """Return the refusal of a message for an incarnation that the token, or the state, does not have."""
        shown = _shown(request)
        if shown is None:
            return _problem(401, "no bearer token")
        if not self._tokens.is_sidecar(shown, replica, incarnation):
            return _problem(403, f"the token is not that of incarnation {incarnation!r} of {replica!r}")
        known = self._controller.state.replicas.get(replica)
        if known is None or known.former == incarnation or known.ended:
            return _problem(410, f"incarnation {incarnation!r} of {replica!r} is over")
        if known.incarnation != incarnation:
            # Started a moment ago, and the word of it has not come through the loop yet.
            response = _problem(503, f"incarnation {incarnation!r} of {replica!r} is not known yet")
            response.headers["Retry-After"] = "1"
            return response
        return None

    def _owner(self, handler: "_Handler") -> "_Handler":
        """Return the handler behind a check of the owner's token."""

        async def checked(request: web.Request) -> web.StreamResponse:
            shown = _shown(request)
            if shown is None:
                return _problem(401, "no bearer token")
            if not self._tokens.is_owner(shown):
                return _problem(403, "not the owner's token")
            return await handler(request)

        return checked


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def _body(request: web.Request) -> bytes:
    """Return the body of a sidecar's message; raises WireError when it is too long."""
    if request.content_length is not None and request.content_length > MAX_MESSAGE_BYTES:
        raise WireError(f"message of {request.content_length} bytes is longer than {MAX_MESSAGE_BYTES}")
    return await request.read()


def _shown(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _problem(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
