"""The certificate that this replica serves: loaded from a Secret or from files, again when they change."""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from cryptography import x509
from msgspec import Struct

from specon_manager.backends.kube.certificates.bundle import CertificateError, expiry, from_secret_data
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import SECRETS, Object

_LOOK_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024
_log = logging.getLogger(__name__)


class ServedCertificate:
    """A live SSLContext: connections after `load` get the new certificate, earlier ones continue."""

    def __init__(self) -> None:
        self.context = _new_context()
        self.loaded = asyncio.Event()
        """Set once there is a certificate: a server that listens before refuses every handshake."""
        self.trusted = ""
        """Whom those have to trust who connect to us, PEM; empty: those whom everybody trusts."""
        self.expires_at: float | None = None
        """When the certificate ends, Unix seconds."""
        self._served: tuple[bytes, bytes] | None = None

    def load(self, certificate: bytes, key: bytes, trusted: str) -> None:
        """Serve this from now on. Raises CertificateError, and goes on serving what it served before."""
        if (certificate, key) != self._served:
            expires_at = expiry(certificate).timestamp()
            # A key of another certificate would leave the context without either: try it on another one.
            _load(_new_context(), certificate, key)
            _load(self.context, certificate, key)
            self._served = (certificate, key)
            self.expires_at = expires_at
            _log.info("serving a certificate that is valid until %s", expiry(certificate))
        if trusted:
            _check_authorities(trusted)
        self.trusted = trusted
        self.loaded.set()


class _SecretContent(Struct, frozen=True):
    uid: str
    data: dict[str, str]


def secret_reflector(
    api: Api, namespace: str, name: str, served: ServedCertificate
) -> Reflector[_SecretContent]:
    """Return the follower that keeps `served` at the content of the Secret; trouble is logged."""

    def slim(secret: Object) -> _SecretContent:
        return _SecretContent(str(secret["metadata"]["uid"]), secret.get("data") or {})

    def changed(change: ObjectChange[_SecretContent]) -> None:
        if change.after is None:
            return  # the loaded certificate serves on until there is another
        try:
            bundle = from_secret_data(change.after.data)
            served.load(bundle.certificate, bundle.key, bundle.trusted)
        except CertificateError as error:
            _log.warning("Secret %s/%s: %s", namespace, name, error)

    selector = f"metadata.name={name}"
    return Reflector(api, SECRETS, slim=slim, changed=changed, namespace=namespace, field_selector=selector)


async def follow_directory(
    directory: Path, served: ServedCertificate, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Keep `served` at `tls.crt`, `tls.key` and, where it is there, `ca.crt`, until cancelled."""
    before: tuple[bytes, bytes, bytes] | None = None
    said = ""
    while True:
        try:
            content = await asyncio.to_thread(_read, directory)
            if content != before:
                served.load(content[0], content[1], content[2].decode("ascii"))
                before, said = content, ""
        except (OSError, CertificateError, UnicodeDecodeError) as error:
            if str(error) != said:
                _log.warning("certificate in %s: %s", directory, error)
                said = str(error)
        await sleep(_LOOK_SECONDS)


def _read(directory: Path) -> tuple[bytes, bytes, bytes]:
    """Return the three files; through one link where the kubelet swaps them all at once."""
    current = directory / "..data"
    folder = current.resolve() if current.is_symlink() else directory
    parts = []
    for name, needed in (("tls.crt", True), ("tls.key", True), ("ca.crt", False)):
        path = folder / name
        if not needed and not path.exists():
            parts.append(b"")
            continue
        with path.open("rb") as file:
            parts.append(file.read(_MOST_BYTES))
    return parts[0], parts[1], parts[2]


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load both from memory: the root file system may be read-only, and a key does not belong on a disk."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(key.rstrip() + b"\n" + certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"tls.crt, tls.key: {error}") from error
    finally:
        os.close(descriptor)


def _no_password() -> str:
    """Answer for an encrypted key, for which OpenSSL would otherwise ask at the terminal."""
    raise ValueError("the key is encrypted")


def _check_authorities(trusted: str) -> None:
    try:
        x509.load_pem_x509_certificates(trusted.encode("ascii"))
    except ValueError as error:
        raise CertificateError(f"ca.crt: {error}") from error
