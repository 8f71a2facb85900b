"""How calls are made: within a time limit, reading tried again, with credentials that are renewed once."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import aiohttp

from specon_manager.backends.kube.transport.access import Access
from specon_manager.backends.kube.transport.call import Call, decode_answer, honest
from specon_manager.backends.kube.transport.errors import (
    AnswerTooLargeError,
    ApiError,
    ApiUnavailableError,
)
from specon_manager.backends.kube.transport.resources import Object

_TRIES: Final = 3
_FIRST_PAUSE: Final = 0.1  # seconds; doubled from try to try
_UNAUTHORIZED: Final = 401

ObserveCall = Callable[[str, str, str, float], None]
"""Told of each request: verb, plural of the resource, status (`unavailable`: no answer), seconds."""
Sleep = Callable[[float], Awaitable[None]]


class CallSender:
    """Sends calls to one API server; raises ApiError (it said no) or ApiUnavailableError (nobody knows)."""

    def __init__(
        self,
        access: Access,
        *,
        seconds: float,
        observe: ObserveCall | None = None,
        rng: random.Random | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Send by `access`; `seconds` is the limit of a call that names none."""
        self._access = access
        self._seconds = seconds
        self._observe = observe
        self._rng = rng or random.Random()  # noqa: S311  (jitter, not cryptography)
        self._sleep = sleep

    async def close(self) -> None:
        """Close all connections."""
        await self._access.close()

    async def fetch_object(self, call: Call, seconds: float | None = None) -> Object:
        """Make a call within its time limit; what only reads is tried again while there is time."""
        limit = self._seconds if seconds is None else seconds
        deadline = asyncio.get_running_loop().time() + limit
        tries = _TRIES if call.method == "GET" else 1
        for number in range(1, tries + 1):
            pause = _FIRST_PAUSE * 2.0**number * self._rng.uniform(0.5, 1.0)
            try:
                async with honest(call, asyncio.timeout_at(deadline)):
                    return await self._once(call)
            except AnswerTooLargeError:
                raise
            except ApiError as error:
                if not error.throttled or number == tries:
                    raise
                pause = max(pause, error.retry_after or 0.0)
                if asyncio.get_running_loop().time() + pause >= deadline:
                    raise
            except ApiUnavailableError:
                if number == tries or asyncio.get_running_loop().time() + pause >= deadline:
                    raise
            await self._sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _once(self, call: Call) -> Object:
        async with self.open_answer(call) as response:
            return await decode_answer(call, response)

    @contextlib.asynccontextmanager
    async def open_answer(
        self, call: Call, seconds: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give the answer, which has to begin within so many seconds; it is observed once it was read."""
        began = time.monotonic()
        code = "unavailable"
        limit = contextlib.nullcontext() if seconds is None else honest(call, asyncio.timeout(seconds))
        try:
            async with limit:
                response = await self._send(call)
            code = str(response.status)
            try:
                yield response
            finally:
                response.release()
        finally:
            self._note(call, code, began)

    @contextlib.asynccontextmanager
    async def open_stream(self, call: Call, seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give an answer that goes on; it has to begin within so many seconds, and is observed then."""
        began = time.monotonic()
        code = "unavailable"
        try:
            async with honest(call, asyncio.timeout(seconds)):
                response = await self._send(call)
                code = str(response.status)
                if not response.ok:
                    try:
                        await decode_answer(call, response)
                    finally:
                        response.close()
        finally:
            self._note(call, code, began)
        try:
            yield response
        finally:
            response.close()

    async def _send(self, call: Call) -> aiohttp.ClientResponse:
        """Send it; once more with new credentials where the server does not take the present ones."""
        for renewed in (False, True):
            response = await self._access.send(
                call.method, call.target, body=call.body, content_type=call.content_type
            )
            if response.status != _UNAUTHORIZED or renewed:
                break
            response.release()
            if not await self._access.renew():
                raise ApiError(_UNAUTHORIZED, "Unauthorized", f"{call}: the credentials are not accepted")
        return response

    def _note(self, call: Call, code: str, began: float) -> None:
        if self._observe is not None:
            self._observe(call.verb, call.resource, code, time.monotonic() - began)
