"""The manager's own certificate authority and certificate: what they are, and when they are renewed.

Deterministic but for the keys: the time is given. A renewal of the authority takes three steps, so that at
every moment clients with the old list of authorities and clients with the new one trust the certificate:

1. a third of the authority's life is left: the next one is made and added to the list;
2. a day later everybody has the new list: the certificate is signed by the next authority, which is the
   present one from then on;
3. the old authority leaves the list when it has expired.
"""

import base64
import binascii
import ipaddress
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct
from msgspec.structs import replace

RotationStep = Literal["nothing", "everything", "next-authority", "adopt-next", "leaf", "drop-expired"]

AUTHORITY_LIFE: Final = timedelta(days=5 * 365)
LEAF_LIFE: Final = timedelta(days=90)
OVERLAP: Final = timedelta(days=1)
_LEFT: Final = 1 / 3
_BACKDATED: Final = timedelta(minutes=5)  # clocks of other machines may be behind ours
_FIELDS: Final = ("tls.crt", "tls.key", "ca.crt", "ca.key")
_NEXT_KEY: Final = "next-ca.key"


class CertificateError(ValueError):
    """A Secret or files hold no usable certificate; the text names the part."""


class Bundle(Struct, frozen=True, kw_only=True):
    """All that is kept; PEM."""

    certificate: bytes
    """The server's certificate."""
    key: bytes
    authorities: tuple[bytes, ...]
    """Who is trusted: the present authority first, then the next one where there is one, then older ones."""
    authority_key: bytes
    """Of the present authority."""
    next_key: bytes | None = None
    """Of the next authority; then `authorities[1]` is it."""

    @property
    def trusted(self) -> str:
        """The list of authorities for those who connect to us, PEM."""
        return b"".join(self.authorities).decode("ascii")


def dns_names(services: Sequence[str], namespace: str) -> tuple[str, ...]:
    """Return the names under which services are reached."""
    return tuple(
        f"{service}{ending}"
        for service in services
        for ending in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    )


def make_bundle(names: Sequence[str], now: datetime) -> Bundle:
    """Return a new authority and a certificate for `names`, signed by it."""
    authority, authority_key = _authority(now)
    certificate, key = _leaf(names, authority, authority_key, now)
    return Bundle(certificate=certificate, key=key, authorities=(authority,), authority_key=authority_key)


def next_step(bundle: Bundle | None, names: Sequence[str], now: datetime) -> RotationStep:
    """Return the steps due at `now`; `everything` also where the authorities are no use."""
    if bundle is None:
        return "everything"
    try:
        authorities = [_parse(one, "ca.crt") for one in bundle.authorities]
        _check_key(bundle.authority_key, authorities[0], "ca.key")
        if bundle.next_key is not None:
            _check_key(bundle.next_key, authorities[1], _NEXT_KEY)
    except (CertificateError, IndexError):
        return "everything"
    present = authorities[0]
    if present.not_valid_after_utc <= now:
        return "everything"
    if bundle.next_key is not None:
        if now >= authorities[1].not_valid_before_utc + _BACKDATED + OVERLAP:
            return "adopt-next"
    elif _little_left(present, now):
        return "next-authority"
    if not _leaf_serves(bundle, present, names, now):
        return "leaf"
    older = authorities[1 if bundle.next_key is None else 2 :]
    return "drop-expired" if any(one.not_valid_after_utc <= now for one in older) else "nothing"


def take_step(step: RotationStep, bundle: Bundle | None, names: Sequence[str], now: datetime) -> Bundle:
    """Return the bundle after a step that `next_step` named. Raises CertificateError for an unfit bundle."""
    if bundle is None or step == "everything":
        return make_bundle(names, now)
    authorities = bundle.authorities
    if step == "next-authority":
        authority, key = _authority(now)
        return replace(bundle, authorities=(authorities[0], authority, *authorities[1:]), next_key=key)
    if step == "adopt-next":
        if bundle.next_key is None:
            raise CertificateError(f"{_NEXT_KEY}: there is no next authority")
        certificate, key = _leaf(names, authorities[1], bundle.next_key, now)
        return Bundle(
            certificate=certificate,
            key=key,
            authorities=(authorities[1], authorities[0], *authorities[2:]),
            authority_key=bundle.next_key,
        )
    if step == "leaf":
        certificate, key = _leaf(names, authorities[0], bundle.authority_key, now)
        return replace(bundle, certificate=certificate, key=key)
    if step == "drop-expired":
        kept = 1 if bundle.next_key is None else 2
        valid = [one for one in authorities[kept:] if _parse(one, "ca.crt").not_valid_after_utc > now]
        return replace(bundle, authorities=(*authorities[:kept], *valid))
    return bundle


def renew(bundle: Bundle | None, names: Sequence[str], now: datetime) -> Bundle:
    """Return the bundle after all steps that are due."""
    for _ in range(len(_FIELDS)):
        step = next_step(bundle, names, now)
        if step == "nothing" and bundle is not None:
            break
        bundle = take_step(step, bundle, names, now)
    assert bundle is not None
    return bundle


def to_secret_data(bundle: Bundle) -> dict[str, str]:
    """Return `data` of the Secret (type kubernetes.io/tls): PEM in base64."""
    content = {
        "tls.crt": bundle.certificate,
        "tls.key": bundle.key,
        "ca.crt": b"".join(bundle.authorities),
        "ca.key": bundle.authority_key,
    }
    if bundle.next_key is not None:
        content[_NEXT_KEY] = bundle.next_key
    return {name: base64.b64encode(pem).decode("ascii") for name, pem in content.items()}


def ca_bundle(bundle: Bundle) -> str:
    """Return the authorities as `caBundle` of a webhook has them: PEM in base64."""
    return base64.b64encode(bundle.trusted.encode("ascii")).decode("ascii")


def from_secret_data(data: Mapping[str, str] | None) -> Bundle:
    """Return what a Secret holds. Raises CertificateError naming the part that is missing or unreadable."""
    content: dict[str, bytes] = {}
    for name in (*_FIELDS, _NEXT_KEY):
        text = (data or {}).get(name)
        if not text:
            if name in _FIELDS:
                raise CertificateError(f"{name}: is missing")
            continue
        try:
            content[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CertificateError(f"{name}: is not base64: {error}") from error
    try:
        authorities = x509.load_pem_x509_certificates(content["ca.crt"])
    except ValueError as error:
        raise CertificateError(f"ca.crt: {error}") from error
    return Bundle(
        certificate=content["tls.crt"],
        key=content["tls.key"],
        authorities=tuple(one.public_bytes(Encoding.PEM) for one in authorities),
        authority_key=content["ca.key"],
        next_key=content.get(_NEXT_KEY),
    )


def expiry(certificate: bytes) -> datetime:
    """Return until when a certificate is valid. Raises CertificateError."""
    return _parse(certificate, "tls.crt").not_valid_after_utc


def _authority(now: datetime) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own: two authorities of one name would be told apart by their keys alone.
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"specon {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")]
    )
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _begin(name, name, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM), _pem(key)


def _leaf(names: Sequence[str], authority: bytes, authority_key: bytes, now: datetime) -> tuple[bytes, bytes]:
    issuer = _parse(authority, "ca.crt")
    signer = _key(authority_key, "ca.key")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "specon-manager")])
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    life = min(LEAF_LIFE, issuer.not_valid_after_utc - now)
    certificate = (
        _begin(subject, issuer.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(by, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM), _pem(key)


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + life)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _parse(pem: bytes, part: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError(f"{part}: {error}") from error


def _key(pem: bytes, part: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{part}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{part}: is no key on an elliptic curve")
    return key


def _check_key(pem: bytes, certificate: x509.Certificate, part: str) -> None:
    if _key(pem, part).public_key() != certificate.public_key():
        raise CertificateError(f"{part}: is not the key of its certificate")


def _leaf_serves(bundle: Bundle, authority: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    try:
        leaf = _parse(bundle.certificate, "tls.crt")
        _check_key(bundle.key, leaf, "tls.key")
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return not _little_left(leaf, now) and set(names) <= set(_names_of(leaf))


def _names_of(leaf: x509.Certificate) -> list[str]:
    try:
        extension = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return [*extension.value.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _general_name(name: str) -> x509.GeneralName:
    """Return a name for a certificate; one that is an address stands there as such, or nobody accepts it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _little_left(certificate: x509.Certificate, now: datetime) -> bool:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now <= life * _LEFT
