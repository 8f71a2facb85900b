"""A port that passes connections on to the server of the moment, as a Service of a cluster does."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

Backends = Callable[[], Awaitable[Sequence[tuple[str, int]]]]
"""Asked at each connection: addresses, the first that accepts gets it."""
Passable = Callable[[int], Awaitable[None]]
"""Returns as soon as the manager at that port hears and answers."""


async def _always(_: int) -> None:
    """Nobody stands still."""


class Front:
    """Passes bytes on in both directions; TLS is between the two ends."""

    def __init__(self, backends: Backends, passable: Passable = _always) -> None:
        self._backends, self._passable = backends, passable
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.addresses = 0
        """From how many addresses connections come, in turns, as those of pods do; 0: all from one."""
        self._passed = 0

    async def start(self, host: str) -> int:
        """Listen on a free port and return it."""
        self._server = await asyncio.start_server(self._accepted, host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._pass_on(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    def _address(self) -> tuple[str, int] | None:
        if not self.addresses:
            return None
        self._passed += 1
        number = self._passed % self.addresses
        return f"127.1.{number // 250}.{1 + number % 250}", 0

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for host, port in await self._backends():
            try:
                theirs, ours = await asyncio.open_connection(host, port, local_addr=self._address())
            except OSError:
                continue
            try:
                # As soon as one side has ended, so has the connection: HTTP closes no half.
                ways = [
                    asyncio.ensure_future(self._copy(reader, ours, port)),
                    asyncio.ensure_future(self._copy(theirs, writer, port)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
            finally:
                ours.close()
            return

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        while data := await reader.read(1 << 16):
            await self._passable(port)
            writer.write(data)
            await writer.drain()
