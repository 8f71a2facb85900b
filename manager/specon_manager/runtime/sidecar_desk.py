"""What sidecars ask the manager and tell it over HTTP: whose word it is, at which rate, and the answers."""

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from aiohttp import web

from specon_manager.backends.time_slices import ends_none
from specon_manager.core.resumable import resumable
from specon_manager.model.events import InstructionAcknowledged, InstructionDelivered, ReportReceived
from specon_manager.runtime.answers import bearer_token, come_again, json_answer, problem, standby
from specon_manager.runtime.controller import Controller
from specon_manager.runtime.identities import Identities
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

FULL_SECONDS: Final = 5
"""After which to come again while the manager's disk takes nothing."""
_LONGEST_POLL: Final = 60.0
_STOOD_STILL_SECONDS: Final = 1

Relay = Callable[[web.Request, str], Awaitable[web.StreamResponse]]
"""Answers a sidecar, whose token was found good, with the standard output of its trainer as it is written."""
Handler = Callable[[web.Request, Controller], Awaitable[web.StreamResponse]]
"""Answers a request for a controller, which may lose its place meanwhile."""


class _Poll(NamedTuple):
    """Who asks for new instructions, which ones it knows, and for how many seconds it waits."""

    replica: str
    incarnation: str
    known: str
    wait: float


class SidecarDesk:
    """Checks and answers sidecars; decides nothing."""

    def __init__(
        self,
        identities: Identities,
        standstill: Standstill,
        *,
        leads: Callable[[Controller], bool],
        read: Callable[[web.Request], Awaitable[bytes]],
        relay: Relay | None,
        rate_limits: RateLimits,
    ) -> None:
        """`leads` tells whether a controller is still the one that answers, `read` a body to its end."""
        self._identities, self._standstill = identities, standstill
        self._leads, self._read, self._relay = leads, read, relay
        self._rates = MessageRates(rate_limits)
        self._turns_desk: TurnsDesk | None = None
        self._is_ending: Callable[[str], bool] = ends_none

    def spare(self, is_ending: Callable[[str], bool]) -> None:
        """Let replicas run on outside of their turn while this says that their pods end."""
        self._is_ending = is_ending

    def forget_controller(self) -> None:
        """Let another controller say who runs when."""
        self._turns_desk = None

    def handlers(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each route."""
        return [
            ("POST", "/v1/reports", self._report),
            ("GET", "/v1/instructions", self._instructions),
            ("POST", "/v1/acknowledgements", self._acknowledge),
            ("GET", "/v1/checkpoint", self._checkpoint),
            ("GET", "/v1/turns", self._turns),
            ("GET", "/v1/output", self._output),
        ]

    async def _report(self, request: web.Request, controller: Controller) -> web.Response:
        try:
            report = decode_report(await self._body(request))
        except WireError as error:
            return problem(400, str(error))
        refusal = await self._check(request, controller, report.replica, report.incarnation)
        if refusal is not None:
            return refusal
        controller.post(ReportReceived(report))
        return web.Response(status=204)

    async def _instructions(self, request: web.Request, controller: Controller) -> web.Response:
        poll = await self._read_poll(request, controller)
        if isinstance(poll, web.Response):
            return poll
        known = frozenset(poll.known.split(","))
        mailbox = controller.mailbox
        await mailbox.news(poll.replica, poll.incarnation, known, poll.wait)
        if not self._leads(controller):
            return standby()  # what it wanted is another's to say now
        instructions = mailbox.open(poll.replica, poll.incarnation, controller.clock.now())
        for instruction in instructions:
            if instruction.id not in known:
                controller.post(
                    InstructionDelivered(
                        id=instruction.id, replica=poll.replica, incarnation=poll.incarnation
                    )
                )
        return json_answer(encode(Instructions(schema=SCHEMA, instructions=instructions)))

    async def _acknowledge(self, request: web.Request, controller: Controller) -> web.Response:
        try:
            acknowledgement = decode_acknowledgement(await self._body(request))
        except WireError as error:
            return problem(400, str(error))
        refusal = await self._check(request, controller, acknowledgement.replica, acknowledgement.incarnation)
        if refusal is not None:
            return refusal
        if self._standstill.is_recent():
            # How old the answer is, its sidecar says again: this one may have waited at the socket for long.
            return come_again(_STOOD_STILL_SECONDS, "this manager stood still a moment ago: say it again")
        # A manager that is killed after its answer is told no second time.
        await controller.record(InstructionAcknowledged(acknowledgement))
        return web.Response(status=204)

    async def _checkpoint(self, request: web.Request, controller: Controller) -> web.Response:
        replica, incarnation = _asker(request)
        refusal = await self._check(request, controller, replica, incarnation)
        found = resumable(controller.state, replica)
        return refusal or json_answer(encode(Resumable(schema=SCHEMA, checkpoint=found)))

    async def _turns(self, request: web.Request, controller: Controller) -> web.Response:
        poll = await self._read_poll(request, controller)
        if isinstance(poll, web.Response):
            return poll
        if self._turns_desk is None:
            self._turns_desk = TurnsDesk(controller, self._is_ending)
        turns = await self._turns_desk.answer(poll.replica, poll.known, poll.wait)
        if not self._leads(controller):
            return standby()  # who runs when is another's to say now
        return json_answer(encode(turns))

    async def _output(self, request: web.Request, controller: Controller) -> web.StreamResponse:
        if self._relay is None:
            return problem(404, "standard output is not relayed here: settings.log_streams is 0")
        refusal = await self._check(request, controller, *_asker(request))
        return refusal or await self._relay(request, bearer_token(request) or "")

    async def _read_poll(self, request: web.Request, controller: Controller) -> _Poll | web.Response:
        """Return what a long poll asks for, or the refusal of it."""
        replica, incarnation = _asker(request)
        refusal = await self._check(request, controller, replica, incarnation)
        if refusal is not None:
            return refusal
        try:
            wait = _read_wait(request.query)
        except ValueError as error:
            return problem(400, str(error))
        return _Poll(replica, incarnation, request.query.get("known", ""), wait)

    async def _check(
        self, request: web.Request, controller: Controller, replica: str, incarnation: str
    ) -> web.Response | None:
        """Return the refusal of a message for an incarnation that the token, or the state, does not have."""
        token = bearer_token(request)
        if token is None:
            return problem(401, "no bearer token")
        if not await self._identities.may_report(token, replica, incarnation):
            return problem(403, f"the token is not that of incarnation {incarnation!r} of {replica!r}")
        if not self._leads(controller):
            return standby()  # it lost its place while the token was looked at
        if controller.stalled:
            return come_again(FULL_SECONDS, controller.stalled)
        known = controller.state.replicas.get(replica)
        # A name that nobody knows may be any: who makes up many of them has one share for all.
        name = replica if known is not None and known.incarnation == incarnation else ""
        if (seconds := self._rates.wait(name, incarnation, time.monotonic())) > 0:
            return come_again(math.ceil(seconds), "too many messages of this incarnation", status=429)
        if known is not None and (known.former == incarnation or known.ended):
            return problem(410, f"incarnation {incarnation!r} of {replica!r} is over")
        if known is None or known.incarnation != incarnation:
            # Its token is good, so it lives: the word of its start has not come through the loop yet, or the
            # manager has just taken over. A 410 would silence its sidecar for good.
            return come_again(1, f"incarnation {incarnation!r} of {replica!r} is not known yet")
        return None

    async def _body(self, request: web.Request) -> bytes:
        """Return the body of a sidecar's message; raises WireError when it is too long, TimeoutError."""
        if request.content_length is not None and request.content_length > MAX_MESSAGE_BYTES:
            raise WireError(f"message of {request.content_length} bytes is longer than {MAX_MESSAGE_BYTES}")
        return await self._read(request)


def _asker(request: web.Request) -> tuple[str, str]:
    """Return the replica and the incarnation that a query names."""
    return request.query.get("replica", ""), request.query.get("incarnation", "")


def _read_wait(query: Mapping[str, str]) -> float:
    """Return how long an answer may take, seconds. Raises ValueError."""
    try:
        wait = float(query.get("wait", "0"))
    except ValueError:
        raise ValueError(f"wait: {query['wait']!r} is not a number of seconds") from None
    if not 0 <= wait <= _LONGEST_POLL:
        raise ValueError(f"wait: {wait:g} is not between 0 and {_LONGEST_POLL:g} seconds")
    return wait
