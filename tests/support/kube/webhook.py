"""A small mutating webhook with a certificate of its own."""

import base64
import contextlib
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Webhook:
    """Labels each pod that it is asked about; `seen` are the requests, `url` and `bundle` how it is found."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.url = ""
        self.bundle = ""
        self.allowed = True
        self.patches = True
        """Whether it labels what it allows; a validating one does not."""
        self.status = {"message": "specon.io/alpha: 7 is not below 1", "code": 422, "reason": "Invalid"}

    async def answer(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        self.seen.append(review["request"])
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": self.allowed}
        if self.allowed and self.patches:
            patch = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
            response |= {
                "patchType": "JSONPatch",
                "patch": base64.b64encode(msgspec.json.encode(patch)).decode(),
            }
        elif not self.allowed:
            response["status"] = self.status
        return web.json_response(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        )


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Webhook]:
    """Serve a webhook on this machine."""
    webhook = Webhook()
    certificate, key = _certificate()
    context = _context(folder, certificate, key)
    app = web.Application()
    app.router.add_post("/mutate", webhook.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    webhook.url = f"https://127.0.0.1:{runner.addresses[0][1]}/mutate"
    webhook.bundle = base64.b64encode(certificate).decode()
    try:
        yield webhook
    finally:
        await runner.cleanup()


def tls_context(folder: Path) -> ssl.SSLContext:
    """Return that of a server with a certificate of its own, made in a folder."""
    return _context(folder, *_certificate())


def _context(folder: Path, certificate: bytes, key: bytes) -> ssl.SSLContext:
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def _certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
