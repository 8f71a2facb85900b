"""What an owner may send and should not: jobs made to break the reader are refused like any other mistake."""

import aiohttp
import pytest

from specon_manager.backends.local.jobs import read_job


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"", b"null", b"1e999"])
def test_a_job_of_any_shape_is_refused_in_words(body):
    """A ValueError, which the server answers with 422; nothing deep, long or strange is more than that."""
    with pytest.raises(ValueError, match=r"job|JSON"):
        read_job(body)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/state"), ("POST", "/v1/jobs"), ("POST", "/v1/moves")]
)
async def test_a_stolen_sidecar_token_is_good_for_its_replica_alone(listening, method, path):
    """It opens neither the state, in which environments of jobs stand, nor anything that orders."""
    async with listening() as server, aiohttp.ClientSession() as session:
        async with session.request(method, server.url + path, headers=server.bearer) as answer:
            assert answer.status == 403
        for change in ({"replica": "default/b/worker/0"}, {"incarnation": "0002"}):
            assert (await server.tell(server.report(**change)))[0] == 403
