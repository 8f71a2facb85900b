"""The transport against a server that behaves as the real one does: its faults, its forgetting, its locks."""

import asyncio
import random

import pytest
from msgspec import Struct

from fakekube import kinds
from fakekube.cluster import FakeCluster
from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.reporting.recorder import Recorder, reference
from specon_manager.backends.kube.transport.api import Api, ApiUnavailableError
from specon_manager.backends.kube.transport.lease import Elector
from specon_manager.backends.kube.transport.reflector import Reflector
from specon_manager.backends.kube.transport.resources import EVENTS, JOB_SETS, JOBS, LEASES, PODS


class Slim(Struct, frozen=True):
    uid: str
    label: str


async def soon(_seconds):
    await asyncio.sleep(0.01)


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  (what is waited for has no event of its own)
            await asyncio.sleep(0.01)


@pytest.fixture
async def cluster():
    async with FakeCluster(nodes=1, controllers=False) as found:
        yield found


@pytest.fixture
async def client(cluster):
    found = Api(cluster.url, sleep=soon)
    yield found
    await found.close()


def pod(name, label="x"):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"l": label}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@pytest.fixture
async def reflector(client):
    found = Reflector(
        client,
        PODS,
        slim=lambda item: Slim(item["metadata"]["uid"], item["metadata"]["labels"]["l"]),
        changed=lambda _change: None,
        page_size=2,
        rng=random.Random(1),
        sleep=soon,
    )
    task = asyncio.create_task(found.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def names(reflector):
    return {name for _, name in reflector.items}


async def test_a_reflector_outlives_cut_watches_forgotten_versions_and_an_absent_server(
    cluster, client, reflector
):
    for name in "abc":
        await client.create(PODS, pod(name), "default")
    await until(lambda: names(reflector) == set("abc"))
    cluster.faults.cut_watches()
    await client.create(PODS, pod("d"), "default")
    await until(lambda: names(reflector) == set("abcd"))
    await cluster.server.go_away()
    with pytest.raises(ApiUnavailableError):
        await client.create(PODS, pod("e"), "default")
    await cluster.server.open()
    await client.delete(PODS, "a", "default", grace_seconds=0)
    cluster.store.compact()
    await until(lambda: names(reflector) == set("bcd"))
    cluster.faults.answer(429, retry_after=1, method="GET", times=2)
    await client.patch(PODS, "b", "default", {"metadata": {"labels": {"l": "y"}}}, form="merge")
    await until(lambda: reflector.items["default", "b"].label == "y")


async def test_a_change_whose_answer_is_lost_is_not_sent_again(cluster, client):
    cluster.faults.drop(method="POST", times=1, carried_out=True)
    with pytest.raises(ApiUnavailableError):
        await client.create(PODS, pod("a"), "default")
    found, _ = await client.list(PODS, "default")
    assert [item["metadata"]["name"] for item in found] == ["a"]


async def test_an_absent_api_is_not_served():
    async with FakeCluster(controllers=False, without=(kinds.JOB_SETS,)) as cluster:
        client = Api(cluster.url)
        assert await client.serves(JOBS)
        assert not await client.serves(JOB_SETS)
        assert (await client.version())[0] == 1
        await client.close()


async def test_a_lease_is_created_taken_over_after_its_release_and_never_doubly_held(client):
    electors = [
        Elector(client, namespace="default", name="manager", identity=name, retry_seconds=0.1)
        for name in "ab"
    ]

    async def lead():
        await asyncio.sleep(1e6)

    first = asyncio.create_task(electors[0].run(lead))
    await until(electors[0].holds)
    second = asyncio.create_task(electors[1].run(lead))
    await until(lambda: electors[1].holder == "a")
    assert not electors[1].holds()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await until(electors[1].holds)
    spec = (await client.get(LEASES, "manager", "default"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


async def test_an_event_arrives_in_the_namespace_of_its_object(client):
    recorder = Recorder(client, instance="manager-0")
    task = asyncio.create_task(recorder.run())
    note = Note(replica="default/j/worker/0", reason="Converged", action="Classify", text="converged")
    recorder.record(reference(PODS, "default", "a", "u"), note)
    await until(lambda: recorder.written + recorder.dropped)
    found, _ = await client.list(EVENTS, "default")
    assert [(item["reason"], item["regarding"]["name"]) for item in found] == [("Converged", "a")]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
