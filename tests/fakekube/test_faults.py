"""The faults of the fake server: each does what it says, to as many requests as it says."""

import aiohttp
import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import CONFIG_MAPS
from support.kube.client import Endpoint, KubeClient


@pytest.fixture
async def cluster():
    async with FakeCluster(controllers=False) as fake:
        yield fake


@pytest.fixture
async def client(cluster):
    async with KubeClient(Endpoint(cluster.url), "default") as one:
        yield one


async def test_answer_instead(cluster, client):
    """A refusal hits the requests it is meant for, with its Retry-After, and then no more."""
    cluster.faults.answer(429, method="GET", path="configmaps", times=2, retry_after=3)
    assert (await client.create("configmaps", {"metadata": {"name": "a"}})).status == 201
    for status in (429, 429, 200):
        answer = await client.get("configmaps")
        assert answer.status == status
        assert status == 200 or answer.body["details"]["retryAfterSeconds"] == 3


@pytest.mark.parametrize("carried_out", [False, True])
async def test_cut_before_or_after(cluster, client, carried_out):
    """The connection of a creation is cut; whether it was carried out the client cannot know."""
    cluster.faults.drop(method="POST", carried_out=carried_out)
    with pytest.raises(aiohttp.ClientError):
        await client.create("configmaps", {"metadata": {"name": "a"}})
    assert bool(cluster.store.all(CONFIG_MAPS)) is carried_out


async def test_server_that_is_away(cluster, client):
    """Nobody answers while the server is away; afterwards it is at the same address with what it knew."""
    await client.create("configmaps", {"metadata": {"name": "a"}})
    await cluster.server.go_away()
    with pytest.raises(aiohttp.ClientError):
        await client.get("configmaps")
    await cluster.server.open()
    assert (await client.get("configmaps", "a")).status == 200


async def test_frozen_watch(cluster, client):
    """A frozen watch stays open and says nothing, not even at its end."""
    start = await client.get("configmaps")
    cluster.faults.freeze_watches()
    await client.create("configmaps", {"metadata": {"name": "a"}})
    asked = {"resourceVersion": start.version, "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
    assert await client.watch("configmaps", 1, **asked) == []


async def test_compaction_in_the_middle(cluster, client):
    """After a compaction an old page token, and an old watch by status, get a 410."""
    for name in "abc":
        await client.create("configmaps", {"metadata": {"name": name}})
    first = await client.get("configmaps", limit="2")
    cluster.store.compact()
    answer = await client.get("configmaps", limit="2", **{"continue": first.body["metadata"]["continue"]})
    assert (answer.status, answer.body["reason"]) == (410, "Expired")
    cluster.faults.gone_by_status = True
    events = await client.watch("configmaps", 1, resourceVersion=first.version)
    assert (events[0]["type"], events[0]["object"]["code"]) == ("HTTP", 410)


async def test_token_that_is_not_accepted(cluster, client):
    """When only some tokens are accepted, others get a 401."""
    cluster.faults.tokens = {"good"}
    assert (await client.get("configmaps")).status == 401
    async with KubeClient(Endpoint(cluster.url, token="good"), "default") as other:
        assert (await other.get("configmaps")).status == 200
