"""Accepting connections so that a few peers, however slow, keep nobody else from being heard.

aiohttp reads a request's head for as long as it takes, and asyncio shakes hands for a minute with any
peer that connects. Here a connection has so many seconds for its handshake, so many for its first head and so
many to take an answer; a peer has at most so many connections, the handshakes among them. What comes later on
a kept connection is bounded by the runner's `keepalive_timeout`, and a body by its reader.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta, Struct

_log = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_OUT_OF_FILES_SECONDS: Final = 0.2
_HEAD_END: Final = b"\r\n\r\n"

KEPT_SECONDS: Final = 120.0
"""For `keepalive_timeout`: longer than the 90 s of Go's clients, among them the API server. Who closes first
loses the other's next request."""


class ConnectionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one connection may take, and one peer; times in seconds."""

    handshake: Annotated[float, Meta(gt=0)] = 10.0
    head: Annotated[float, Meta(gt=0)] = 10.0
    """From the end of the handshake to the end of the first request's head."""
    answer: Annotated[float, Meta(gt=0)] = 60.0
    """A peer that takes nothing of its answer for so long is cut off."""
    per_peer: Annotated[int, Meta(ge=1)] = 512
    """Connections from one address: that of a node with all of its pods where addresses are translated."""


class Connections:
    """The connections that are open, by peer. Shared by the listeners of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.refused = 0
        """Connections that were closed unheard, since their peer had too many."""
        self._open: Counter[str] = Counter()
        self._told: set[str] = set()

    def admit(self, peer: str) -> bool:
        """Count a connection of `peer`; False where it has too many already."""
        if self._open[peer] >= self.limits.per_peer:
            self.refused += 1
            if peer not in self._told:
                self._told.add(peer)
                _log.warning("%s has %d connections: more are closed", peer, self.limits.per_peer)
            return False
        self._open[peer] += 1
        return True

    def release(self, peer: str) -> None:
        """Count one less."""
        self._open[peer] -= 1
        if self._open[peer] <= 0:
            # No entry is left behind: addresses are many.
            del self._open[peer]
            self._told.discard(peer)

    def of(self, peer: str) -> int:
        """Return how many connections `peer` has open."""
        return self._open.get(peer, 0)


class LimitedSite(web.BaseSite):
    """A TCP listener of an `AppRunner` that keeps to the limits."""

    def __init__(
        self,
        runner: web.AppRunner,
        connections: Connections,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._connections = connections
        self._host = host
        self.port = port
        """The one asked for, 0 for a free one; the one that is listened on after the start."""
        self._tls = tls
        self._application = runner.server
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []
        self._resumptions: dict[socket.socket, asyncio.TimerHandle] = {}

    @property
    def name(self) -> str:
        """The address."""
        return f"{'http' if self._tls is None else 'https'}://{self._host}:{self.port}"

    async def start(self) -> None:
        """Listen. Raises OSError, which names the port, where it is taken."""
        await super().start()
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            self._host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                listening = self._listen(family, (address[0], self.port))
                self.port = listening.getsockname()[1]  # of several addresses all get the first one's
                self._sockets.append(listening)
        except OSError:
            self._close()
            raise
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)

    async def stop(self) -> None:
        """Listen no more; connections that are heard go on until the runner ends them."""
        await super().stop()
        self._close()
        # A task that is cancelled before it has begun closes nothing: those of the last connections begin.
        await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _listen(self, family: int, address: tuple[str | int, int]) -> socket.socket:
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # The host name may stand for both families, each with a socket of its own.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.settimeout(0)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            raise OSError(error.errno, f"{address[0]}:{address[1]}: {error.strerror}") from error
        return listening

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if (resumption := self._resumptions.pop(listening, None)) is not None:
                resumption.cancel()
            loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        """Take the connections that wait.

        Not by `loop.sock_accept`: where it is cancelled it may lose a connection that it has just accepted.
        """
        for _ in range(_BACKLOG):  # then others have their turn
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # it went while it waited
            except OSError as error:
                _log.error("cannot accept connections: %s", error)
                self._pause(listening)
                return
            peer = str(address[0])
            if not self._connections.admit(peer):
                accepted.close()
                continue
            task = asyncio.ensure_future(self._begin(accepted, peer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _pause(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._resumptions[listening] = loop.call_later(
            _OUT_OF_FILES_SECONDS, loop.add_reader, listening, self._accept, listening
        )

    async def _begin(self, accepted: socket.socket, peer: str) -> None:
        """Shake hands and hand the connection to the application."""
        loop = asyncio.get_running_loop()
        limits = self._connections.limits
        watched: _Watched | None = None

        def made() -> asyncio.Protocol:
            nonlocal watched
            assert self._application is not None
            watched = _Watched(self._application(), self._connections, peer)
            return watched

        try:
            accepted.settimeout(0)
            await loop.connect_accepted_socket(
                made,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else limits.handshake,
            )
        except (OSError, TimeoutError) as error:
            # Scanners, probes and peers that do not trust us: their trouble, or at least nothing to do here.
            _log.debug("%s: no handshake: %s", peer, error)
        finally:
            if watched is None or not watched.begun:
                accepted.close()
                self._connections.release(peer)


class _Watched(asyncio.Protocol):
    """Passes everything on to the application's protocol, and ends a connection that keeps it waiting."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections, peer: str) -> None:
        self._inner = inner
        self._connections = connections
        self._peer = peer
        self._transport: asyncio.Transport | None = None
        self._tail: bytes | None = b""
        """The last bytes of the first head; None once it was read whole."""
        self._timer: asyncio.TimerHandle | None = None
        self.begun = False
        """Whether the connection is counted here: it is released at its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.begun = True
        self._transport = transport
        self._within(self._connections.limits.head)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._tail is not None:
            seen = self._tail + data
            self._tail = None if _HEAD_END in seen else seen[1 - len(_HEAD_END) :]
            if self._tail is None:
                self._in_time()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._within(self._connections.limits.answer)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._tail is None:
            self._in_time()
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._connections.release(self._peer)
        self._inner.connection_lost(exc)

    def _within(self, seconds: float) -> None:
        self._in_time()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cut)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(RuntimeError):  # of a transport that is closing
                self._transport.abort()
