"""What a trainer prints, from the API server to the sidecar of the same pod.

Why so, and not by a copy in the trainer's container: whatever copies there ends with the container's first
process, before the last lines, and its death stops the trainer. This way costs a connection for each pod, and
touches no trainer. A slow sidecar slows the reading alone: the kubelet reads from the file that it keeps.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
from aiohttp import web

from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError

PodOf = Callable[[str], Awaitable[tuple[str, str] | None]]
"""Namespace and name of the pod to which a token is bound."""

_CONTAINER: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SINCE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})")
_LARGE: Final = 65_536  # bytes: so much at once is a log that is caught up with
_PAUSES: Final = (1.0, 0.1)  # seconds after a piece, and after a large one: 1.2 MiB/s at most
_LOOK_SECONDS: Final = 15.0  # between two looks whether a sidecar whose trainer prints nothing is still there
_SILENT_LOOKS: Final = 40  # a stream that says nothing for ten minutes may be dead: its sidecar asks again
_UNAVAILABLE: Final = 503


class LogRelay:
    """Relays so many logs at once, one of each pod; further sidecars are told to come again."""

    def __init__(self, api: Api, pod_of: PodOf, most: int) -> None:
        """Read by `api`, which has a connection for each of `most`."""
        self._api, self._pod_of, self._most = api, pod_of, most
        self._open: dict[tuple[str, str], asyncio.Timeout] = {}
        """The logs relayed now, by namespace and name of the pod, and what ends each."""

    @property
    def streams(self) -> int:
        """How many are relayed now."""
        return len(self._open)

    async def __call__(self, request: web.Request, token: str) -> web.StreamResponse:
        """Answer a sidecar with the log of a container of its pod: of none else, whatever it asks for."""
        container, since = request.query.get("container", ""), request.query.get("since", "")
        if not _CONTAINER.fullmatch(container) or (since and not _SINCE.fullmatch(since)):
            return _refuse(400, "container, since: a name and a time such as 2026-11-23T07:00:00Z are wanted")
        pod = await self._pod_of(token)
        if pod is None:
            return _refuse(403, "the token is bound to no pod")
        former = self._open.get(pod)
        if former is None and self.streams >= self._most:
            return _refuse(_UNAVAILABLE, f"{self._most} logs are relayed already: settings.log_streams")
        if former is not None and not former.expired():
            former.reschedule(0.0)  # one for each pod: none of them takes the places of others
        try:
            async with asyncio.timeout(None) as ending:
                self._open[pod] = ending
                return await self._relay(request, *pod, container, since)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # who asks twice may have stopped reading here
            return _refuse(_UNAVAILABLE, "the log is relayed to a later request")
        finally:
            if self._open.get(pod) is ending:
                del self._open[pod]

    async def _relay(
        self, request: web.Request, namespace: str, name: str, container: str, since: str
    ) -> web.StreamResponse:
        query = {"container": container, "sinceTime": since, "timestamps": "true"}
        try:
            async with self._api.output(name, namespace, query=query) as pieces:
                response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
                response.enable_chunked_encoding()
                await response.prepare(request)
                await _copy(pieces, response, request)
                return response
        except ApiError as error:
            return _refuse(409 if error.status == 400 else _UNAVAILABLE, str(error))  # noqa: PLR2004  (Bad Request)
        except ApiUnavailableError as error:
            return _refuse(_UNAVAILABLE, str(error))


async def _copy(pieces: aiohttp.StreamReader, response: web.StreamResponse, request: web.Request) -> None:
    """Copy until the log ends, the sidecar has gone, or nothing has come for long; raises nothing else.

    After each piece there is a pause: many short lines are one piece then, and nobody can print so much that
    others are not served.
    """
    silent = 0
    while silent < _SILENT_LOOKS and request.transport is not None and not request.transport.is_closing():
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                piece = await pieces.readany()
        except TimeoutError:
            silent += 1
            continue
        except (aiohttp.ClientError, OSError):
            return
        if not piece:
            return
        silent = 0
        try:
            await response.write(piece)
        except OSError:  # its connection is closed
            return
        await asyncio.sleep(_PAUSES[len(piece) >= _LARGE])


def _refuse(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
