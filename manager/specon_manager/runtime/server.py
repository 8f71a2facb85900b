"""The manager's HTTP server: a desk for sidecars, state and submissions for people, probes and metrics.

A server without a controller is that of a standby: it answers whatever else it serves, and tells sidecars to
come again, by which time another manager may have taken over.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import JobSubmitted
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.runtime import requests
from specon_manager.runtime.answers import (
    STANDBY_SECONDS,
    bearer_token,
    come_again,
    json_answer,
    problem,
    standby,
)
from specon_manager.runtime.bad_requests import LIBRARY_LOG, answer_bad_request
from specon_manager.runtime.connections import KEPT_SECONDS, ConnectionLimits, Connections, LimitedSite
from specon_manager.runtime.controller import Controller, NotRecordedError
from specon_manager.runtime.identities import Identities, IdentityUnavailableError
from specon_manager.runtime.message_rate import RateLimits
from specon_manager.runtime.sidecar_desk import FULL_SECONDS, Handler, Relay, SidecarDesk
from specon_manager.runtime.standstill import Standstill

_MOST_JOB_BYTES: Final = 1024 * 1024
_BODY_SECONDS: Final = 10.0
_LINGERING_SECONDS: Final = 2.0  # that the rest of a body is read and dropped after the answer

ReadJob = Callable[[bytes, State], JobSpec]
"""Turns a submitted body into a job; raises ValueError with every mistake named."""


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
        self._connection_limits = connection_limits or ConnectionLimits()
        self._submitted: set[str] = set()  # a job on its way through the loop is in no state yet
        self._asking: dict[str, str] = {}
        self._runners: list[web.AppRunner] = []
        self._standstill = Standstill()
        self._watching: asyncio.Task[None] | None = None
        self._sidecars = SidecarDesk(
            identities,
            self._standstill,
            leads=lambda controller: controller is self._controller,
            read=self._read,
            relay=relay,
            rate_limits=rate_limits or RateLimits(),
        )
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
        self._sidecars.forget_controller()
        self._submitted.clear()
        self._asking.clear()

    def show_starts(self, starts_of: Callable[[float], Mapping[str, ExpectedStart]]) -> None:
        """Tell owners when jobs that wait are expected to start, by job, in seconds from a moment."""
        self._starts_of = starts_of

    def spare(self, is_ending: Callable[[str], bool]) -> None:
        """Let replicas run on outside of their turn while this says that their pods end."""
        self._sidecars.spare(is_ending)

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port (a free one for 0). Raises OSError when it is taken."""
        return await self._listen(self.application(), host, port, tls)

    async def start_beside(
        self, routes: Sequence[web.RouteDef], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen for these routes alone, on a port of their own; return it. Raises OSError."""
        application = web.Application(middlewares=[answer_bad_request])
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
        application = web.Application(client_max_size=_MOST_JOB_BYTES, middlewares=[answer_bad_request])
        application.add_routes(
            [
                *(self._probes() if self._probes_here else ()),
                *(
                    web.route(method, path, self._answer_as_leader(handler))
                    for method, path, handler in self._sidecars.handlers()
                ),
                web.get("/v1/state", self._answer_as_leader(self._check_owner(self._state))),
                web.get("/v1/starts", self._answer_as_leader(self._check_owner(self._starts))),
                web.post("/v1/jobs", self._answer_as_leader(self._check_owner(self._submit))),
                web.post("/v1/moves", self._answer_as_leader(self._check_owner(self._order))),
                web.delete("/v1/moves/{move}", self._answer_as_leader(self._check_owner(self._order))),
                web.post("/v1/pause", self._answer_as_leader(self._check_owner(self._order))),
                web.delete("/v1/pause", self._answer_as_leader(self._check_owner(self._order))),
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
        # Each listener counts for itself: a flood at the metrics keeps no report away.
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

    async def _state(self, request: web.Request, controller: Controller) -> web.Response:
        del request
        return json_answer(msgspec.json.encode(controller.state.flatten()))

    async def _starts(self, request: web.Request, controller: Controller) -> web.Response:
        del request
        return json_answer(msgspec.json.encode(self._starts_of(controller.clock.now())))

    async def _submit(self, request: web.Request, controller: Controller) -> web.Response:
        try:
            spec = self._read_job(await self._read(request), controller.state)
        except ValueError as error:
            return problem(422, str(error))
        if spec.name in controller.state.jobs or spec.name in self._submitted:
            return problem(409, f"name: there is a job {spec.name!r} already")
        self._submitted.add(spec.name)
        try:
            await controller.record(JobSubmitted(spec))
        finally:
            self._submitted.discard(spec.name)
        return json_answer(msgspec.json.encode({"job": spec.name}), status=201)

    async def _order(self, request: web.Request, controller: Controller) -> web.Response:
        """Let the owner ask for a move, that one be withdrawn, a pause or its end."""
        if not self._takes_orders:
            return problem(403, requests.ELSEWHERE)
        body = await self._read(request)
        if request.path == "/v1/moves":
            answer = await requests.ask_for_move(body, controller, self._asking)
        elif (move := request.match_info.get("move")) is not None:
            answer = await requests.withdraw(move, controller)
        elif request.method == "POST":
            answer = await requests.pause(body, controller)
        else:
            answer = await requests.resume(controller)
        response = json_answer(msgspec.json.encode(answer.body), status=answer.status)
        if answer.status == 503:  # noqa: PLR2004  (Service Unavailable)
            response.headers["Retry-After"] = str(STANDBY_SECONDS)
        return response

    def _check_owner(self, handler: Handler) -> Handler:
        """Return the handler behind a check of the owner's token."""

        async def checked(request: web.Request, controller: Controller) -> web.StreamResponse:
            token = bearer_token(request)
            if token is None:
                return problem(401, "no bearer token")
            if not await self._identities.is_owner(token):
                return problem(403, "not the owner's token")
            return standby() if controller is not self._controller else await handler(request, controller)

        return checked

    def _answer_as_leader(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler with the answers of a standby, and those to slow clients."""

        async def answered(request: web.Request) -> web.StreamResponse:
            controller = self._controller
            if controller is None:
                return standby()
            try:
                return await handler(request, controller)
            except IdentityUnavailableError as error:
                return come_again(STANDBY_SECONDS, f"the token cannot be looked at now: {error}")
            except NotRecordedError as error:
                return come_again(FULL_SECONDS, str(error))
            except TimeoutError:
                response = problem(408, f"the body was not there within {self._body_seconds:g} seconds")
                response.force_close()
                return response

        return answered

    async def _read(self, request: web.Request) -> bytes:
        if request.content.is_eof():  # all of it is here, as of most messages: there is nothing to wait for
            return await request.read()
        async with asyncio.timeout(self._body_seconds):
            return await request.read()
