"""The authority and its certificate, and that no step of a renewal breaks anybody's trust."""

import base64
import datetime as dt

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from specon_manager.backends.kube.certificates.bundle import (
    CertificateError,
    ca_bundle,
    dns_names,
    expiry,
    from_secret_data,
    make_bundle,
    next_step,
    renew,
    take_step,
    to_secret_data,
)

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
NAMES = dns_names(("specon-webhook", "specon-reports"), "specon")


def leaf_of(bundle):
    return x509.load_pem_x509_certificate(bundle.certificate)


def trusts(authorities, bundle, now):
    """Whether who has these authorities believes in the certificate that is served."""
    leaf = leaf_of(bundle)
    if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        return False
    for pem in authorities:
        authority = x509.load_pem_x509_certificate(pem)
        if leaf.issuer == authority.subject and now < authority.not_valid_after_utc:
            leaf.verify_directly_issued_by(authority)
            return True
    return False


def test_services_are_reached_under_four_names_each():
    """From the same namespace, from others, and from the API server."""
    assert dns_names(("a",), "n") == ("a", "a.n", "a.n.svc", "a.n.svc.cluster.local")


def test_a_new_certificate_has_the_names_and_the_lives():
    """90 days for the certificate, five years for the authority; only the authority may sign."""
    bundle = make_bundle(NAMES, NOW)
    leaf, authority = leaf_of(bundle), x509.load_pem_x509_certificate(bundle.authorities[0])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == NAMES
    assert leaf.not_valid_after_utc == NOW + 90 * DAY
    assert authority.not_valid_after_utc == NOW + 5 * 365 * DAY
    leaf.verify_directly_issued_by(authority)
    for certificate, ca in ((leaf, False), (authority, True)):
        assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is ca
    assert next_step(bundle, NAMES, NOW) == "nothing"


@pytest.mark.parametrize(
    ("days", "step"),
    [
        (59, "nothing"),
        (61, "leaf"),
        (91, "leaf"),
        (5 * 365 + 1, "everything"),
        (5 * 365 * 2 / 3 + 1, "next-authority"),
    ],
)
def test_what_is_due_depends_on_what_is_left(days, step):
    """A third of the life left is when; an expired authority is a new beginning."""
    assert next_step(make_bundle(NAMES, NOW), NAMES, NOW + days * DAY) == step


def test_another_name_needs_another_certificate():
    """The same authority signs it."""
    bundle = make_bundle(NAMES, NOW)
    names = (*NAMES, "localhost", "10.0.0.7")
    assert next_step(bundle, names, NOW) == "leaf"
    after = renew(bundle, names, NOW)
    assert after.authorities == bundle.authorities
    alternatives = leaf_of(after).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one) for one in alternatives.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert next_step(after, names, NOW) == "nothing"


def test_the_authority_is_renewed_in_three_steps():
    """Added first, used a day later, and the old one is dropped when it has expired."""
    bundle = make_bundle(NAMES, NOW)
    old = bundle.authorities[0]
    later = NOW + 1300 * DAY
    added = renew(bundle, NAMES, later)
    assert added.authorities[0] == old
    assert len(added.authorities) == 2
    assert trusts((old,), added, later)
    assert renew(added, NAMES, later + DAY / 2) == added
    adopted = renew(added, NAMES, later + DAY)
    assert adopted.authorities == (added.authorities[1], old)
    assert adopted.next_key is None
    assert trusts(added.authorities, adopted, later + DAY)
    assert not trusts((old,), adopted, later + DAY)
    at_end = renew(adopted, NAMES, NOW + 1826 * DAY)
    assert at_end.authorities == (adopted.authorities[0],)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.01, 20), min_size=80, max_size=120))
def test_who_looks_once_a_day_always_trusts_what_is_served(pauses):
    """Over years of renewals at any times, with a list of authorities that is up to a day old."""
    now, bundle = NOW, make_bundle(NAMES, NOW)
    for pause in pauses:
        seen = bundle.authorities
        for _ in range(3):  # the leader looks often; a client has what it saw before
            bundle = renew(bundle, NAMES, now)
            assert trusts(seen, bundle, now)
            assert next_step(bundle, NAMES, now) == "nothing"
            now += DAY / 3
        now += pause * DAY
        assert len(bundle.authorities) <= 3


def test_a_secret_keeps_all_of_it():
    """PEM in base64, in and out; also in the middle of a renewal."""
    bundle = make_bundle(NAMES, NOW)
    half = take_step("next-authority", bundle, NAMES, NOW)
    for one in (bundle, half):
        assert from_secret_data(to_secret_data(one)) == one
    assert set(to_secret_data(half)) == {"tls.crt", "tls.key", "ca.crt", "ca.key", "next-ca.key"}
    assert base64.b64decode(ca_bundle(half)).decode() == half.trusted
    assert half.trusted.count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE" not in half.trusted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tls.key": None}, "tls.key: is missing"),
        ({"ca.crt": "!!"}, "ca.crt: is not base64"),
        ({"ca.crt": "eA=="}, "ca.crt: "),
    ],
)
def test_a_broken_secret_is_named(change, said):
    """By the part that is missing or unreadable."""
    with pytest.raises(CertificateError, match=said):
        from_secret_data({**to_secret_data(make_bundle(NAMES, NOW)), **change})
    with pytest.raises(CertificateError, match=r"tls\.crt: is missing"):
        from_secret_data(None)


def test_what_does_not_fit_together_is_made_anew():
    """A wrong key of the certificate costs a certificate, one of the authority everything."""
    bundle, other = make_bundle(NAMES, NOW), make_bundle(NAMES, NOW)
    assert next_step(replace(bundle, key=other.key), NAMES, NOW) == "leaf"
    assert next_step(replace(bundle, certificate=b"x"), NAMES, NOW) == "leaf"
    assert next_step(replace(bundle, certificate=other.certificate, key=other.key), NAMES, NOW) == "leaf"
    assert next_step(replace(bundle, authority_key=other.authority_key), NAMES, NOW) == "everything"
    assert next_step(replace(bundle, authorities=()), NAMES, NOW) == "everything"
    assert next_step(replace(bundle, next_key=other.key), NAMES, NOW) == "everything"
    assert next_step(None, NAMES, NOW) == "everything"
    assert next_step(renew(None, NAMES, NOW), NAMES, NOW) == "nothing"


def test_an_end_can_be_read():
    """For a metric; what is no certificate is named."""
    assert expiry(make_bundle(NAMES, NOW).certificate) == NOW + 90 * DAY
    with pytest.raises(CertificateError, match=r"tls\.crt: "):
        expiry(b"no certificate")
