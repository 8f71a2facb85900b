"""Requests that make no sense: each is answered or cut off, and none leaves more than a word in the log."""

import asyncio
import gzip
import logging
import zlib

import pytest
from aiohttp import web

from specon_manager.cli.run.manager_log import NAME, log_to
from specon_manager.runtime.connections import ConnectionLimits

GOOD = b"Host: x\r\nConnection: close\r\n"


def post(path, *headers, body=b""):
    head = b"".join([b"POST ", path, b" HTTP/1.1\r\n", GOOD, *(header + b"\r\n" for header in headers)])
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def get(target, *headers):
    return b"".join(
        [b"GET ", target, b" HTTP/1.1\r\n", GOOD, *(header + b"\r\n" for header in headers), b"\r\n"]
    )


def chunked(body, *headers):
    head = b"".join([b"POST /v1/reports HTTP/1.1\r\n", GOOD, *(header + b"\r\n" for header in headers)])
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body


DEFLATED = zlib.compress(b"x" * 1000)
REQUESTS = {
    "no HTTP": b"\x00\x01\x02\x03\r\n\r\n",
    "a TLS handshake": bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 189,
    "an SSH greeting": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "one line": b"hello\r\n\r\n",
    "lower case": b"get / http/1.1\r\n\r\n",
    "a version to come": b"GET / HTTP/9.9\r\n" + GOOD + b"\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": b"BREW /v1/reports HTTP/1.1\r\n" + GOOD + b"\r\n",
    "a method of bytes": b"\xff\xfe / HTTP/1.1\r\n" + GOOD + b"\r\n",
    "a proxy's request": b"CONNECT example.org:443 HTTP/1.1\r\n" + GOOD + b"\r\n",
    "another's URL": get(b"http://example.org/v1/state"),
    "a URL of bytes": get(b"/\xff\xfe\xfd"),
    "a URL with a null": get(b"/\x00"),
    "a URL with half an escape": get(b"/v1/instructions?replica=%zz&incarnation=%"),
    "a URL of surrogates": get(b"/v1/instructions?replica=%ED%B3%BF&incarnation=%ff"),
    "a long URL": get(b"/" + b"x" * 20000),
    "a port that is none": get(b"http://x:99999999/"),
    "a host that is none": b"GET / HTTP/1.1\r\nHost: [::\r\nConnection: close\r\n\r\n",
    "a header without a colon": get(b"/metrics", b"nonsense"),
    "a header without a name": get(b"/metrics", b": x"),
    "a header of bytes": get(b"/metrics", b"X: \xff\xfe\x00"),
    "a long header": get(b"/metrics", b"X: " + b"x" * 20000),
    "many headers": get(b"/metrics", *(b"X-%d: x" % number for number in range(2000))),
    "a token of bytes": get(b"/v1/state", b"Authorization: Bearer \xff\xfe"),
    "cookies that are none": get(b"/page/", b'Cookie: =;;;"\\;a'),
    "a length that is none": b"POST /v1/reports HTTP/1.1\r\n" + GOOD + b"Content-Length: x\r\n\r\n",
    "a length below zero": b"POST /v1/reports HTTP/1.1\r\n" + GOOD + b"Content-Length: -1\r\n\r\n",
    "two lengths": b"POST /v1/reports HTTP/1.1\r\n"
    + GOOD
    + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a body that is cut off": post(b"/v1/reports", body=b"{}").replace(b"Length: 2", b"Length: 200"),
    "a chunk that is none": chunked(b"zz\r\nxx\r\n0\r\n\r\n"),
    "a chunk too short": chunked(b"5\r\nxx\r\n0\r\n\r\n"),
    "a chunk below zero": chunked(b"-5\r\nxx\r\n0\r\n\r\n"),
    "no chunk": chunked(b""),
    "gzip that is none": post(b"/v1/reports", b"Content-Encoding: gzip", body=b"nonsense"),
    "gzip that is cut off": post(
        b"/v1/reports", b"Content-Encoding: gzip", body=gzip.compress(b"x" * 99)[:-9]
    ),
    "deflate that is none": post(b"/v1/jobs", b"Content-Encoding: deflate", body=b"\xff\xff\xff"),
    "deflate with a rest": post(b"/v1/reports", b"Content-Encoding: deflate", body=DEFLATED + b"rest"),
    "gzip in bad chunks": chunked(b"4\r\nnone\r\n0\r\n\r\n", b"Content-Encoding: gzip"),
    "an unknown encoding": post(b"/v1/reports", b"Content-Encoding: zip", body=b"{}"),
    "an expectation": post(b"/v1/reports", b"Expect: the-unexpected", body=b"{}"),
    "a type that is none": post(b"/v1/reports", b"Content-Type: \xff/;charset=nonsense", body=b"{}"),
    "an upgrade": get(b"/v1/state", b"Connection: upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x"),
    "deep nesting": post(b"/v1/jobs", body=b"[" * 100000),
    "a range": get(b"/metrics", b"Range: bytes=9-1,,x"),
    "a date": get(b"/page/", b"If-Modified-Since: yesterday", b"If-None-Match: x,\xff"),
    "a smuggled one": post(
        b"/v1/reports", b"Transfer-Encoding: chunked", body=b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    ),
}


async def sent(port, request, *, ends=False):
    """Send a request, and perhaps that nothing more comes; return what came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        if ends:
            writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_bad_request_is_no_error_of_ours(listening, caplog, request_):
    """No traceback, no line of log, no 500: what is wrong is the sender's to hear."""
    async with listening(body_seconds=0.2, connection_limits=ConnectionLimits(head=0.2)) as server:
        with caplog.at_level(logging.INFO):
            for ends in (True, False, True):
                said = await sent(server.port, request_, ends=ends)
                assert not said.startswith(b"HTTP/1.1 5"), said
            assert (await server.tell())[0] == 204
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
async def test_a_body_that_cannot_be_unpacked_is_told_so(listening, coding):
    """400, and what is wrong with it."""
    async with listening() as server:
        said = await sent(
            server.port, post(b"/v1/jobs", b"Content-Encoding: " + coding, token(server), body=b"no")
        )
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b"the body cannot be read" in said


async def test_a_mistake_of_ours_is_logged_and_answered_in_words(listening, caplog):
    """With its traceback, and without anything that the sender wrote."""

    async def broken(request):
        raise KeyError("ours")

    async with listening(routes=[web.get("/broken/{name}", broken)]) as server:
        said = await sent(server.port, get(b"/broken/of%0athe%0asender"))
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"a mistake of the manager" in said
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == "/broken/{name} failed"
    assert record.exc_info is not None


async def test_a_thousand_bad_requests_leave_a_small_log(listening, tmp_path):
    """Whatever they are, and of our own mistakes a few as well."""

    async def broken(request):
        raise KeyError("ours")

    folder = tmp_path / "logs"
    folder.mkdir()
    with log_to(folder):
        async with listening(routes=[web.get("/broken", broken)]) as server:
            bad = [*REQUESTS.values(), get(b"/broken")]
            for _ in range(1000 // len(bad) + 1):
                await asyncio.gather(*(sent(server.port, request, ends=True) for request in bad))
    log = (folder / NAME).read_text()
    # Of each of our mistakes there is one traceback, and twenty of them in a minute.
    assert log.count("Traceback") <= 20
    assert len(log) < 60_000


def token(server):
    return f"Authorization: Bearer {server.tokens.owner}".encode()
