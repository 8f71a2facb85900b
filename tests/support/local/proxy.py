"""An HTTP proxy that loses, doubles, delays, repeats and mangles what sidecars and manager say."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp import web

HARM: Final = 0.5
"""Share of the messages that something happens to."""
HARMS: Final = ("lost", "answer lost", "doubled", "late", "repeated", "malformed", "answer malformed")
LATE_SECONDS: Final = 0.4

_GARBAGE: Final = (
    b"",
    b"{",
    b"[]",
    b'"\xff"',
    b'{"schema": 1}',
    b'{"schema": 99, "sequence": "many"}',
    b"<html>Bad Gateway</html>",
    b"[" * 100_000,
)


class Said:
    """One message on its way."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.method = request.method
        self.path = request.rel_url
        self.body = body
        self.headers = {
            name: request.headers[name]
            for name in ("Authorization", "Content-Type")
            if name in request.headers
        }
        self._transport = request.transport

    def break_off(self) -> web.Response:
        """Close the connection without an answer."""
        if self._transport is not None:
            self._transport.abort()
        return web.Response(status=500)


_Way = Callable[[Said], Awaitable[web.StreamResponse]]


class Proxy:
    """To be used as an asynchronous context; `upstream` is set once the manager listens."""

    def __init__(self, seed: int, harm: float = HARM) -> None:
        self.upstream: str | None = None
        self.url = ""
        self.done: Counter[str] = Counter()
        """How often which harm was done."""
        self._rng, self._harm = random.Random(seed), harm
        ways: tuple[_Way, ...] = (
            self._lost,
            self._answer_lost,
            self._doubled,
            self._late,
            self._repeated,
            self._malformed,
            self._answer_malformed,
        )
        self._ways = dict(zip(HARMS, ways, strict=True))
        self._left: list[str] = []
        self._later: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        said = Said(request, await request.read())
        if self._rng.random() >= self._harm:
            return await self._pass(said)
        harm = self._next_harm()
        self.done[harm] += 1
        return await self._ways[harm](said)

    def _next_harm(self) -> str:
        """Draw one of those left, so that each comes up before one comes again."""
        if not self._left:
            self._left = self._rng.sample(list(self._ways), len(self._ways))
        return self._left.pop()

    async def _pass(self, said: Said) -> web.Response:
        if self.upstream is None:
            return web.Response(status=503)
        try:
            async with self._session.request(
                said.method, self.upstream + str(said.path), data=said.body or None, headers=said.headers
            ) as response:
                return web.Response(
                    status=response.status, body=await response.read(), content_type=response.content_type
                )
        except aiohttp.ClientError:
            return web.Response(status=502)

    async def _lost(self, said: Said) -> web.StreamResponse:
        return said.break_off()

    async def _answer_lost(self, said: Said) -> web.StreamResponse:
        await self._pass(said)
        return said.break_off()

    async def _doubled(self, said: Said) -> web.StreamResponse:
        first, _ = await asyncio.gather(self._pass(said), self._pass(said))
        return first

    async def _late(self, said: Said) -> web.StreamResponse:
        await asyncio.sleep(self._rng.uniform(0, LATE_SECONDS))
        return await self._pass(said)

    async def _repeated(self, said: Said) -> web.StreamResponse:
        """Pass it on, and again when newer ones have overtaken it."""

        async def again() -> None:
            await asyncio.sleep(self._rng.uniform(0, LATE_SECONDS))
            await self._pass(said)

        task = asyncio.create_task(again())
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return await self._pass(said)

    async def _malformed(self, said: Said) -> web.StreamResponse:
        said.body = self._mangled(said.body)
        return await self._pass(said)

    async def _answer_malformed(self, said: Said) -> web.StreamResponse:
        answer = await self._pass(said)
        body = answer.body if isinstance(answer.body, bytes) else b""
        status = self._rng.choice((answer.status, 200, 302, 500, 503))
        return web.Response(status=status, body=self._mangled(body))

    def _mangled(self, body: bytes) -> bytes:
        """Return something that no reader may take for the message."""
        if len(body) > 1 and self._rng.random() < 0.5:
            return body[: self._rng.randrange(1, len(body))]
        return self._rng.choice(_GARBAGE)
