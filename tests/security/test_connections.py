"""Slow, silent and many connections: those who make them are cut off, and everybody else is heard."""

import asyncio
import contextlib
import datetime as dt
import errno
import gzip
import logging
import socket
import ssl
import time

import pytest
from aiohttp import web

from specon_manager.backends.kube.admission.webhook import webhook_routes
from specon_manager.backends.kube.certificates.bundle import make_bundle
from specon_manager.backends.kube.certificates.served import ServedCertificate
from specon_manager.runtime.connections import ConnectionLimits, Connections, LimitedSite
from specon_sidecar.wire import MAX_MESSAGE_BYTES

SOON = 9.0
"""More than any limit set here, and less than any default of the libraries."""
HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
async def connect():
    """Return a function that opens a raw connection; all of them are ended with the test."""
    writers = []

    async def opened(listening, **options):
        reader, writer = await asyncio.open_connection("127.0.0.1", listening.port, **options)
        writers.append(writer)
        return reader, writer

    yield opened
    await close(*writers)


async def cut_off(reader, within=SOON):
    """Return what was answered before the connection was ended by the other side; seconds bound it."""
    async with asyncio.timeout(within):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def close(*writers):
    for writer in writers:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


@pytest.fixture
def certificate():
    served = ServedCertificate()
    bundle = make_bundle(("localhost",), dt.datetime.now(dt.UTC))
    served.load(bundle.certificate, bundle.key, bundle.trusted)
    return served


async def test_a_head_that_does_not_come_is_not_waited_for(connect, listening):
    """Nothing, half a head, or a byte now and then: the connection ends at the limit all the same."""
    limits = ConnectionLimits(head=0.3)
    async with listening(connection_limits=limits) as server:
        silent, half, dripping = [await connect(server) for _ in range(3)]
        half[1].write(HEAD)

        async def drip():
            for byte in HEAD * 100:
                dripping[1].write(bytes([byte]))
                await asyncio.sleep(0.05)

        dripper = asyncio.ensure_future(drip())
        began = time.monotonic()
        assert await asyncio.gather(*(cut_off(reader) for reader, _ in (silent, half, dripping))) == [b""] * 3
        assert time.monotonic() - began < SOON
        dripper.cancel()
        assert (await server.tell())[0] == 204


async def test_a_head_in_pieces_is_a_head(connect, listening):
    """The limit is for the head alone: what waits for an answer afterwards may wait."""
    async with listening(connection_limits=ConnectionLimits(head=0.4)) as server:
        reader, writer = await connect(server)
        query = "replica=default/a/worker/0&incarnation=0001&wait=1"
        head = f"GET /v1/instructions?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += f"Authorization: {server.bearer['Authorization']}\r\n\r\n"
        for piece in (head[:30], head[30:-3], head[-3:-1], head[-1:]):
            writer.write(piece.encode())
            await asyncio.sleep(0.01)
        assert (await cut_off(reader)).startswith(b"HTTP/1.1 200 ")


async def test_a_handshake_that_does_not_come_is_not_waited_for(connect, listening, certificate):
    """Half-open TLS connections end at the limit, are counted until then, and stop no report."""
    limits = ConnectionLimits(handshake=0.3, per_peer=4)
    async with listening(certificate=certificate, connection_limits=limits) as server:
        half_open = [await connect(server) for _ in range(3)]
        assert (await server.tell())[0] == 204
        await asyncio.gather(*(cut_off(reader) for reader, _ in half_open))
        assert [(await server.tell())[0] for _ in range(6)] == [204] * 6


async def test_what_is_no_handshake_ends_the_connection(connect, listening, certificate, caplog):
    """Plain HTTP to the TLS port costs a connection and no word in the log."""
    async with listening(certificate=certificate) as server:
        with caplog.at_level(logging.INFO):
            reader, writer = await connect(server)
            writer.write(HEAD + b"\r\n")
            assert b"HTTP" not in await cut_off(reader)
            await close(writer)
            assert (await server.tell())[0] == 204
        assert not caplog.records


async def test_a_peer_with_too_many_connections_gets_no_more(connect, listening):
    """They are closed at once; when some have ended there is room again."""
    async with listening(connection_limits=ConnectionLimits(per_peer=3)) as server:
        held = [await connect(server) for _ in range(3)]
        reader, writer = await connect(server)
        assert await cut_off(reader) == b""
        await close(writer, *(writer for _, writer in held))
        async with asyncio.timeout(SOON):
            while True:
                try:
                    assert (await server.tell())[0] == 204
                    break
                except OSError:
                    await asyncio.sleep(0.01)  # the server has not seen all of the ends yet


async def test_others_are_not_counted_with_a_peer():
    """The bound is by address, and nothing is remembered of who has gone."""
    connections = Connections(ConnectionLimits(per_peer=1))
    assert connections.admit("10.0.0.1")
    assert not connections.admit("10.0.0.1")
    assert connections.admit("10.0.0.2")
    connections.release("10.0.0.1")
    connections.release("10.0.0.2")
    assert (connections.of("10.0.0.1"), connections.refused) == (0, 1)
    assert not connections._open
    assert not connections._told


@pytest.mark.parametrize("turns", range(4))
async def test_a_connection_that_comes_as_the_listener_ends_is_closed(turns):
    """In whichever turn of the event loop: it is neither left open nor counted for ever."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    connections = Connections(ConnectionLimits())
    site = LimitedSite(runner, connections, "127.0.0.1", 0)
    await site.start()
    with socket.create_connection(("127.0.0.1", site.port), timeout=SOON) as peer:
        for _ in range(turns):
            await asyncio.sleep(0)
        await runner.cleanup()
        await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.to_thread(peer.recv, 1) == b""
    assert connections.of("127.0.0.1") == 0


class OutOfFiles(socket.socket):
    """Refuses its first connection as a process does that has no descriptor left."""

    refusals = 1

    def accept(self):
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_a_listener_without_descriptors_listens_on(listening, monkeypatch, caplog):
    """It says so, waits a moment, and takes the connection that waited."""
    listen = LimitedSite._listen

    def listen_without_files(site, family, address):
        found = OutOfFiles(fileno=listen(site, family, address).detach())
        found.settimeout(0)
        return found

    monkeypatch.setattr(LimitedSite, "_listen", listen_without_files)
    async with listening() as server:
        assert (await server.tell())[0] == 204
    assert "cannot accept connections: [Errno 24] Too many open files" in caplog.text


async def test_an_answer_that_is_not_taken_is_given_up(connect, listening):
    """Who asks for much and reads nothing holds the memory of it for a limited time."""

    async def large(request):
        return web.Response(body=b"x" * (64 << 20))

    limits = ConnectionLimits(answer=0.3)
    async with listening(routes=[web.get("/large", large)], connection_limits=limits) as server:
        _, writer = await connect(server, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(SOON):
            while not writer.transport.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.05)
        assert (await server.tell())[0] == 204


@pytest.mark.parametrize("path", ["/v1/reports", "/v1/admission/inject"])
async def test_a_body_that_does_not_come_stops_nobody(connect, listening, path):
    """Bodies that are announced and do not come are given up, with a token and without."""
    routes = webhook_routes(lambda: None, dict, seconds=0.3)
    async with listening(body_seconds=0.3, routes=routes) as server:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n".encode()
        waiting = [await connect(server) for _ in range(20)]
        for _, writer in waiting:
            writer.write(head + b"{")
        assert (await server.tell())[0] == 204
        answers = await asyncio.gather(*(cut_off(reader) for reader, _ in waiting))
        assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 408 Request Timeout"}


async def test_what_unpacks_to_too_much_is_refused(listening):
    """A compressed body counts as what it becomes."""
    bomb = gzip.compress(b" " * (64 << 20))
    assert len(bomb) > MAX_MESSAGE_BYTES / 2
    async with listening() as server:
        for body in (bomb, gzip.compress(b" " * (MAX_MESSAGE_BYTES + 1))):
            status, _ = await server.tell(body, {"Content-Encoding": "gzip"})
            assert status in {400, 413}
        assert (await server.tell())[0] == 204
