"""The manager's HTTP server: reports and instructions for sidecars, state and submissions for people.

A server without a controller is that of a standby: it answers whatever else it serves, and tells sidecars to
come again, by which time another manager may have taken over.
"""

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from specon_manager.backends.time_slices import ends_none
from specon_manager.core.resumable import resumable
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import (
    InstructionAcknowledged,
    InstructionDelivered,
    JobSubmitted,
    ReportReceived,
)
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.runtime import requests
from specon_manager.runtime.bad_requests import LIBRARY_LOG, told_to_the_sender
from specon_manager.runtime.connections import KEPT_SECONDS, ConnectionLimits, Connections, LimitedSite
from specon_manager.runtime.controller import Controller, NotRecordedError
from specon_manager.runtime.identities import Identities, IdentityUnavailableError
from specon_manager.runtime.message_rate import MessageRates, RateLimits
from specon_manager.runtime.standstill import Standstill
from specon_manager.runtime.turns_desk import TurnsDesk
from specon_sidecar.wire import (
    MAX_MESSAGE_BYTES,
    SCHEMA,
    Instructions,
    Resumable,
    WireError,
    decode_acknowledgement,
    decode_report,
    encode,
)

_log = logging.getLogger(__name__)
_LONGEST_POLL: Final = 60.0
_MOST_JOB_BYTES: Final = 1024 * 1024
_BODY_SECONDS: Final = 10.0
_LINGERING_SECONDS: Final = 2.0  # that the rest of a body is read and dropped after the answer
_STANDBY_SECONDS: Final = 2
_FULL_SECONDS: Final = 5
_STOOD_STILL_SECONDS: Final = 1

ReadJob = Callable[[bytes, State], JobSpec]
"""Turns a submitted body into a job; raises ValueError with every mistake named."""

Relay = Callable[[web.Request, str], Awaitable[web.StreamResponse]]
"""Answers a sidecar, whose token was found good, with the standard output of its trainer as it is written."""


class Server:
    """Routes, checks and answers; decides nothing."""

    def __init__(
        self,
        controller: Controller | None,
        identities: Identities,
        registry: CollectorRegistry,
        read_job: ReadJob,
        *,
        routes: Sequence[web.RouteDef] = (),
        readiness: Callable[[], bool] | None = None,
        body_seconds: float = _BODY_SECONDS,
        takes_orders: bool = True,
        probes_here: bool = True,
        relay: Relay | None = None,
        connection_limits: ConnectionLimits | None = None,
        rate_limits: RateLimits | None = None,
    ) -> None:
        """Serve `controller`, and `routes` besides.

        `readiness` replaces what /readyz goes by: that the controller has taken over, or that this is a
        standby. A body has to be there within `body_seconds`. `takes_orders` tells whether the owner may ask
        here for moves and pauses, `probes_here` whether probes and metrics are answered on this port too.
        Without `relay` nobody is told what a trainer prints.
        """
        self._controller = controller
        self._identities = identities
        self._registry = registry
        self._read_job = read_job
        self._routes = routes
        self._readiness = readiness
        self._body_seconds = body_seconds
        self._takes_orders = takes_orders
        self._probes_here = probes_here
        self._relay = relay
        self._connection_limits = connection_limits or ConnectionLimits()
        self._rates = MessageRates(rate_limits or RateLimits())
        self._submitted: set[str] = set()  # what is on its way through the loop is in no state yet
        self._asking: dict[str, str] = {}
        self._runners: list[web.AppRunner] = []
        self._standstill = Standstill()
        self._watching: asyncio.Task[None] | None = None
        self._turns_desk: TurnsDesk | None = None
        self._is_ending: Callable[[str], bool] = ends_none
        self._starts_of: Callable[[float], Mapping[str, ExpectedStart]] = lambda _: {}

    @property
    def controller(self) -> Controller | None:
        """Whom reports are for; None on a standby. Who waits for news of another controller is answered."""
        return self._controller

    @controller.setter
    def controller(self, controller: Controller | None) -> None:
        if self._controller is not None and controller is not self._controller:
            self._controller.mailbox.close()
        self._controller = controller
        self._turns_desk = None
        self._submitted.clear()
        self._asking.clear()

    def show_starts(self, starts_of: Callable[[float], Mapping[str, ExpectedStart]]) -> None:
        """Tell owners when jobs that wait are expected to start, by job, in seconds from a moment."""
        self._starts_of = starts_of

    def spare(self, is_ending: Callable[[str], bool]) -> None:
        """Let replicas of which this says that their pods end run on, whoever's turn it is."""
        self._is_ending = is_ending

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port (a free one for 0). Raises OSError when it is taken."""
        return await self._listen(self.application(), host, port, tls)

    async def start_beside(
        self, routes: Sequence[web.RouteDef], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen for these routes alone, on a port of their own; return it. Raises OSError."""
        application = web.Application(middlewares=[told_to_the_sender])
        application.add_routes(routes)
        return await self._listen(application, host, port, tls)

    async def start_probes(self, host: str, port: int) -> int:
        """Listen without TLS for probes and metrics alone; return the port. Raises OSError."""
        return await self.start_beside(self._probes(), host, port)

    async def stop(self) -> None:
        """Answer what waits, and close."""
        if self._controller is not None:
            self._controller.mailbox.close()
        for runner in self._runners:
            await runner.cleanup()
        if self._watching is not None:
            self._watching.cancel()

    def application(self) -> web.Application:
        """Return the routes."""
        application = web.Application(client_max_size=_MOST_JOB_BYTES, middlewares=[told_to_the_sender])
        application.add_routes(
            [
                *(self._probes() if self._probes_here else ()),
                web.post("/v1/reports", self._calm(self._report)),
                web.get("/v1/instructions", self._calm(self._instructions)),
                web.post("/v1/acknowledgements", self._calm(self._acknowledge)),
                web.get("/v1/checkpoint", self._calm(self._checkpoint)),
                web.get("/v1/turns", self._calm(self._turns)),
                web.get("/v1/output", self._calm(self._output)),
                web.get("/v1/state", self._calm(self._owner(self._state))),
                web.get("/v1/starts", self._calm(self._owner(self._starts))),
                web.post("/v1/jobs", self._calm(self._owner(self._submit))),
                web.post("/v1/moves", self._calm(self._owner(self._order))),
                web.delete("/v1/moves/{move}", self._calm(self._owner(self._order))),
                web.post("/v1/pause", self._calm(self._owner(self._order))),
                web.delete("/v1/pause", self._calm(self._owner(self._order))),
                *self._routes,
            ]
        )
        return application

    def _probes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._metrics),
        ]

    async def _listen(
        self, application: web.Application, host: str, port: int, tls: ssl.SSLContext | None
    ) -> int:
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=LIBRARY_LOG,
            shutdown_timeout=2.0,
            keepalive_timeout=KEPT_SECONDS,
            lingering_time=_LINGERING_SECONDS,
        )
        self._runners.append(runner)
        if self._watching is None:
            self._watching = asyncio.create_task(self._standstill.watch())
        await runner.setup()
        # Each listener counts for itself: whoever floods the metrics keeps no report away.
        site = LimitedSite(runner, Connections(self._connection_limits), host, port, tls=tls)
        await site.start()
        return site.port

    async def _healthz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        if self._readiness is not None:
            ready = self._readiness()
        else:
            ready = self._controller is None or (self._controller.ready and not self._controller.stalled)
        return web.Response(text="ok\n" if ready else "not ready\n", status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _report(self, request: web.Request, controller: Controller) -> web.Response:
        try:
            report = decode_report(await self._body(request))
        except WireError as error:
            return _problem(400, str(error))
        refusal = await self._check(request, controller, report.replica, report.incarnation)
        if refusal is not None:
            return refusal
        controller.post(ReportReceived(report))
        return web.Response(status=204)

    async def _instructions(self, request: web.Request, controller: Controller) -> web.Response:
        query = request.query
        replica, incarnation = query.get("replica", ""), query.get("incarnation", "")
        refusal = await self._check(request, controller, replica, incarnation)
        if refusal is not None:
            return refusal
        try:
            wait = _read_wait(query)
        except ValueError as error:
            return _problem(400, str(error))
        known = frozenset(query.get("known", "").split(","))
        mailbox = controller.mailbox
        await mailbox.news(replica, incarnation, known, wait)
        if controller is not self._controller:
            return _standby()  # what it wanted is another's to say now
        instructions = mailbox.open(replica, incarnation, controller.clock.now())
        for instruction in instructions:
            if instruction.id not in known:
                delivered = InstructionDelivered(id=instruction.id, replica=replica, incarnation=incarnation)
                controller.post(delivered)
        return _json(encode(Instructions(schema=SCHEMA, instructions=instructions)))

    async def _acknowledge(self, request: web.Request, controller: Controller) -> web.Response:
        try:
            acknowledgement = decode_acknowledgement(await self._body(request))
        except WireError as error:
            return _problem(400, str(error))
        refusal = await self._check(request, controller, acknowledgement.replica, acknowledgement.incarnation)
        if refusal is not None:
            return refusal
        if self._standstill.is_recent():
            # How old the answer is, its sidecar says anew: this one may have waited at the socket for long.
            return _later(_STOOD_STILL_SECONDS, "this manager stood still a moment ago: say it again")
        # A manager that is killed after its answer is told no second time.
        await controller.record(InstructionAcknowledged(acknowledgement))
        return web.Response(status=204)

    async def _checkpoint(self, request: web.Request, controller: Controller) -> web.Response:
        replica, incarnation = request.query.get("replica", ""), request.query.get("incarnation", "")
        refusal = await self._check(request, controller, replica, incarnation)
        found = resumable(controller.state, replica)
        return refusal or _json(encode(Resumable(schema=SCHEMA, checkpoint=found)))

    async def _turns(self, request: web.Request, controller: Controller) -> web.Response:
        query = request.query
        replica, incarnation = query.get("replica", ""), query.get("incarnation", "")
        refusal = await self._check(request, controller, replica, incarnation)
        if refusal is not None:
            return refusal
        try:
            wait = _read_wait(query)
        except ValueError as error:
            return _problem(400, str(error))
        if self._turns_desk is None:
            self._turns_desk = TurnsDesk(controller, self._is_ending)
        turns = await self._turns_desk.answer(replica, query.get("known", ""), wait)
        if controller is not self._controller:
            return _standby()  # who runs when is another's to say now
        return _json(encode(turns))

    async def _output(self, request: web.Request, controller: Controller) -> web.StreamResponse:
        query = request.query
        if self._relay is None:
            return _problem(404, "standard output is not relayed here: settings.log_streams is 0")
        refusal = await self._check(
            request, controller, query.get("replica", ""), query.get("incarnation", "")
        )
        return refusal or await self._relay(request, _show(request) or "")

    async def _state(self, request: web.Request, controller: Controller) -> web.Response:
        del request
        return _json(msgspec.json.encode(controller.state.flattened()))

    async def _starts(self, request: web.Request, controller: Controller) -> web.Response:
        del request
        return _json(msgspec.json.encode(self._starts_of(controller.clock.now())))

    async def _submit(self, request: web.Request, controller: Controller) -> web.Response:
        try:
            spec = self._read_job(await self._read(request), controller.state)
        except ValueError as error:
            return _problem(422, str(error))
        if spec.name in controller.state.jobs or spec.name in self._submitted:
            return _problem(409, f"name: there is a job {spec.name!r} already")
        self._submitted.add(spec.name)
        try:
            await controller.record(JobSubmitted(spec))
        finally:
            self._submitted.discard(spec.name)
        return _json(msgspec.json.encode({"job": spec.name}), status=201)

    async def _order(self, request: web.Request, controller: Controller) -> web.Response:
        """Let the owner ask for a move, that one be withdrawn, a pause or its end."""
        if not self._takes_orders:
            return _problem(403, requests.ELSEWHERE)
        body = await self._read(request)
        if request.path == "/v1/moves":
            answer = await requests.ask_for_move(body, controller, self._asking)
        elif (move := request.match_info.get("move")) is not None:
            answer = await requests.withdraw(move, controller)
        elif request.method == "POST":
            answer = await requests.pause(body, controller)
        else:
            answer = await requests.resume(controller)
        response = _json(msgspec.json.encode(answer.body), status=answer.status)
        if answer.status == 503:  # noqa: PLR2004  (Service Unavailable)
            response.headers["Retry-After"] = str(_STANDBY_SECONDS)
        return response

    async def _check(
        self, request: web.Request, controller: Controller, replica: str, incarnation: str
    ) -> web.Response | None:
        """Return the refusal of a message for an incarnation that the token, or the state, does not have."""
        shown = _show(request)
        if shown is None:
            return _problem(401, "no bearer token")
        if not await self._identities.may_report(shown, replica, incarnation):
            return _problem(403, f"the token is not that of incarnation {incarnation!r} of {replica!r}")
        if controller is not self._controller:
            return _standby()  # it lost its place while the token was looked at
        if controller.stalled:
            return _later(_FULL_SECONDS, controller.stalled)
        known = controller.state.replicas.get(replica)
        # A name that nobody knows may be any: who makes up many of them has one share for all.
        name = replica if known is not None and known.incarnation == incarnation else ""
        if (seconds := self._rates.wait(name, incarnation, time.monotonic())) > 0:
            return _later(math.ceil(seconds), "too many messages of this incarnation", status=429)
        if known is not None and (known.former == incarnation or known.ended):
            return _problem(410, f"incarnation {incarnation!r} of {replica!r} is over")
        if known is None or known.incarnation != incarnation:
            # Its token is good, so it lives: the word of its start has not come through the loop yet, or the
            # manager has just taken over. A 410 would silence its sidecar for good.
            return _later(1, f"incarnation {incarnation!r} of {replica!r} is not known yet")
        return None

    def _owner(self, handler: "_Handler") -> "_Handler":
        """Return the handler behind a check of the owner's token."""

        async def checked(request: web.Request, controller: Controller) -> web.StreamResponse:
            shown = _show(request)
            if shown is None:
                return _problem(401, "no bearer token")
            if not await self._identities.is_owner(shown):
                return _problem(403, "not the owner's token")
            return _standby() if controller is not self._controller else await handler(request, controller)

        return checked

    def _calm(self, handler: "_Handler") -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler with the answers of a standby, and those to slow clients."""

        async def answered(request: web.Request) -> web.StreamResponse:
            controller = self._controller
            if controller is None:
                return _standby()
            try:
                return await handler(request, controller)
            except IdentityUnavailableError as error:
                return _later(_STANDBY_SECONDS, f"the token cannot be looked at now: {error}")
            except NotRecordedError as error:
                return _later(_FULL_SECONDS, str(error))
            except TimeoutError:
                response = _problem(408, f"the body was not there within {self._body_seconds:g} seconds")
                response.force_close()
                return response

        return answered

    async def _body(self, request: web.Request) -> bytes:
        """Return the body of a sidecar's message; raises WireError when it is too long, TimeoutError."""
        if request.content_length is not None and request.content_length > MAX_MESSAGE_BYTES:
            raise WireError(f"message of {request.content_length} bytes is longer than {MAX_MESSAGE_BYTES}")
        return await self._read(request)

    async def _read(self, request: web.Request) -> bytes:
        if request.content.is_eof():  # all of it is here, as of most messages: there is nothing to wait for
            return await request.read()
        async with asyncio.timeout(self._body_seconds):
            return await request.read()


_Handler = Callable[[web.Request, Controller], Awaitable[web.StreamResponse]]


def _read_wait(query: Mapping[str, str]) -> float:
    """Return how long an answer may take, seconds. Raises ValueError."""
    try:
        wait = float(query.get("wait", "0"))
    except ValueError:
        raise ValueError(f"wait: {query['wait']!r} is not a number of seconds") from None
    if not 0 <= wait <= _LONGEST_POLL:
        raise ValueError(f"wait: {wait:g} is not between 0 and {_LONGEST_POLL:g} seconds")
    return wait


def _show(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _problem(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def _later(seconds: int, message: str, status: int = 503) -> web.Response:
    response = _problem(status, message)
    response.headers["Retry-After"] = str(seconds)
    return response


def _standby() -> web.Response:
    return _later(_STANDBY_SECONDS, "this manager is a standby: another one leads, or is about to")


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
