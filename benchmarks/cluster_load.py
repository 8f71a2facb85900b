"""Sidecars of a large cluster over TLS: reports at a pace, and a long poll of each; run by `cluster.py`.

The argument is a file of [replica, incarnation, token]. Each line on standard input is a `report_load.Round`,
answered with its outcome, or `{"poll": N, "port": P}`, answered once so many sidecars wait for instructions.
"""

import asyncio
import json
import ssl
import sys
import time
from asyncio import sslproto
from pathlib import Path
from urllib.parse import quote

import msgspec

from cluster_messages import Poll, Polled
from report_load import Load, Outcome, Requests, Round, node_address

# A buffer of 256 KiB for each connection would be more than this process needs for all else.
sslproto.SSLProtocol.max_size = 4096  # type: ignore[attr-defined]
_AT_ONCE = 50
_NODES = 1000


class Waiting(asyncio.Protocol):
    """One sidecar's connection on which it waits for instructions, again and again."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Ask again, as soon as it is answered."""
        assert self._transport is not None
        if data.startswith(b"HTTP/1.1 "):
            self._transport.write(self._request)


class Sidecars:
    """All of them."""

    def __init__(self, speakers: list[tuple[str, str, str]]) -> None:
        self._speakers = speakers
        self._requests = Requests(speakers)
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self._lost = 0
        self._waiting: list[asyncio.BaseTransport] = []

    async def answer(self, line: str) -> Polled | Outcome:
        """Carry one order out."""
        if '"poll"' in line:
            return await self._poll(msgspec.json.decode(line, type=Poll))
        order = msgspec.json.decode(line, type=Round)
        return await Load(order, self._requests, self._tls).run()

    async def _poll(self, order: Poll) -> Polled:
        began, free = time.perf_counter(), asyncio.Semaphore(_AT_ONCE)

        async def connect(number: int) -> None:
            replica, incarnation, token = self._speakers[number]
            asked = f"replica={quote(replica, safe='')}&incarnation={incarnation}&wait=60"
            head = (
                f"GET /v1/instructions?{asked} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
            )
            loop = asyncio.get_running_loop()
            async with free:
                while True:
                    try:
                        transport, _ = await loop.create_connection(
                            lambda: Waiting(head.encode()),
                            "127.0.0.1",
                            order.port,
                            ssl=self._tls,
                            local_addr=(node_address(number % _NODES), 0),
                        )
                    except ConnectionError:  # a manager may let a connection go that took it too long
                        self._lost += 1
                        await asyncio.sleep(1.0)
                    else:
                        self._waiting.append(transport)
                        return

        await asyncio.gather(*map(connect, range(order.poll)))
        return Polled(time.perf_counter() - began, self._lost)


async def main(speakers: list[tuple[str, str, str]]) -> None:
    """Serve orders until standard input ends."""
    sidecars = Sidecars(speakers)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(msgspec.json.encode(await sidecars.answer(line)).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
