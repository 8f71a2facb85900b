"""An API server that answers what a test tells it to, over real HTTP on loopback."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiStub:
    """Gives each request to `handler` and remembers it."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        """Method, path, query and body of each."""
        self.headers: list[dict[str, str]] = []
        self.answers: list[Any] = []
        """What comes next: a status and a body, or a handler; the last one comes again and again."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        self.requests.append(
            (request.method, request.path, dict(request.query), json.loads(body) if body else None)
        )
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            found: web.StreamResponse = await answer(request)
            return found
        status, content, *headers = answer
        return web.json_response(content, status=status, headers=headers[0] if headers else None)


@contextlib.asynccontextmanager
async def api_stub() -> AsyncIterator[ApiStub]:
    """Serve while the context lasts."""
    stub = ApiStub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stub
    finally:
        await runner.cleanup()


def lines(*events: Any, broken: bool = False, hold: asyncio.Event | None = None) -> Handler:
    """Return a handler that streams a watch: JSON lines, then a clean end, a broken one, or until `hold`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for event in events:
            await response.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        if hold is not None:
            await hold.wait()
        if broken:
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write_eof()
        return response

    return handle
