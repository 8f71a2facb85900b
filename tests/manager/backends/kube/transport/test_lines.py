"""The lines of an answer that comes bit by bit."""

from types import SimpleNamespace

import pytest

from specon_manager.backends.kube.transport.call import Call, lines_of
from specon_manager.backends.kube.transport.errors import ApiUnavailableError

CALL = Call(verb="watch", resource="pods", method="GET", path="/api/v1/pods")


def answer(*chunks):
    """Return an answer of these chunks; an exception among them is raised in its turn."""
    left = list(chunks)

    async def readany():
        chunk = left.pop(0) if left else b""
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    return SimpleNamespace(content=SimpleNamespace(readany=readany))


async def test_a_connection_that_is_closed_meanwhile_leaves_nobody_knowing():
    """To aiohttp that is a RuntimeError, which would end the watch's task and the term with it."""
    lines = lines_of(CALL, answer(b'{"a": 1}\n{"b', RuntimeError("Connection closed.")), 1.0)
    assert await anext(lines) == b'{"a": 1}'
    with pytest.raises(ApiUnavailableError, match="Connection closed"):
        await anext(lines)


async def test_lines_are_put_together_from_chunks():
    """Empty ones are left out, and the last one may lack its end."""
    assert [line async for line in lines_of(CALL, answer(b"one\n\ntw", b"o\nthree"), 1.0)] == [
        b"one",
        b"two",
        b"three",
    ]
