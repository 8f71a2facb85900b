"""One request to the API server and the reading of its answer, before anybody knows what it is about."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import msgspec
from msgspec import Struct

from specon_manager.backends.kube.transport.errors import AnswerTooLargeError, ApiUnavailableError, error_of
from specon_manager.backends.kube.transport.resources import Object

MAX_OBJECT_BYTES: Final = 16 << 20


class Call(Struct, frozen=True, kw_only=True):
    """One request, before it is sent."""

    verb: str
    resource: str
    method: str
    path: str
    query: Mapping[str, str | int] = {}
    body: Any = None
    content_type: str = "application/json"
    max_bytes: int = MAX_OBJECT_BYTES

    @property
    def target(self) -> str:
        """Path and query; empty parameters are left out."""
        chosen = {name: value for name, value in self.query.items() if value != ""}
        return f"{self.path}?{urlencode(chosen)}" if chosen else self.path

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


async def decode_answer(call: Call, response: aiohttp.ClientResponse) -> Object:
    """Read an answer to its end and return the object in it; raises what the answer stands for."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > call.max_bytes:
            response.close()
            raise AnswerTooLargeError(f"{call}: the answer is longer than {call.max_bytes} bytes")
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if response.ok:
            raise ApiUnavailableError(f"{call}: the answer is not JSON: {error}") from error
        decoded = None
    if not response.ok:
        raise error_of(response.status, decoded, str(call), response.headers.get("Retry-After"))
    if not isinstance(decoded, dict):
        raise ApiUnavailableError(f"{call}: the answer is no object")
    return decoded


async def text_of(call: Call, response: aiohttp.ClientResponse) -> str:
    """Read an answer as text, no more of it than `max_bytes`; raises what it stands for where it is none."""
    if not response.ok:
        await decode_answer(call, response)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > call.max_bytes:
            break
    return bytes(body[: call.max_bytes]).decode("utf-8", "replace")


@contextlib.asynccontextmanager
async def honest(call: Call, limit: asyncio.Timeout) -> AsyncIterator[None]:
    """Turn what a transport may raise, and the time limit, into ApiUnavailableError."""
    try:
        async with limit:
            yield
    except TimeoutError as late:
        raise ApiUnavailableError(f"{call}: no answer in time") from late
    except (aiohttp.ClientError, OSError) as error:
        raise ApiUnavailableError(f"{call}: {str(error) or type(error).__name__}") from error


async def lines_of(call: Call, response: aiohttp.ClientResponse, silence: float) -> AsyncIterator[bytes]:
    """Yield the lines of an answer as they come; the last one may lack its end."""
    rest = bytearray()
    while True:
        async with honest(call, asyncio.timeout(silence)):
            try:
                chunk = await response.content.readany()
            except RuntimeError as error:  # what aiohttp raises where the connection is closed already
                raise aiohttp.ClientConnectionError(str(error)) from error
        if not chunk:
            break
        *whole, last = chunk.split(b"\n")
        for line in whole:
            if rest:
                line = bytes(rest) + line  # noqa: PLW2901  (its beginning came before)
                rest.clear()
            if line.strip():
                yield line
        rest += last
        if len(rest) > MAX_OBJECT_BYTES:
            raise ApiUnavailableError(f"{call}: an event is longer than {MAX_OBJECT_BYTES} bytes")
    if rest.strip():
        yield bytes(rest)


def event_in(call: Call, line: bytes) -> tuple[str, Object]:
    """Return type and object of an event of a watch; raises the error that an ERROR event stands for."""
    try:
        event = msgspec.json.decode(line)
        kind, item = event["type"], event["object"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as error:
        raise ApiUnavailableError(f"{call}: no event in {line[:100]!r}") from error
    if not isinstance(kind, str) or not isinstance(item, dict):
        raise ApiUnavailableError(f"{call}: no event in {line[:100]!r}")
    if kind == "ERROR":
        code = item.get("code")
        raise error_of(code if isinstance(code, int) else 500, item, str(call), None)
    return kind, item
