import asyncio
import json
import time

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from specon_manager.backends.kube.transport import access, api
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.api_metrics import ApiMetrics
from specon_manager.backends.kube.transport.call import Call
from specon_manager.backends.kube.transport.resources import JOBS, NODES, PODS, Resource
from support.kube.api_stub import api_stub, lines

POD = {"metadata": {"name": "p", "namespace": "ns", "resourceVersion": "5", "uid": "u"}}


async def no_pause(_seconds):
    await asyncio.sleep(0)


@pytest.fixture
async def stub():
    async with api_stub() as found:
        yield found


@pytest.fixture
async def client(stub):
    seen = []
    found = Api(
        stub.url, token="secret", seconds=2.0, sleep=no_pause, observe=lambda *what: seen.append(what)
    )
    found.seen = seen
    yield found
    await found.close()


def status(code, reason, message="words", **details):
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (PODS, ("ns", "p", "status"), "/api/v1/namespaces/ns/pods/p/status"),
        (JOBS, ("ns", "j"), "/apis/batch/v1/namespaces/ns/jobs/j"),
        (NODES, (None, "n"), "/api/v1/nodes/n"),
    ],
)
def test_path_of_a_resource(resource, arguments, path):
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments", "words"),
    [
        (NODES, ("ns",), "namespace 'ns'"),
        (PODS, (None, "p"), "name 'p'"),
        (PODS, ("ns", "../secrets"), "is no name"),
        (PODS, ("ns", ""), "is no name"),
        (PODS, ("..", "p"), "namespace '..' is no name"),
        (PODS, ("ns", None, "status"), "subresource 'status'"),
    ],
)
def test_a_path_that_would_lead_elsewhere_is_refused(resource: Resource, arguments, words):
    with pytest.raises(ValueError, match=words):
        resource.path(*arguments)


async def test_get_asks_for_the_object_as_the_user_of_the_token(stub, client):
    stub.answers = [(200, POD)]
    assert await client.get(PODS, "p", "ns") == POD
    assert stub.requests == [("GET", "/api/v1/namespaces/ns/pods/p", {}, None)]
    assert stub.headers[0]["Authorization"] == "Bearer secret"
    assert client.seen[0][:3] == ("get", "pods", "200")


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        (status(404, "NotFound"), "not_found"),
        (status(409, "Conflict"), "conflict"),
        (status(409, "AlreadyExists"), "already_exists"),
        (status(410, "Expired"), "expired"),
        (status(422, "Invalid"), "invalid"),
        (status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}]), "blocked"),
        (status(429, "TooManyRequests", retryAfterSeconds=1), "throttled"),
    ],
)
async def test_each_refusal_is_told_from_the_others(stub, client, answer, holds):
    stub.answers = [(answer["code"], answer)]
    with pytest.raises(ApiError, match="create /api/v1/namespaces/ns/pods: words") as caught:
        await client.create(PODS, POD, "ns")
    kinds = ("not_found", "conflict", "already_exists", "expired", "invalid", "blocked", "throttled")
    assert [kind for kind in kinds if getattr(caught.value, kind)] == [holds]
    assert len(stub.requests) == 1


async def test_reading_is_tried_again_after_a_failure_of_the_server(stub, client):
    stub.answers = [(500, status(500, "InternalError")), (503, status(503, "Unavailable")), (200, POD)]
    assert await client.get(PODS, "p", "ns") == POD
    assert [what[2] for what in client.seen] == ["500", "503", "200"]


async def test_a_change_is_never_tried_again_when_its_outcome_is_unknown(stub, client):
    stub.answers = [(500, status(500, "InternalError", "webhook down"))]
    with pytest.raises(ApiUnavailableError, match="webhook down") as caught:
        await client.patch(PODS, "p", "ns", {}, form="merge")
    assert (caught.value.status, len(stub.requests)) == (500, 1)


async def test_throttled_reading_waits_as_long_as_the_server_says(stub):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    client = Api(stub.url, seconds=5.0, sleep=pause)
    stub.answers = [(429, status(429, "TooManyRequests"), {"Retry-After": "2"}), (200, POD)]
    assert await client.get(PODS, "p", "ns") == POD
    assert pauses == [2.0]
    await client.close()


async def test_a_retry_after_beyond_the_time_limit_is_the_callers_to_wait_for(stub, client):
    stub.answers = [(429, status(429, "TooManyRequests"), {"Retry-After": "60"})]
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "p", "ns")
    assert (caught.value.retry_after, len(stub.requests)) == (60.0, 1)


async def test_no_call_lasts_longer_than_its_limit(stub):
    async def hang(_request):
        await asyncio.sleep(60)
        return web.Response()

    stub.answers = [hang]
    client = Api(stub.url, seconds=0.2)
    began = time.monotonic()
    with pytest.raises(ApiUnavailableError, match="no answer in time"):
        await client.get(PODS, "p", "ns")
    assert time.monotonic() - began < 2
    await client.close()


async def test_a_server_that_is_not_there_is_unavailable():
    client = Api("http://127.0.0.1:1", sleep=no_pause)
    with pytest.raises(ApiUnavailableError, match="get /api/v1/nodes/n"):
        await client.get(NODES, "n")
    await client.close()


async def test_a_call_that_only_reads_is_not_tried_again_for_a_refusal(stub, client):
    stub.answers = [(403, status(403, "Forbidden"))]
    with pytest.raises(ApiError, match="403 Forbidden"):
        await client.get(PODS, "p", "ns")
    assert len(stub.requests) == 1


async def test_a_client_that_was_closed_is_unavailable(stub, client):
    stub.answers = [(200, POD)]
    await client.get(PODS, "p", "ns")
    await client.close()
    with pytest.raises(ApiUnavailableError, match="are closed"):
        await client.get(PODS, "p", "ns")


@pytest.mark.parametrize("content", [b"<html>a proxy</html>", b"[1]", b'{"a":'])
async def test_an_answer_that_is_no_object_is_no_answer(stub, client, content):
    async def odd(_request):
        return web.Response(body=content)

    stub.answers = [odd]
    with pytest.raises(ApiUnavailableError, match="the answer is n"):
        await client.get(PODS, "p", "ns")


async def test_an_error_without_a_status_object_still_has_its_code(stub, client):
    async def plain(_request):
        return web.Response(status=403, text="forbidden by a proxy")

    stub.answers = [plain]
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "p", "ns")
    assert (caught.value.status, caught.value.reason) == (403, "Unknown")


async def test_an_answer_that_is_too_long_is_not_read(stub, client):
    stub.answers = [(200, {"metadata": {}, "data": "x" * 1000})]
    call = Call(verb="get", resource="pods", method="GET", path="/x", max_bytes=100)
    with pytest.raises(ApiUnavailableError, match="longer than 100 bytes"):
        await client._caller.fetch_object(call)
    assert len(stub.requests) == 1


def paged(count, *, size=20, largest=10**9):
    """Return a handler that serves `count` items by limit and continue."""

    async def handle(request):
        limit, start = int(request.query["limit"]), int(request.query.get("continue") or 0)
        items = [
            {"metadata": {"name": f"p{n}"}, "x": "y" * size} for n in range(start, min(start + limit, count))
        ]
        rest = str(start + limit) if start + limit < count else ""
        return web.json_response({"metadata": {"resourceVersion": "7", "continue": rest}, "items": items})

    return handle


async def test_list_reads_all_pages_of_one_moment(stub, client):
    stub.answers = [paged(1203)]
    items, version = await client.list(PODS, "ns", label_selector="a=b,c!=d", field_selector="spec.x=y")
    assert ([item["metadata"]["name"] for item in items], version) == ([f"p{n}" for n in range(1203)], "7")
    assert len(stub.requests) == 5
    assert stub.requests[1][2] == {
        "limit": "250",
        "continue": "250",
        "labelSelector": "a=b,c!=d",
        "fieldSelector": "spec.x=y",
    }


async def test_list_begins_again_when_its_moment_is_forgotten(stub, client):
    first = {"metadata": {"resourceVersion": "1", "continue": "c"}, "items": [{"metadata": {"name": "old"}}]}
    second = {"metadata": {"resourceVersion": "2"}, "items": None}
    stub.answers = [(200, first), (410, status(410, "Expired")), (200, second)]
    assert await client.list(PODS) == ([], "2")


async def test_pages_that_are_too_large_are_asked_for_by_halves(stub, client, monkeypatch):
    monkeypatch.setattr(api, "MAX_PAGE_BYTES", 20_000)
    stub.answers = [paged(300, size=200)]
    items, _ = await client.list(PODS)
    assert len(items) == 300
    assert {int(request[2]["limit"]) for request in stub.requests} == {250, 125, 62}


async def test_a_list_of_ten_thousand_pods_never_holds_the_loop_for_200_ms(stub):
    """Pages of 500 pods of 2.4 KB; they are made before. CPU time: other processes may hold the loop."""
    pages = [
        json.dumps(
            {
                "metadata": {"resourceVersion": "1", "continue": "" if number == 19 else str(number)},
                "items": [
                    {"metadata": {"name": f"{number}-{n}"}, "spec": ["x" * 40] * 55} for n in range(500)
                ],
            }
        ).encode()
        for number in range(20)
    ]

    def answer(body):
        async def handle(_request):
            return web.Response(body=body)

        return handle

    stub.answers = [answer(page) for page in pages]
    client = Api(stub.url)
    longest, last = 0.0, time.thread_time()
    count = 0

    async def tick():
        nonlocal longest, last
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    async for page, _ in client.pages(PODS):
        count += len(page)
    ticking.cancel()
    assert count == 10_000
    assert longest < 0.2
    await client.close()


async def test_watch_yields_events_whatever_way_they_are_cut_into_pieces(stub, client):
    event = json.dumps({"type": "MODIFIED", "object": POD}).encode() + b"\n"
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    stub.answers = [lines({"type": "ADDED", "object": POD}, event[:10], event[10:] + event, b"\n", bookmark)]
    found = [kind async for kind, _ in client.watch(PODS, "ns", resource_version="3", seconds=60)]
    assert found == ["ADDED", "MODIFIED", "MODIFIED", "BOOKMARK"]
    assert stub.requests[0][2] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "3",
        "timeoutSeconds": "60",
    }


async def read(client, **options):
    return [event async for event in client.watch(PODS, resource_version="1", **options)]


async def test_an_error_event_is_an_error(stub, client):
    stub.answers = [lines({"type": "ERROR", "object": status(410, "Expired", "too old")})]
    with pytest.raises(ApiError, match="too old") as caught:
        await read(client)
    assert caught.value.expired


async def test_a_watch_that_is_refused_says_why(stub, client):
    stub.answers = [(410, status(410, "Gone"))]
    with pytest.raises(ApiError) as caught:
        await read(client)
    assert caught.value.expired


async def test_a_broken_connection_ends_a_watch_as_unavailable(stub, client):
    stub.answers = [lines({"type": "ADDED", "object": POD}, broken=True)]
    with pytest.raises(ApiUnavailableError):
        await read(client)


async def test_a_silent_watch_is_cut(stub, client):
    hold = asyncio.Event()
    stub.answers = [lines({"type": "ADDED", "object": POD}, hold=hold)]
    with pytest.raises(ApiUnavailableError, match="no answer in time"):
        await read(client, silence_seconds=0.1)
    hold.set()


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b'{"type": "ADDED"}\n', b"[]\n", b'{"type":1,"object":{}}\n']
)
async def test_what_is_no_event_ends_a_watch_as_unavailable(stub, client, line):
    stub.answers = [lines(line)]
    with pytest.raises(ApiUnavailableError, match="no event"):
        await read(client)


async def test_changes_are_sent_with_their_conditions(stub, client):
    stub.answers = [(200, POD)]
    await client.delete(
        PODS, "p", "ns", uid="u", resource_version="5", grace_seconds=30, propagation="Background"
    )
    await client.evict("p", "ns", uid="u", grace_seconds=120.4, dry_run=True)
    await client.patch(PODS, "p", "ns", [{"op": "test"}], form="json", dry_run=True)
    await client.replace(PODS, POD, "p", "ns", subresource="status")
    assert stub.requests == [
        (
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            {},
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u", "resourceVersion": "5"},
                "gracePeriodSeconds": 30,
                "propagationPolicy": "Background",
            },
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/pods/p/eviction",
            {"dryRun": "All"},
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "p", "namespace": "ns"},
                "deleteOptions": {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": "u"},
                    "gracePeriodSeconds": 120,
                },
            },
        ),
        ("PATCH", "/api/v1/namespaces/ns/pods/p", {"dryRun": "All"}, [{"op": "test"}]),
        ("PUT", "/api/v1/namespaces/ns/pods/p/status", {}, POD),
    ]
    assert stub.headers[2]["Content-Type"] == "application/json-patch+json"


async def test_serves_knows_what_the_server_has(stub, client):
    stub.answers = [(200, {"resources": [{"name": "jobs"}, {"name": "jobs/status"}]})]
    assert await client.serves(JOBS)
    assert not await client.serves(Resource("batch", "v1", "cronjobs", "CronJob"))
    stub.answers = [(404, status(404, "NotFound"))]
    assert not await client.serves(JOBS)


async def test_version_is_two_numbers(stub, client):
    stub.answers = [(200, {"major": "1", "minor": "30+"})]
    assert await client.version() == (1, 30)


async def test_a_token_that_the_kubelet_renewed_is_read_again_when_it_is_refused(stub, tmp_path, monkeypatch):
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("old\n")

    async def load(configuration):
        configuration.host = stub.url
        configuration.api_key["BearerToken"] = "bearer " + token.read_text()

    way = await access._open_access(load, access.USUAL_CONNECTIONS)
    client = Api(access=way)

    async def only_new(request):
        if request.headers["Authorization"] != "bearer new":
            return web.json_response(status(401, "Unauthorized"), status=401)
        return web.json_response(POD)

    stub.answers = [only_new]
    token.write_text("new\n")
    assert await client.create(PODS, POD, "ns") == POD
    assert len(stub.requests) == 2
    token.write_text("revoked\n")
    await way.renew()
    with pytest.raises(ApiError, match="Unauthorized"):
        await client.create(PODS, POD, "ns")
    assert len(stub.requests) == 4
    assert not ca.exists()
    await client.close()


async def test_a_kubeconfig_says_where_and_who(stub, tmp_path):
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": stub.url}}],
                "users": [{"name": "u", "user": {"token": "of-a-file"}}],
            }
        )
    )
    client = await Api.connect(kubeconfig=file)
    stub.answers = [(200, POD)]
    await client.get(PODS, "p", "ns")
    assert stub.headers[0]["Authorization"] == "Bearer of-a-file"
    await client.close()


@pytest.mark.parametrize("content", ["", "nonsense", "[1", '{"current-context": "x", "contexts": []}'])
async def test_a_kubeconfig_that_leads_nowhere_is_said_so(tmp_path, content):
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(ApiUnavailableError, match="no way to an API server"):
        await Api.connect(kubeconfig=file)


@pytest.mark.parametrize(("key", "value"), [("as", "robot"), ("as-groups", ["trainers"])])
async def test_a_kubeconfig_that_acts_as_another_user_is_refused(stub, tmp_path, key, value):
    """Its client would go on with all the rights of the user itself, which nobody asked for."""
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": stub.url}}],
                "users": [{"name": "u", "user": {"token": "of-a-file", key: value}}],
            }
        )
    )
    with pytest.raises(ApiUnavailableError, match=f"user 'u' of context 'a' has {key}: "):
        await Api.connect(kubeconfig=file)


async def test_calls_are_counted_by_verb_resource_and_code(stub):
    registry = CollectorRegistry()
    client = Api(stub.url, observe=ApiMetrics(registry), sleep=no_pause)
    stub.answers = [(500, status(500, "x")), (200, POD)]
    await client.get(PODS, "p", "ns")
    labels = {"verb": "get", "resource": "pods"}
    value = registry.get_sample_value
    assert value("specon_api_requests_total", {**labels, "code": "500"}) == 1
    assert value("specon_api_requests_total", {**labels, "code": "200"}) == 1
    assert value("specon_api_request_duration_seconds_count", {"verb": "get"}) == 2
    await client.close()
