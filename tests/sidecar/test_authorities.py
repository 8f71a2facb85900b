import asyncio
import datetime as dt
import ipaddress
import json
import os
import ssl
import subprocess
import sys

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from specon_sidecar.certificates import trust_for
from specon_sidecar.classify import Category
from specon_sidecar.reporting.authorities import AuthoritiesFile
from specon_sidecar.reporting.client import Client
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import Report

REPORT = Report(
    schema=1,
    replica="ns/job/worker/0",
    incarnation="uid",
    session="s",
    sequence=1,
    category=Category.WATCHING,
)
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
LOOK = """
import json, os
from specon_sidecar.certificates import leave_unread, system_context
with leave_unread():
    from aiohttp import connector
told = [len(each.get_ca_certs()) for each in (connector._SSL_CONTEXT_VERIFIED, system_context())]
print(json.dumps([*told, os.environ.get("SSL_CERT_FILE")]))
"""


class Authority:
    """Signs certificates for the loopback address."""

    def __init__(self, name):
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        basic = x509.BasicConstraints(ca=True, path_length=0)
        other = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
        unused = dict.fromkeys((*other, "key_agreement", "encipher_only", "decipher_only"), False)
        usage = x509.KeyUsage(key_cert_sign=True, crl_sign=True, **unused)
        self.pem = self._signed(self.name, self.key, (basic, True), (usage, True))

    def _signed(self, subject, key, *extensions):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + DAY)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(own, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def context(self, folder):
        """Return what a server with a certificate of this authority needs."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = self._signed(x509.Name([]), key, (names, True))
        unencrypted = serialization.NoEncryption()
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted)
        (folder / "server.pem").write_bytes(key.private_bytes(*form) + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        return context


@pytest.fixture(scope="module")
def old():
    return Authority("old")


@pytest.fixture(scope="module")
def new():
    return Authority("new")


class Manager:
    """Takes reports over TLS, and counts the connections."""

    def __init__(self, context):
        self.context, self.reports, self.peers = context, 0, set()
        self.reported = asyncio.Event()

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/reports", self._report)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.url = f"https://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()

    async def _report(self, request):
        self.reports += 1
        self.reported.set()
        self.peers.add(request.transport.get_extra_info("peername"))
        await asyncio.sleep(0)
        return web.Response()


def replace(file, content):
    """Exchange a file as the kubelet does: for one that was written elsewhere."""
    aside = file.with_name("aside")
    aside.write_bytes(content)
    aside.replace(file)


async def test_new_authorities_are_taken_up_while_the_session_goes_on(tmp_path, old, new):
    """A manager with a certificate of the new authority is refused until the file has it, then trusted."""
    file = tmp_path / "ca.crt"
    replace(file, old.pem)
    context = old.context(tmp_path)
    async with Manager(context) as manager:
        client = Client(manager.url, replica="r", incarnation="i", ca_file=str(file))
        async with client:
            assert await client.report(REPORT) is Outcome.DELIVERED
            assert await client.report(REPORT) is Outcome.DELIVERED
            assert len(manager.peers) == 1
            # Both authorities for a while: nothing is lost.
            replace(file, old.pem + new.pem)
            assert await client.report(REPORT) is Outcome.DELIVERED
    async with Manager(new.context(tmp_path)) as manager:
        client = Client(manager.url, replica="r", incarnation="i", ca_file=str(file))
        async with client:
            replace(file, old.pem)
            assert await client.report(REPORT) is Outcome.LOST
            replace(file, new.pem)
            assert await client.report(REPORT) is Outcome.DELIVERED
        assert manager.reports == 1


async def test_an_unusable_file_leaves_what_was_read_before(tmp_path, old, caplog):
    """Empty or gone, the last authorities go on to be trusted; that is complained of once."""
    file = tmp_path / "ca.crt"
    replace(file, old.pem)
    authorities = AuthoritiesFile(file)
    context = authorities.context()
    assert context is not None
    assert authorities.context() is context
    replace(file, b"")
    assert authorities.context() is context
    assert authorities.context() is context
    assert len(caplog.messages) == 1
    file.unlink()
    assert authorities.context() is context
    assert len(caplog.messages) == 2
    replace(file, old.pem)
    assert authorities.context() not in {None, context}


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\n"])
async def test_without_authorities_nobody_is_called(tmp_path, old, content):
    """Not even with the token; once the file is there, reports go out."""
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    async with Manager(old.context(tmp_path)) as manager:
        client = Client(manager.url, replica="r", incarnation="i", ca_file=str(file))
        async with client:
            assert await client.report(REPORT) is Outcome.LOST
            assert manager.reports == 0
            replace(file, old.pem)
            assert await client.report(REPORT) is Outcome.DELIVERED


def environment(file):
    return {**os.environ, "SSL_CERT_FILE": str(file), "SSL_CERT_DIR": os.devnull}


def test_authorities_are_read_by_whoever_asks_for_them_only(tmp_path, old):
    """An import as a library finds none; a request finds the system's, and no variable is changed."""
    file = tmp_path / "system.crt"
    file.write_bytes(old.pem)
    command = [sys.executable, "-c", LOOK]
    printed = subprocess.run(command, env=environment(file), check=True, capture_output=True).stdout
    assert json.loads(printed) == [0, 1, str(file)]


def test_a_request_without_tls_reads_none():
    """Whom the system trusts is looked up for TLS alone."""
    assert trust_for("http://127.0.0.1:1") is True
    assert trust_for("HTTPS://127.0.0.1:1") is trust_for("https://127.0.0.1:1")


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_sidecar_trusts_whom_the_system_trusts(tmp_path, old, new, trusted):
    """Without authorities of its own it reports to a manager that the system trusts, and to no other."""
    file = tmp_path / "system.crt"
    file.write_bytes((old if trusted else new).pem)
    (tmp_path / "log").write_text("step=1 loss=0.5\n")
    command = [sys.executable, "-m", "specon_sidecar", "--log", str(tmp_path / "log"), "--heartbeat", "0.2"]
    identity = ["--replica", REPORT.replica, "--incarnation", REPORT.incarnation]
    async with Manager(old.context(tmp_path)) as manager:
        sidecar = await asyncio.create_subprocess_exec(
            *[*command, *identity, "--manager", manager.url],
            env=environment(file),
            stderr=asyncio.subprocess.PIPE,
        )
        assert sidecar.stderr is not None
        try:
            if trusted:
                await asyncio.wait_for(manager.reported.wait(), 60)
            else:
                assert b"certificate" in await sidecar.stderr.readline()
                assert not manager.reports
        finally:
            sidecar.kill()
            await sidecar.communicate()
