"""Reviews of evictions, as the API server sends them and as it does not."""

import asyncio

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from specon_manager.backends.kube.admission import bounded_route
from specon_manager.backends.kube.interception import webhook
from specon_manager.backends.kube.interception.eviction import Answer, answer_eviction, read_eviction
from specon_manager.backends.kube.interception.webhook import MAX_BYTES, PATH, eviction_routes


def body(**changes):
    request = {
        "uid": "r-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "eviction",
        "operation": "CREATE",
        "namespace": "training",
        "name": "train-0",
        "userInfo": {"username": "admin"},
        "dryRun": False,
        "object": {"kind": "Eviction", "metadata": {"name": "train-0", "namespace": "training"}},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **changes}}


@pytest.mark.parametrize(
    ("changes", "dry"),
    [
        ({}, False),
        ({"dryRun": True}, True),
        ({"object": {"metadata": {}, "deleteOptions": {"dryRun": ["All"]}}}, True),
        ({"object": {"metadata": {}, "deleteOptions": {"dryRun": []}}}, False),
    ],
)
def test_a_dry_run_is_said_in_either_of_two_places(changes, dry):
    """In the request, or in the options of the Eviction alone."""
    assert read_eviction(body(**changes)).dry_run is dry


def test_what_is_evicted_and_by_whom():
    """The request names the pod; the Eviction may say which of that name is meant."""
    options = {"preconditions": {"uid": "u-1"}}
    found = read_eviction(body(object={"metadata": {"name": "train-0"}, "deleteOptions": options}))
    assert (found.namespace, found.name, found.uid, found.user) == ("training", "train-0", "u-1", "admin")


@pytest.mark.parametrize(
    "changes",
    [{"subResource": ""}, {"operation": "DELETE"}, {"resource": {"resource": "nodes"}}, {"resource": 7}],
)
def test_anything_else_passes(changes):
    """It is no eviction."""
    assert read_eviction(body(**changes)) is None


def test_an_answer_has_no_time_after_which_to_ask_again():
    """The API server would tell it to client-go, which waits without a word."""
    response = answer_eviction("r-1", Answer(verdict="wait", words="later"))["response"]
    status = {"code": 429, "reason": "TooManyRequests", "message": "later"}
    assert response == {"uid": "r-1", "allowed": False, "status": status}
    gone = answer_eviction("r-1", Answer(verdict="gone", words="gone"))["response"]
    assert (gone["allowed"], gone["status"]["code"], gone["status"]["reason"]) == (False, 404, "NotFound")
    told = answer_eviction("r-1", Answer(verdict="pass", words="why"))["response"]
    assert told == {"uid": "r-1", "allowed": True, "warnings": ["why"]}


@pytest.fixture
async def client():
    told = []

    async def answer(eviction):
        if eviction.name == "slow":
            await asyncio.sleep(60)
        return Answer(verdict="wait", words=eviction.name)

    app = web.Application(client_max_size=10 * MAX_BYTES)
    app.add_routes(eviction_routes(answer, lambda entry, outcome: told.append((entry, outcome))))
    async with TestClient(TestServer(app)) as made:
        made.told = told
        yield made


async def test_a_review_is_answered_and_counted(client):
    """By the name of its entry."""
    response = await client.post(PATH, json=body())
    assert (await response.json())["response"]["status"]["message"] == "train-0"
    assert client.told == [("evict", "denied")]


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"{", 400), (b"[]", 400), (b" " * (MAX_BYTES + 1), 413), (b"[" * 100_000, 400)],
    ids=["cut", "no object", "too long", "deep"],
)
async def test_what_is_no_review_is_no_answer(client, sent, status):
    """Then the API server lets the eviction pass."""
    assert (await client.post(PATH, data=sent)).status == status
    assert client.told == [("evict", "unreadable")]


async def test_an_answer_that_takes_too_long_is_none(client, monkeypatch):
    """The API server waits for five seconds."""
    monkeypatch.setattr(webhook, "_ANSWER_SECONDS", 0.05)
    assert (await client.post(PATH, json=body(name="slow"))).status == 408


async def test_only_so_many_are_answered_at_once(client, monkeypatch):
    """The others pass."""
    monkeypatch.setattr(bounded_route, "_MOST_AT_ONCE", 1)
    monkeypatch.setattr(webhook, "_ANSWER_SECONDS", 0.5)
    slow = asyncio.create_task(client.post(PATH, json=body(name="slow")))
    await asyncio.sleep(0.1)
    assert (await client.post(PATH, data=msgspec.json.encode(body()))).status == 503
    assert (await slow).status == 408
