"""TLS connections are cheap enough for ten thousand sidecars."""

import asyncio
import ssl
from asyncio import sslproto
from datetime import UTC, datetime

import pytest

from specon_manager.backends.kube.certificates.bundle import make_bundle
from specon_manager.runtime.tls_buffers import BYTES, use_small_tls_buffers


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    """Return TLS contexts of a server and of its clients; afterwards buffers are as they were."""
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)
    bundle = make_bundle(["localhost"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(bundle.certificate)
    (tmp_path / "tls.key").write_bytes(bundle.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    return server, ssl.create_default_context(cadata=bundle.trusted)


async def test_a_message_longer_than_the_buffer_arrives_whole(contexts):
    """What asyncio sets aside is as long as we say, and what is longer is read in parts, both ways."""
    use_small_tls_buffers()
    sent = bytes(range(256)) * (BYTES // 64)

    async def echo(reader, writer):
        writer.write(await reader.readexactly(len(sent)))
        await writer.drain()
        writer.close()

    serving, asking = contexts
    async with await asyncio.start_server(echo, "127.0.0.1", 0, ssl=serving) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=asking, server_hostname="localhost"
        )
        assert len(writer.transport._ssl_protocol.get_buffer(-1)) == BYTES
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()
        await writer.wait_closed()
