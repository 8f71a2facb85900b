"""The certificate that is served: live, whole or not at all."""

import asyncio
import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from specon_manager.backends.kube.certificates.bundle import CertificateError, make_bundle
from specon_manager.backends.kube.certificates.served import ServedCertificate, follow_directory

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
async def port():
    """Yield the certificate and the port of a server that has it."""
    served = ServedCertificate()

    async def answer(reader, writer):
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=served.context)
    async with server:
        yield served, server.sockets[0].getsockname()[1]


async def shown(port, trusted):
    """Return the serial number of the certificate that a client sees; raises ssl.SSLError."""
    context = ssl.create_default_context(cadata=trusted)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der).serial_number


def serial_of(bundle):
    return x509.load_pem_x509_certificate(bundle.certificate).serial_number


async def test_a_new_certificate_is_served_without_a_restart(port):
    """The next handshake shows it; clients verify it by the authorities."""
    served, at = port
    first, second = make_bundle(("localhost",), NOW), make_bundle(("localhost",), NOW)
    assert not served.loaded.is_set()
    for bundle in (first, second):
        served.load(bundle.certificate, bundle.key, bundle.trusted)
        assert await shown(at, bundle.trusted) == serial_of(bundle)
        assert served.trusted == bundle.trusted
    assert served.loaded.is_set()
    with pytest.raises(ssl.SSLCertVerificationError):
        await shown(at, first.trusted)


def _encrypted(pem):
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))


@pytest.mark.parametrize("broken", ["key of another", "no key", "no certificate", "encrypted", "authorities"])
async def test_a_broken_one_is_refused_and_the_old_one_goes_on(port, broken):
    """Nobody is left without a certificate, and nobody is asked for a password."""
    served, at = port
    good, other = make_bundle(("localhost",), NOW), make_bundle(("localhost",), NOW)
    served.load(good.certificate, good.key, good.trusted)
    certificate, key, trusted = {
        "key of another": (other.certificate, good.key, other.trusted),
        "no key": (other.certificate, b"", other.trusted),
        "no certificate": (b"", other.key, other.trusted),
        "encrypted": (other.certificate, _encrypted(other.key), other.trusted),
        "authorities": (good.certificate, good.key, "nobody"),
    }[broken]
    with pytest.raises(CertificateError):
        served.load(certificate, key, trusted)
    assert await shown(at, good.trusted) == serial_of(good)
    assert served.trusted == good.trusted


def _write(directory, bundle, *, authorities=True):
    directory.mkdir()
    (directory / "tls.crt").write_bytes(bundle.certificate)
    (directory / "tls.key").write_bytes(bundle.key)
    if authorities:
        (directory / "ca.crt").write_text(bundle.trusted)


async def test_files_are_read_anew_when_they_change(tmp_path):
    """Through the kubelet's link, which swaps them all at once; what is broken between is waited for."""
    served, looks = ServedCertificate(), 0
    first, second = make_bundle(("localhost",), NOW), make_bundle(("localhost",), NOW)
    _write(tmp_path / "1", first)
    _write(tmp_path / "2", second, authorities=False)
    link = tmp_path / "..data"
    seen = []

    async def sleep(_):
        nonlocal looks
        looks += 1
        seen.append(served.trusted if served.loaded.is_set() else None)
        link.unlink(missing_ok=True)
        match looks:
            case 1:
                link.symlink_to(tmp_path / "1")
            case 2:
                link.symlink_to(tmp_path / "nowhere")
            case 3:
                link.symlink_to(tmp_path / "2")
            case 4:
                raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await follow_directory(tmp_path, served, sleep=sleep)
    assert seen == [None, first.trusted, first.trusted, ""]
