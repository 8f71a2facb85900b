"""A server of one route, for one trainer that is near: HTTP/1.1, a request for each connection.

Without TLS, for nothing leaves the machine: clients take an `http` URL as it is, and use the certificate of
the protocol's third variable for `https` alone. A web framework would cost each sidecar memory.
"""

import asyncio
import hmac
import json
import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from specon_sidecar.hook.messages import Progress
from specon_sidecar.status_server.messages import MAX_BODY, StatusReader

_LOG: Final = logging.getLogger(__name__)
_ROUTE: Final = re.compile(
    r"POST /apis/trainer\.kubeflow\.org/v1alpha1"
    r"/namespaces/[^/ ]{1,63}/trainjobs/[^/ ]{1,253}/status HTTP/1\.[01]"
)
_MAX_HEAD: Final = 16_384
_MAX_UNREAD: Final = _MAX_HEAD + MAX_BODY
_SECONDS: Final = 10.0
_AT_ONCE: Final = 8
_REFUSED_AT_ONCE: Final = 64
"""Beyond those that are heard: so many are told to come again, further ones are closed unheard."""
_AGAIN_SECONDS: Final = 1
_BUSY: Final = f"{_AT_ONCE} requests are under way: come again in {_AGAIN_SECONDS} s"
_LENGTH: Final = re.compile(r"[0-9]{1,7}")


class StatusServer:
    """Hands on what a trainer reports with the right token."""

    def __init__(self, port: int, token: str, take: Callable[[Progress], None]) -> None:
        """Listen on this port of loopback, once `serve` runs; 0 is a free one."""
        self._port, self._token, self._take = port, token, take
        self._reader = StatusReader()
        self._open = 0
        self.listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The port, as soon as it is listened on."""

    async def serve(self) -> None:
        """Listen until cancelled; a port that is taken is said, and then nobody listens."""
        try:
            server = await asyncio.start_server(self._answer, "127.0.0.1", self._port, limit=_MAX_HEAD)
        except OSError as error:
            _LOG.warning("no status is taken on port %d: %s", self._port, error.strerror)
            return
        self.listening.set_result(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(_SECONDS):
                if self._open <= _AT_ONCE:
                    writer.write(_response(await self._judge(reader)))
                    await writer.drain()
                elif self._open <= _AT_ONCE + _REFUSED_AT_ONCE:
                    writer.write(_response(HTTPStatus.SERVICE_UNAVAILABLE))
                    writer.write_eof()
                    # One that is closed with something unread in it is reset, and its answer is lost.
                    left = _MAX_UNREAD
                    while left > 0 and (part := await reader.read(left)):
                        left -= len(part)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # it is gone, or too slow
        finally:
            self._open -= 1
            writer.close()

    async def _judge(self, reader: asyncio.StreamReader) -> HTTPStatus:
        """Read a request, hand on what it says, and return its answer."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        first, *lines = head.split("\r\n")
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        if not _ROUTE.fullmatch(first):
            return HTTPStatus.NOT_FOUND
        shown = fields.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode("latin-1"), self._token.encode()):
            return HTTPStatus.FORBIDDEN
        length = fields.get("content-length", "")
        if not _LENGTH.fullmatch(length):
            return HTTPStatus.LENGTH_REQUIRED
        if int(length) > MAX_BODY:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        try:
            progress = self._reader.take(await reader.readexactly(int(length)))
        except ValueError:
            return HTTPStatus.UNPROCESSABLE_ENTITY
        if progress is not None:
            self._take(progress)
        return HTTPStatus.OK


def _response(status: HTTPStatus) -> bytes:
    # As the API server says it, which is what clients of the protocol know.
    busy = status is HTTPStatus.SERVICE_UNAVAILABLE
    words = _BUSY if busy else status.phrase
    said = {} if status is HTTPStatus.OK else {"kind": "Status", "message": words, "code": status.value}
    body = json.dumps(said).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
    if busy:
        head += f"Retry-After: {_AGAIN_SECONDS}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
