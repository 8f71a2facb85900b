"""The manager's HTTP server: who is let in, what is taken in, and what is refused with which words."""

import asyncio
import io
import time

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, Counter
from yarl import URL

from specon_manager.core.resumable import resumable
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from specon_sidecar.classify import Category
from specon_sidecar.wire import (
    MAX_MESSAGE_BYTES,
    Acknowledgement,
    Checkpoint,
    Observation,
    Report,
    decode_resumable,
    encode,
)
from support.decisions.cluster import replica_of

A, B = replica_of("a"), replica_of("b")
FIRST = "0001"


def read_job(body, state):
    try:
        return msgspec.json.decode(body, type=JobSpec)
    except msgspec.ValidationError as error:
        raise ValueError(f"job: {error}") from error


def report(replica=A, incarnation=FIRST, sequence=1, **changes):
    seen = Observation(name="loss", value=1.0, age=0.0, step=7)
    message = Report(
        schema=1,
        replica=replica,
        incarnation=incarnation,
        session="s",
        sequence=sequence,
        category=Category.PROGRESSING,
        last=seen,
    )
    return msgspec.structs.replace(message, **changes)


class Web:
    """A client of a server around a running manager."""

    def __init__(self, manager, tokens, client, server):
        self.manager = manager
        self.tokens = tokens
        self.client = client
        self.server = server

    def bearer(self, replica=A, incarnation=FIRST):
        return {"Authorization": f"Bearer {self.tokens.sidecar(replica, incarnation)}"}

    @property
    def owner(self):
        return {"Authorization": f"Bearer {self.tokens.owner}"}

    async def tell(self, path, body, headers=None):
        """POST and return status and error, or what the answer says."""
        body = body if isinstance(body, bytes) else encode(body)
        headers = self.bearer() if headers is None else headers
        async with self.client.post(path, data=body, headers=headers) as answer:
            content = await answer.read()
            said = msgspec.json.decode(content) if content else {}
            return answer.status, said.get("error", said)

    async def poll(self, headers=None, **query):
        query = {"replica": A, "incarnation": FIRST, **query}
        headers = self.bearer() if headers is None else headers
        async with self.client.get("/v1/instructions", params=query, headers=headers) as answer:
            return answer.status, await answer.json()


@pytest.fixture
async def web(manager, tmp_path):
    tokens = Tokens(tmp_path)
    registry = CollectorRegistry()
    Counter("specon_test_total", "A counter.", registry=registry).inc(3)
    server = Server(manager.controller, tokens, registry, read_job)
    async with TestClient(TestServer(server.application())) as client:
        await manager.running("a")
        yield Web(manager, tokens, client, server)


def request(identity="move-1", incarnation=FIRST):
    return RequestCheckpoint(
        id=identity,
        transaction=identity,
        replica=A,
        incarnation=incarnation,
        deadline=4e9,
        reason="a move",
    )


# -- reports -------------------------------------------------------------------------------------


async def test_a_report_is_taken_in(web):
    """A valid report of a known incarnation becomes an event, and the state knows of it."""
    assert await web.tell("/v1/reports", report()) == (204, {})
    await web.manager.until(lambda state: state.replicas[A].progress.step == 7)


@pytest.mark.parametrize("path", ["/v1/reports", "/v1/acknowledgements"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": ""}, {"Authorization": "Bearer "}, {"Authorization": "Basic abc"}],
    ids=["none", "empty", "no token", "another scheme"],
)
async def test_who_shows_no_token_is_asked_for_one(web, path, headers):
    """401, and nothing is taken in."""
    body = report() if path == "/v1/reports" else _answer()
    steps = len(web.manager.steps)
    assert await web.tell(path, body, headers) == (401, "no bearer token")
    assert len(web.manager.steps) == steps


@pytest.mark.parametrize("whose", ["other replica", "other incarnation", "owner", "garbage"])
async def test_who_shows_another_token_is_refused(web, whose):
    """403: a sidecar speaks for its own incarnation, the owner for none."""
    headers = {
        "other replica": web.bearer(B),
        "other incarnation": web.bearer(A, "0002"),
        "owner": web.owner,
        "garbage": {"Authorization": "Bearer x"},
    }[whose]
    status, error = await web.tell("/v1/reports", report(), headers)
    assert status == 403
    assert error == f"the token is not that of incarnation '{FIRST}' of '{A}'"
    assert (await web.poll(headers))[0] == 403
    assert (await web.tell("/v1/acknowledgements", _answer(), headers))[0] == 403


async def test_an_incarnation_that_is_over_is_told_so(web):
    """410 for one that is gone and for a replica that has ended: send no more."""
    web.manager.backend.emit(ev.ReplicaGone(replica=A, incarnation=FIRST, exit_code=1))
    await web.manager.until(lambda state: state.replicas[A].incarnation is None)
    status, error = await web.tell("/v1/reports", report())
    assert (status, error) == (410, f"incarnation '{FIRST}' of '{A}' is over")
    assert (await web.poll())[0] == 410


async def test_a_report_after_the_end_of_the_training_is_over_too(web):
    """The farewell of a finished trainer may come after the word of its end."""
    web.manager.backend.emit(ev.ReplicaGone(replica=A, incarnation=FIRST, exit_code=0))
    await web.manager.until(lambda state: state.replicas[A].phase is Phase.SUCCEEDED)
    assert (await web.tell("/v1/reports", report()))[0] == 410


async def test_a_replica_that_is_not_known_yet_is_asked_to_come_again(web):
    """503 for one that nobody has told the manager of so far: 410 would silence its sidecar for good."""
    assert (await web.tell("/v1/reports", report(B), web.bearer(B)))[0] == 503


async def test_an_incarnation_that_is_not_known_yet_is_asked_to_come_again(web):
    """503 with a time: its start is on its way through the loop."""
    body = encode(report(incarnation="0002"))
    headers = web.bearer(A, "0002")
    async with web.client.post("/v1/reports", data=body, headers=headers) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert "not known yet" in (await answer.json())["error"]


async def test_an_answer_that_waited_while_the_manager_stood_still_is_asked_for_again(web, monkeypatch):
    """How old it is was true when it was sent; its sidecar says it anew, and a report need not."""
    answer = Acknowledgement(schema=1, replica=A, incarnation=FIRST, id="move-1", done=False, reason="no")
    monkeypatch.setattr(web.server._standstill, "is_recent", lambda: True)
    status, said = await web.tell("/v1/acknowledgements", answer)
    assert (status, said) == (503, "this manager stood still a moment ago: say it again")
    assert (await web.tell("/v1/reports", report()))[0] == 204
    monkeypatch.setattr(web.server._standstill, "is_recent", lambda: False)
    assert (await web.tell("/v1/acknowledgements", answer))[0] == 204


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (b'"sequence":-1', "sequence"),
        (b'"sequence":"1"', "sequence"),
        (b'"sequence":1e400', "out of range"),
        (b'"category":"happy"', "category"),
        (b'"replica":"../../etc"', "replica"),
    ],
)
@pytest.mark.parametrize("headers", [None, {}], ids=["with a token", "without"])
async def test_a_wrong_field_is_named(web, change, named, headers):
    """400 with the field, not a stack trace."""
    wrong = {"sequence": b'"sequence":1', "category": b'"category":"progressing"'}
    old = wrong.get(change.split(b":")[0].strip(b'"').decode(), f'"replica":"{A}"'.encode())
    body = encode(report())
    assert old in body
    status, error = await web.tell("/v1/reports", body.replace(old, change), headers)
    assert status == 400
    assert named in error


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 50_000, b'{"schema":2}'])
@pytest.mark.parametrize("path", ["/v1/reports", "/v1/acknowledgements"])
async def test_garbage_is_refused_with_words(web, path, body):
    """Whatever comes, the answer is 400 and says why."""
    status, error = await web.tell(path, body)
    assert status == 400
    assert error


async def test_a_message_that_is_too_long_is_refused(web):
    """The bound holds with and without an announced length, and far beyond it nothing is even read."""
    body = b'{"padding":"' + b"x" * MAX_MESSAGE_BYTES + b'"}'
    assert await web.tell("/v1/reports", body) == (
        400,
        f"message of {len(body)} bytes is longer than {MAX_MESSAGE_BYTES}",
    )

    async def chunks(size):
        for _ in range(size // 4096):
            yield b"x" * 4096

    async with web.client.post("/v1/reports", data=chunks(2 * MAX_MESSAGE_BYTES)) as answer:
        assert answer.status == 400
    async with web.client.post("/v1/reports", data=chunks(3 << 20)) as answer:
        assert answer.status == 413


# -- what a sidecar asks ---------------------------------------------------------------------------


async def test_a_sidecar_is_told_from_where_to_go_on(web):
    """Nothing for the first incarnation; for the next one the newest checkpoint that is known."""
    ask = {"replica": A, "incarnation": FIRST}
    async with web.client.get("/v1/checkpoint", params=ask, headers=web.bearer()) as answer:
        assert (answer.status, decode_resumable(await answer.read()).checkpoint) == (200, None)
    saved = Checkpoint(step=5, path="/data/5", digest="0" * 64)
    assert (await web.tell("/v1/reports", report(checkpoint=saved)))[0] == 204
    await web.manager.until(lambda state: state.replicas[A].progress.checkpoint is not None)
    web.manager.backend.emit(ev.ReplicaGone(replica=A, incarnation=FIRST, exit_code=1))
    await web.manager.until(lambda state: state.replicas[A].incarnation is None)
    async with web.client.get("/v1/checkpoint", params=ask, headers=web.bearer()) as answer:
        assert answer.status == 410
    assert resumable(web.manager.controller.state, A) == saved


async def test_output_is_relayed_only_where_that_is_switched_on(web):
    """404 with the setting's name."""
    ask = {"replica": A, "incarnation": FIRST, "container": "trainer"}
    async with web.client.get("/v1/output", params=ask, headers=web.bearer()) as answer:
        assert answer.status == 404
        assert "settings.log_streams" in (await answer.json())["error"]


# -- instructions --------------------------------------------------------------------------------


def _answer(**changes):
    answer = Acknowledgement(schema=1, replica=A, incarnation=FIRST, id="move-1", done=False, reason="no")
    return msgspec.structs.replace(answer, **changes)


async def test_a_poll_brings_an_instruction_within_a_moment(web):
    """A long poll is answered as soon as there is something to do, and the delivery is an event."""
    waiting = asyncio.ensure_future(web.poll(wait="60"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    web.manager.controller.mailbox.put(request())
    status, content = await asyncio.wait_for(waiting, 30)
    assert status == 200
    (instruction,) = content["instructions"]
    assert (content["schema"], instruction["type"], instruction["id"]) == (1, "checkpoint", "move-1")
    assert instruction["seconds_left"] > 0
    delivered = ev.InstructionDelivered(id="move-1", replica=A, incarnation=FIRST)
    await web.manager.until(lambda state: delivered in [step.event for step in web.manager.steps])


async def test_a_known_instruction_is_repeated_but_no_news(web):
    """Until it is acknowledged it comes with each poll; what the sidecar knows is not delivered anew."""
    web.manager.controller.mailbox.put(request())
    began = time.monotonic()
    status, content = await web.poll(wait="0.1", known="move-0,move-1")
    assert time.monotonic() - began >= 0.09
    assert status == 200
    assert [instruction["id"] for instruction in content["instructions"]] == ["move-1"]
    assert not [s for s in web.manager.steps if isinstance(s.event, ev.InstructionDelivered)]


async def test_a_withdrawn_instruction_is_gone(web):
    """Nobody waits for it any more."""
    web.manager.controller.mailbox.put(request())
    web.manager.controller.mailbox.put(WithdrawRequest(id="move-1", replica=A, reason="over"))
    assert await web.poll() == (200, {"schema": 1})


async def test_a_sidecar_whose_trainer_pauses_is_told_to_release_it(web):
    """Once it has said so, and its request is withdrawn; until it says that it has."""
    mailbox = web.manager.controller.mailbox
    mailbox.put(msgspec.structs.replace(request(), pause=30.0))
    _, content = await web.poll()
    assert content["instructions"][0]["pause"] == 30.0
    assert (await web.tell("/v1/acknowledgements", _answer(done=True, paused=True)))[0] == 204
    mailbox.put(WithdrawRequest(id="move-1", replica=A, reason="over", release=True))
    _, content = await web.poll(wait="60")
    (told,) = content["instructions"]
    assert (told["type"], told["request"]) == ("release", "move-1")
    assert (await web.tell("/v1/acknowledgements", _answer(id=told["id"], done=True)))[0] == 204
    assert await web.poll() == (200, {"schema": 1})


@pytest.mark.parametrize("wait", ["soon", "-1", "61", "nan", "inf", ""])
async def test_a_wait_that_is_no_wait_is_named(web, wait):
    """400 with the field and the value: a poll is bounded."""
    status, content = await web.poll(wait=wait)
    assert status == 400
    assert content["error"].startswith("wait: ")


@pytest.mark.parametrize("replica", ["", "%ff%fe", "%00", "%C3%A9/..", "x" * 5000, "%ED%B3%BF"])
async def test_a_poll_for_a_strange_replica_is_refused(web, replica):
    """Names in a query may be anything; the answer is a refusal."""
    url = URL(f"/v1/instructions?replica={replica}&incarnation={replica[:300]}", encoded=True)
    async with web.client.get(url, headers=web.owner) as answer:
        assert answer.status == 403


async def test_polls_are_answered_at_once_when_the_manager_stops(web):
    """Nothing hangs: a manager that ends does not keep its sidecars waiting for a minute."""
    mailbox, waiting = web.manager.controller.mailbox, asyncio.Semaphore(0)
    news = mailbox.news

    async def waits(*wanted):
        waiting.release()
        await news(*wanted)

    mailbox.news = waits
    polls = [asyncio.ensure_future(web.poll(wait="60")) for _ in range(3)]
    for _ in polls:
        await waiting.acquire()
    await web.server.stop()
    answers = await asyncio.wait_for(asyncio.gather(*polls), 30)
    assert answers == [(200, {"schema": 1})] * 3


async def test_an_acknowledgement_becomes_an_event(web):
    """What it means is for `step` to say."""
    assert await web.tell("/v1/acknowledgements", _answer()) == (204, {})
    event = ev.InstructionAcknowledged(_answer())
    await web.manager.until(lambda state: event in [step.event for step in web.manager.steps])


async def test_a_wrong_field_of_an_acknowledgement_is_named(web):
    """400 with the field."""
    body = encode(_answer()).replace(b'"done":false', b'"done":"perhaps"')
    status, error = await web.tell("/v1/acknowledgements", body)
    assert status == 400
    assert "done" in error


# -- people --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/state"), ("POST", "/v1/jobs")])
async def test_only_the_owner_sees_the_state_and_submits(web, method, path):
    """401 without a token, 403 with a sidecar's: job templates hold environments."""
    async with web.client.request(method, path) as answer:
        assert answer.status == 401
    async with web.client.request(method, path, headers=web.bearer()) as answer:
        assert answer.status == 403


@pytest.mark.parametrize("path", ["/v1/state", f"/v1/instructions?replica={A}&incarnation={FIRST}"])
async def test_a_token_that_is_no_text_is_refused(web, path):
    """Headers are bytes and need not be UTF-8: the answer is 403, not a failure of the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", web.client.port)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ".encode()
    writer.write(head + b"\xff\xfe\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_the_owner_sees_the_whole_state(web):
    """What is shown is what the manager knows."""
    async with web.client.get("/v1/state", headers=web.owner) as answer:
        assert answer.status == 200
        assert answer.content_type == "application/json"
        assert msgspec.json.decode(await answer.read(), type=State) == web.manager.controller.state


async def test_a_submitted_job_runs(web):
    """201 with its name; a second one of the same name is refused with 409."""
    body = encode(JobSpec(name="default/b", replicas=(B,)))
    assert await web.tell("/v1/jobs", body, web.owner) == (201, {"job": "default/b"})
    await web.manager.until(lambda state: B in state.replicas and state.replicas[B].phase is Phase.RUNNING)
    status, error = await web.tell("/v1/jobs", body, web.owner)
    assert (status, error) == (409, "name: there is a job 'default/b' already")


async def test_of_two_jobs_of_one_name_at_once_one_is_refused(web):
    """Who got a 201 has a job: the second must not be told so while the first is on its way."""
    body = encode(JobSpec(name="default/b", replicas=(B,)))
    answers = await asyncio.gather(*(web.tell("/v1/jobs", body, web.owner) for _ in range(4)))
    assert sorted(status for status, _ in answers) == [201, 409, 409, 409]


async def test_a_job_that_is_wrong_is_refused_with_its_field(web):
    """422 with what the reader of jobs said."""
    status, error = await web.tell("/v1/jobs", b'{"name":"NO","replicas":[]}', web.owner)
    assert status == 422
    assert "$.name" in error


async def test_a_job_that_is_too_long_is_refused(web):
    """1 MiB is enough for a job."""
    async with web.client.post(
        "/v1/jobs", data=io.BytesIO(b"x" * ((1 << 20) + 1)), headers=web.owner
    ) as answer:
        assert answer.status == 413


# -- probes and metrics --------------------------------------------------------------------------


async def test_metrics_need_no_token(web):
    """Prometheus reads them in its own format."""
    async with web.client.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert "specon_test_total 3.0" in await answer.text()


async def test_a_manager_is_ready_when_it_has_taken_over(web, manager_of, tmp_path):
    """503 before the first turn of the loop; alive from the start."""
    async with web.client.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")
    idle = manager_of.made()
    server = Server(idle.controller, web.tokens, CollectorRegistry(), read_job)
    async with TestClient(TestServer(server.application())) as client:
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "not ready\n")
        async with client.get("/healthz") as answer:
            assert answer.status == 200
    idle.journal.close()


async def test_an_unknown_path_is_not_found(web):
    """No route is served by accident."""
    for path in ("/", "/v1", "/v2/reports", "/v1/reports/"):
        async with web.client.get(path) as answer:
            assert answer.status == 404
    async with web.client.get("/v1/reports") as answer:
        assert answer.status == 405


async def test_the_server_listens_where_it_is_told(manager, tmp_path):
    """Port 0 is a free one; a taken one is an OSError; after the stop nobody answers."""
    server = Server(manager.controller, Tokens(tmp_path), CollectorRegistry(), read_job)
    port = await server.start("127.0.0.1", 0)
    other = Server(manager.controller, Tokens(tmp_path), CollectorRegistry(), read_job)
    with pytest.raises(OSError, match=str(port)):
        await other.start("127.0.0.1", port)
    await other.stop()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        await server.stop()
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"http://127.0.0.1:{port}/healthz")
