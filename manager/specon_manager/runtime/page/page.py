"""The page's routes: its files for everybody, what they show for those who may see it. All of it only reads.

    GET /page/           the page
    GET /page/NAME       one of its files
    GET /page/view       the picture, JSON; with the token
    GET /page/log        the end of the log of `?replica=NAME`, or where it is, JSON; with the token
    GET /page/events     the picture, again whenever it has changed: server-sent events; with the token

The token is shown as `Authorization: Bearer`, never as a cookie: cookies are sent to every port of a host,
and by other sites' pages too. The page's scripts keep it for the tab in which it was given.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from aiohttp import web

from specon_manager.model.expected_start import ExpectedStart
from specon_manager.runtime.controller import Controller, Stepped
from specon_manager.runtime.identities import IdentityUnavailableError
from specon_manager.runtime.page.curves import Curves
from specon_manager.runtime.page.feed import HEARTBEAT, LISTENERS, PACE, CrowdedError, Feed
from specon_manager.runtime.page.files import ENTRY, SECURITY_HEADERS, read_files
from specon_manager.views.holding import Holding
from specon_manager.views.log_tail import LogTail
from specon_manager.views.names import cut
from specon_manager.views.page import SCHEMA, Point, picture

_log = logging.getLogger(__name__)
_SEND_SECONDS: Final = 20.0  # after which a listener that takes nothing is dropped
_RETRY_SECONDS: Final = 2
_CROWDED_SECONDS: Final = 10

Permitted = Callable[[str], Awaitable[bool]]
"""Whether the holder of a token may see the page; raises IdentityUnavailableError where nobody knows."""
TailOf = Callable[[str], Awaitable[LogTail | None]]
"""Returns the end of the log of a replica, or where it is; None where nobody knows."""


class Page:
    """The status page of a manager, or of a standby while it has no controller."""

    def __init__(
        self,
        permitted: Permitted,
        *,
        manager: str = "",
        pace: float = PACE,
        heartbeat: float = HEARTBEAT,
        listeners: int = LISTENERS,
        recheck_seconds: float = 60.0,
    ) -> None:
        """Show what a controller knows to those whose token is `permitted`; `manager` says whose page it is.

        Who watches on is asked for again every `recheck_seconds`: permissions end.
        """
        self._permitted, self._manager, self._recheck_seconds = permitted, manager, recheck_seconds
        self._files = read_files()
        self._curves = Curves()
        self._feed = Feed(self._draw, pace=pace, heartbeat=heartbeat, listeners=listeners)
        self._controller: Controller | None = None
        self._starts_of: Callable[[float], Mapping[str, ExpectedStart]] = lambda _: {}
        self._holding: Holding | None = None
        self._tail_of: TailOf | None = None

    @property
    def controller(self) -> Controller | None:
        """Whose state is shown; None on a standby."""
        return self._controller

    @controller.setter
    def controller(self, controller: Controller | None) -> None:
        if self._controller is not None and self._observe in self._controller.observers:
            self._controller.observers.remove(self._observe)
        self._controller = controller
        self._curves = Curves()
        self._holding = None if controller is None else Holding(controller.clock.now())
        if controller is not None:
            controller.observers.append(self._observe)
        self._feed.tell_changed()

    @property
    def routes(self) -> list[web.RouteDef]:
        """For the application that serves the page."""
        return [
            web.get("/page", self._to_page),
            web.get("/page/", self._file),
            web.get("/page/view", self._view),
            web.get("/page/log", self._log),
            web.get("/page/events", self._events, allow_head=False),
            web.get("/page/{name}", self._file),
        ]

    def curve_of(self, replica: str, most: int) -> list[Point]:
        """Return at most that many points of the known part of a replica's curve, oldest first."""
        return self._curves.of(replica, most)

    def close(self) -> None:
        """Tell all who watch that this was the last picture. Call it before the server ends."""
        self._feed.end()

    def _observe(self, stepped: Stepped) -> None:
        self._curves.observe(stepped)
        if self._holding is not None:
            self._holding.observe(stepped.before, stepped.after, stepped.now)
        if stepped.after is not stepped.before:
            self._feed.tell_changed()

    def _draw(self) -> bytes:
        controller = self._controller
        if controller is None:
            return msgspec.json.encode({"schema": SCHEMA, "standby": True, "manager": self._manager})
        state = controller.state.flatten()
        now = controller.clock.now()
        if self._holding is not None:
            self._holding.account(state, now)
        return msgspec.json.encode(
            picture(
                state,
                now,
                self._curves.of,
                holding=self._holding,
                manager=self._manager,
                starts=self._starts_of(now).get,
            )
        )

    def show_starts(self, starts_of: Callable[[float], Mapping[str, ExpectedStart]]) -> None:
        """Show when jobs that wait are expected to start, by job, in seconds from a moment."""
        self._starts_of = starts_of

    def show_logs(self, tail_of: TailOf) -> None:
        """Show the end of the log of a replica whose row is opened."""
        self._tail_of = tail_of

    def tell_changed(self) -> None:
        """Say that something beside the controller's state is not as it was."""
        self._feed.tell_changed()

    async def _to_page(self, request: web.Request) -> web.Response:
        del request
        return web.Response(status=308, headers={**SECURITY_HEADERS, "Location": "/page/"})

    async def _file(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info.get("name", ENTRY))
        if file is None:
            return _problem(404, "the page has no such file")
        return web.Response(
            body=file.body, content_type=file.content_type, charset="utf-8", headers=SECURITY_HEADERS
        )

    async def _view(self, request: web.Request) -> web.Response:
        refusal = await self._refusal(request)
        if refusal is not None:
            return refusal
        return web.Response(body=self._draw(), content_type="application/json", headers=SECURITY_HEADERS)

    async def _log(self, request: web.Request) -> web.Response:
        refusal = await self._refusal(request)
        if refusal is not None:
            return refusal
        name, controller = request.query.get("replica", ""), self._controller
        known = controller is not None and name in controller.state.replicas
        if not known:
            return _problem(404, f"replica: there is no {cut(name)!r}")
        tail = None if self._tail_of is None else await self._tail_of(name)
        if tail is None:
            tail = LogTail(path="", note="Nobody here knows where its log is.")
        return web.Response(
            body=msgspec.json.encode(tail), content_type="application/json", headers=SECURITY_HEADERS
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        refusal = await self._refusal(request)
        if refusal is not None:
            return refusal
        if self._feed.listeners >= self._feed.most:
            return _later(_CROWDED_SECONDS, f"{self._feed.most} watch already: close another page, or wait")
        response = web.StreamResponse(headers={**SECURITY_HEADERS, "Content-Type": "text/event-stream"})
        async with contextlib.aclosing(self._feed.events()) as events:
            with contextlib.suppress(ConnectionError, CrowdedError):
                await response.prepare(request)
                checked = time.monotonic()
                async for event in events:
                    if time.monotonic() - checked >= self._recheck_seconds:
                        if await self._refusal(request) is not None:
                            break
                        checked = time.monotonic()
                    if not await _has_sent(request, response, event):
                        break
        return response

    async def _refusal(self, request: web.Request) -> web.Response | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            response = _problem(401, "no bearer token")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        try:
            permitted = await self._permitted(token.strip())
        except IdentityUnavailableError as error:
            return _later(_RETRY_SECONDS, f"the token cannot be looked at now: {error}")
        return None if permitted else _problem(403, "this token may not see the page")


async def _has_sent(request: web.Request, response: web.StreamResponse, event: bytes) -> bool:
    """Send an event; False where the listener does not take it, and is cut off then."""
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await response.write(event)
    except TimeoutError:
        _log.info("a listener of the page took nothing for %g s", _SEND_SECONDS)
        if request.transport is not None:
            request.transport.abort()
        return False
    return True


def _problem(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status, headers=SECURITY_HEADERS)


def _later(seconds: int, message: str) -> web.Response:
    response = _problem(503, message)
    response.headers["Retry-After"] = str(seconds)
    return response
