"""A client that sends reports of many sidecars as fast as it can or at a given pace, over raw connections.

Run by `report_ingestion.py` in a process of its own: the client of aiohttp would cost more than the server.
Reads one JSON line for each round of load and answers with one.
"""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from specon_manager.runtime.tokens import Tokens
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Checkpoint, Observation, Report, encode

_FIRST_SEQUENCE = 1_000_000_000  # all sequence numbers are equally long, and so are the messages


class Round(Struct, frozen=True, kw_only=True):
    """What to send."""

    port: int
    seconds: float
    connections: int
    per_second: float | None = None
    """None sends the next report on a connection as soon as the last one is answered."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of it; latencies in milliseconds, from the moment when a report was due."""

    sent: int
    refused: int
    seconds: float
    client_seconds: float
    latencies: list[float]


def node_address(number: int) -> str:
    """Return an address of this machine for a node: one peer may not have all connections."""
    return f"127.1.{number // 250 % 250}.{number % 250 + 1}"


class Requests:
    """The next report of each replica in turn, as the bytes of an HTTP request."""

    def __init__(self, speakers: Iterable[tuple[str, str, str]]) -> None:
        """Report for these: replica, incarnation, token."""
        self._parts = [_request(*speaker) for speaker in speakers]
        self._turn = iter(self._all())

    def next(self) -> bytes:
        """Return the next request."""
        return next(self._turn)

    def _all(self) -> Iterator[bytes]:
        sequence = _FIRST_SEQUENCE
        while True:
            sequence += 1
            for before, after in self._parts:
                yield b"%b%d%b" % (before, sequence, after)


class Connection(asyncio.Protocol):
    """One kept connection; a request at a time."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, due: float) -> None:
        """Send the next report; it was due at `due`."""
        assert self._transport is not None
        self._due = due
        self._transport.write(self._load.requests.next())

    def data_received(self, data: bytes) -> None:
        """Take the answer, which fits into one read and has no body when it is a 204."""
        self._load.answered(self, self._due, refused=not data.startswith(b"HTTP/1.1 204"))

    def close(self) -> None:
        """Close."""
        if self._transport is not None:
            self._transport.close()


class Load:
    """One round."""

    def __init__(self, order: Round, requests: Requests, tls: ssl.SSLContext | None = None) -> None:
        self.requests = requests
        self._tls = tls
        self._order = order
        self._idle: list[Connection] = []
        self._latencies: list[float] = []
        self._refused = 0
        self._over = False

    async def run(self) -> Outcome:
        """Send, wait for the last answers, and close."""
        loop = asyncio.get_running_loop()
        order = self._order
        connections = [
            (
                await loop.create_connection(
                    lambda: Connection(self),
                    "127.0.0.1",
                    order.port,
                    ssl=self._tls,
                    local_addr=(node_address(number), 0),
                )
            )[1]
            for number in range(order.connections)
        ]
        began, used = time.perf_counter(), time.process_time()
        if order.per_second is None:
            for connection in connections:
                connection.send(time.perf_counter())
            await asyncio.sleep(order.seconds)
        else:
            self._idle = list(connections)
            await self._paced(began, order.per_second)
        self._over = True
        seconds, used = time.perf_counter() - began, time.process_time() - used
        answered = len(self._latencies)
        await asyncio.sleep(0.3)
        for connection in connections:
            connection.close()
        return Outcome(
            sent=answered,
            refused=self._refused,
            seconds=seconds,
            client_seconds=used,
            latencies=self._latencies[:: max(1, answered // 20_000)],
        )

    async def _paced(self, began: float, per_second: float) -> None:
        """Send each report when it is due, or, where no connection is free, as soon as one is."""
        total = round(self._order.seconds * per_second)
        sent = 0
        while sent < total and time.perf_counter() - began < 3 * self._order.seconds:
            due = min(total, int((time.perf_counter() - began) * per_second) + 1)
            while sent < due and self._idle:
                self._idle.pop().send(began + sent / per_second)
                sent += 1
            await asyncio.sleep(0.001)

    def answered(self, connection: Connection, due: float, *, refused: bool) -> None:
        """Take an answer in, and go on."""
        now = time.perf_counter()
        if self._over:
            return
        self._latencies.append(1000 * (now - due))
        self._refused += refused
        if self._order.per_second is None:
            connection.send(now)
        else:
            self._idle.append(connection)


def _request(name: str, incarnation: str, token: str) -> tuple[bytes, bytes]:
    """Return the texts before and after the sequence number."""
    observation = Observation(name="loss", value=0.1234567, age=0.25, step=123_456)
    report = Report(
        schema=1,
        replica=name,
        incarnation=incarnation,
        session="0123456789abcdef",
        sequence=_FIRST_SEQUENCE,
        category=Category.PROGRESSING,
        category_age=321.5,
        reason="gain 0.023 per interval is above alpha 0.01",
        first=observation,
        last=observation,
        gain=0.0234,
        total_steps=400_000,
        expected_gain=Estimate(value=0.1, uncertainty=0.02),
        remaining_seconds=Estimate(value=5000.0, uncertainty=100.0),
        lines=200_000,
        samples=20_000,
        unparsed=12,
        checkpoint=Checkpoint(step=123_000, path="/volume/checkpoints/step-00123000.pt"),
        cpu_seconds=4321.5,
        memory_bytes=987_654_321,
        format="key-value",
    )
    body = encode(report)
    before, after = body.split(b"%d" % _FIRST_SEQUENCE)
    head = (
        "POST /v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + before, after


def main() -> None:
    """Serve rounds until standard input ends; the arguments are a token directory and a file of names."""
    directory, names = map(Path, sys.argv[1:])
    tokens = Tokens(directory)
    replicas = json.loads(names.read_text())
    requests = Requests((name, "0001", tokens.sidecar(name, "0001")) for name in replicas)
    print("ready", flush=True)
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Round)
        print(msgspec.json.encode(asyncio.run(Load(order, requests).run())).decode(), flush=True)


if __name__ == "__main__":
    main()
