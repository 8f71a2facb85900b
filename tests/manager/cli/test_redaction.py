"""What is left out of a bundle: secrets, and what may have some in it; everything else stays readable."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.cli.look.bundle import MOST_FILE_BYTES, archive, cut_files
from specon_manager.cli.remote.redaction import LEFT_OUT, drop_secrets, scrub

SECRET = "hunter2hunter2"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
BASE64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
PEM = f"-----BEGIN PRIVATE KEY-----\n{BASE64}\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}",
        f"DB_PASSWORD: {SECRET}",
        f'{{"apiKey": "{SECRET}"}}',
        f"export AWS_SECRET_ACCESS_KEY='{SECRET} and more'",
        f"Authorization: Bearer {SECRET}",
        f"https://user:{SECRET}@host/path",
        f"wandb_token = {SECRET}, retrying",
        f'\\"token\\": \\"{SECRET}\\"',
    ],
)
def test_what_looks_like_a_secret_goes(text):
    """In logs, messages and JSON inside of strings."""
    assert SECRET not in scrub(text)
    assert LEFT_OUT in scrub(text)


@pytest.mark.parametrize("text", [JWT, PEM, PEM.replace("\n-----END PRIVATE KEY-----", "")])
def test_tokens_and_keys_go_wherever_they_are(text):
    """Also where they are cut off."""
    clean = scrub(f"before {text} after")
    assert clean.startswith("before ")
    assert text[30:60] not in clean


@pytest.mark.parametrize(
    "text",
    [
        "checkpoint of step 40 verified, digest " + "ab" * 32,
        "moving from node-1 to node-3: score 3 against 7",
        "http://127.0.0.1:8080/metrics",
        'specon_api_requests_total{code="200"} 7.0',
    ],
)
def test_what_is_no_secret_stays(text):
    """A bundle that says nothing helps nobody."""
    assert scrub(text) == text


@given(st.text(alphabet="abcdefghijklmnop0123456789-_", min_size=8, max_size=80))
def test_a_known_secret_is_found_anywhere(secret):
    """By its own text, whatever it looks like."""
    assert secret not in scrub(f"x{secret}y {secret}", [secret]).replace(LEFT_OUT, "")


def test_whole_fields_go():
    """Environments, commands, manifests and templates; numbers and flags of such names stay."""
    value = {
        "spec": {"template": {"environment": {"A": SECRET}}, "name": "x"},
        "env": [{"name": "A", "value": SECRET}],
        "items": [{"manifest": SECRET, "token": SECRET, "tokens": 3}],
        "command": [],
    }
    clean = drop_secrets(value)
    assert SECRET not in json.dumps(clean)
    assert clean["spec"]["name"] == "x"
    assert clean["items"][0]["tokens"] == 3
    assert clean["command"] == []


def test_a_bundle_is_bounded_and_says_what_it_lacks():
    """What is too long is cut; small files stay whole."""
    bounded = cut_files({"large": b"x" * (MOST_FILE_BYTES + 1), "small": b"y"})
    assert (len(bounded["large"]), bounded["small"]) == (MOST_FILE_BYTES, b"y")
    assert b"large" in bounded["cut.txt"]
    many = cut_files({str(number): b"x" * MOST_FILE_BYTES for number in range(10)})
    assert sum(map(len, many.values())) < 100 << 20


def test_the_last_step_cleans_too():
    """Whatever wrote a file: nothing gets into an archive without a look at it."""
    import io  # noqa: PLC0415
    import tarfile  # noqa: PLC0415

    with tarfile.open(fileobj=io.BytesIO(archive({"a.log": f"token={SECRET}".encode()}))) as tar:
        assert SECRET not in tar.extractfile("specon-support/a.log").read().decode()
