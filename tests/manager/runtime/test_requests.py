"""What the owner asks for by HTTP: moves and pauses, answered once they hold, or refused in words."""

import asyncio

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.cluster import JobSpec
from specon_manager.model.transactions import Request
from specon_manager.runtime import requests
from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from specon_sidecar.classify import Category
from specon_sidecar.wire import Observation, Report
from support.decisions.cluster import replica_of
from support.decisions.gangs import with_gang

A = replica_of("a")


def no_jobs(body, state):
    raise ValueError("no jobs here")


class Owner:
    """Asks with the owner's token, or with another one."""

    def __init__(self, manager, client, tokens):
        self.manager, self._client, self._tokens = manager, client, tokens

    async def ask(self, method, path, body=None, token=None):
        headers = {"Authorization": f"Bearer {token or self._tokens.owner}"}
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        async with self._client.request(method, path, data=content, headers=headers) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    def sidecar(self):
        return self._tokens.sidecar(A, "0001")

    async def train(self):
        """Let a replica run on node-0, so that it could be moved."""
        seen = Observation(name="loss", value=1.0, age=0.0, step=7)
        await self.manager.running("a")
        self.manager.controller.post(
            ev.ReportReceived(
                Report(
                    schema=1,
                    replica=A,
                    incarnation="0001",
                    session="s",
                    sequence=1,
                    category=Category.CONVERGED,
                    last=seen,
                )
            )
        )
        await self.manager.until(lambda state: state.replicas[A].progress.step == 7)
        return self.manager.controller.state.replicas[A].node


@pytest.fixture(params=[True])
async def owner(manager, tmp_path, request):
    tokens = Tokens(tmp_path)
    server = Server(manager.controller, tokens, CollectorRegistry(), no_jobs, takes_orders=request.param)
    async with TestClient(TestServer(server.application())) as client:
        yield Owner(manager, client, tokens)


async def test_a_move_is_begun_and_named(owner):
    """201 with the id under which the state has it."""
    source = await owner.train()
    target = {"node-0": "node-1", "node-1": "node-0"}[source]
    status, said = await owner.ask("POST", "/v1/moves", {"replica": A, "target": target, "reason": "why"})
    assert (status, said["source"], said["target"]) == (201, source, target)
    assert owner.manager.controller.state.transactions[said["move"]].reason == "why"
    status, said = await owner.ask("DELETE", f"/v1/moves/{said['move']}")
    assert status == 409
    assert "is no request any more" in said["error"]


async def test_a_refused_move_says_why(owner):
    """409 with the plan's words."""
    source = await owner.train()
    status, said = await owner.ask("POST", "/v1/moves", {"replica": A, "target": source})
    assert (status, said) == (409, {"error": f"it is on {source} already"})
    status, said = await owner.ask("POST", "/v1/moves", {"replica": "default/x/worker/0"})
    assert (status, said) == (409, {"error": "there is no replica default/x/worker/0"})


async def test_a_move_that_has_to_wait_is_queued_and_can_be_withdrawn(owner):
    """202 with what it waits for; withdrawn it is in the history as refused, and there is no second time."""
    source = await owner.train()
    target = {"node-0": "node-1", "node-1": "node-0"}[source]
    wanted = {"replica": A, "target": target}
    assert (await owner.ask("POST", "/v1/moves", wanted))[0] == 201
    status, said = await owner.ask("POST", "/v1/moves", wanted)
    assert (status, said["state"], said["source"], said["target"]) == (202, "Queued", source, target)
    assert said["waits_for"].endswith("is in flight")
    name = said["move"]
    assert set(owner.manager.controller.state.requests) == {name}
    status, said = await owner.ask("DELETE", f"/v1/moves/{name}")
    assert (status, said["state"], said["note"]) == (200, "Refused", "it was withdrawn before it began")
    assert not owner.manager.controller.state.requests
    status, said = await owner.ask("DELETE", f"/v1/moves/{name}")
    assert (status, said) == (409, {"error": f"{name} is no request any more: it is Refused"})
    status, said = await owner.ask("DELETE", "/v1/moves/" + 300 * "x")
    assert (status, len(said["error"])) == (404, 222)


async def test_a_whole_job_is_asked_for_by_its_name(owner):
    """Nodes that it may go to are named, or none; a job of one replica is a move of that."""
    source = await owner.train()
    target = {"node-0": "node-1", "node-1": "node-0"}[source]
    status, said = await owner.ask("POST", "/v1/moves", {"job": "default/a", "targets": [target]})
    assert (status, said["job"], said["replica"], said["target"]) == (201, "default/a", A, target)
    assert said["what"] == f"{source} -> {target}"
    status, said = await owner.ask("POST", "/v1/moves", {"job": "default/x"})
    assert (status, said) == (409, {"error": "there is no job default/x"})


def test_a_gang_is_answered_as_a_whole():
    """However it is named: no replica, all nodes, and how many replicas it has."""
    names = ("default/g/worker/0", "default/g/worker/1")
    spec = JobSpec(name="default/g", replicas=names, resizing="none")
    for wanted in ({"job": "default/g", "targets": ["node-1"]}, {"replica": names[1], "target": "node-1"}):
        request = Request(
            id="r",
            at=0.0,
            job=wanted.get("job", ""),
            targets=tuple(wanted.get("targets", ())),
            replica=wanted.get("replica", ""),
            target=wanted.get("target"),
        )
        state = with_gang(State(), spec, dict.fromkeys(names, "node-0"))
        told = requests._find_move(msgspec.structs.replace(state, requests={"r": request}), "r")
        assert (told.job, told.replica, told.source) == ("default/g", "", "node-0")
        assert told.what == "all 2 replicas: node-0 -> node-1"


async def test_the_same_request_under_the_same_id_is_one_move(owner):
    """Asked again it is answered the same, at the same time too; under that id there is no other."""
    source = await owner.train()
    target = {"node-0": "node-1", "node-1": "node-0"}[source]
    wanted = {"replica": A, "target": target, "id": "mine"}
    answers = await asyncio.gather(*(owner.ask("POST", "/v1/moves", wanted) for _ in range(3)))
    answers.append(await owner.ask("POST", "/v1/moves", {"target": target, "id": "mine", "replica": A}))
    assert {status for status, _ in answers} == {201}
    (move,) = {said["move"] for _, said in answers}
    state = owner.manager.controller.state
    assert [*state.transactions, *state.requests] == [move]
    for other in (
        {**wanted, "reason": "x"},
        {"replica": A, "id": "mine"},
        {"job": "default/a", "id": "mine"},
    ):
        status, said = await owner.ask("POST", "/v1/moves", other)
        assert (status, said) == (409, {"error": f"id: 'mine' is that of another request, {move}"})
    assert (await owner.ask("POST", "/v1/moves", {**wanted, "id": "min"}))[0] == 202


async def test_two_requests_under_one_id_at_the_same_time_are_not_both_taken(owner):
    """What is on its way to the disk counts as well."""
    source = await owner.train()
    target = {"node-0": "node-1", "node-1": "node-0"}[source]
    first, second = await asyncio.gather(
        owner.ask("POST", "/v1/moves", {"replica": A, "target": target, "id": "mine"}),
        owner.ask("POST", "/v1/moves", {"replica": A, "id": "mine"}),
    )
    assert sorted((first[0], second[0])) == [201, 409]


async def test_a_refused_request_is_refused_again_under_its_id(owner):
    """With the same words; nothing is asked of the loop a second time."""
    source = await owner.train()
    wanted = {"replica": A, "target": source, "id": "mine"}
    answers = [await owner.ask("POST", "/v1/moves", wanted) for _ in range(2)]
    assert answers == [(409, {"error": f"it is on {source} already"})] * 2
    assert len(owner.manager.controller.state.history) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        {"target": "n"},
        {"replica": ""},
        {"replica": A, "node": "n"},
        {"replica": A, "job": "default/a"},
        {"job": "default/a", "target": "node-1"},
        {"replica": A, "targets": ["node-1"]},
        {"job": "default/a", "targets": [""]},
        {"replica": A, "id": "-"},
        {"replica": A, "id": "a\n"},
        {"replica": A, "id": ""},
        {"replica": 1},
    ],
)
async def test_a_wrong_request_names_the_field(owner, body):
    """422; nothing is asked of the loop."""
    status, said = await owner.ask("POST", "/v1/moves", body)
    assert status == 422
    assert said["error"]
    assert not owner.manager.controller.state.history


async def test_a_pause_holds_when_it_is_answered(owner):
    """Begun, reworded, ended; each as often as one likes."""
    assert await owner.ask("POST", "/v1/pause") == (200, {"paused": True, "reason": ""})
    told = {"paused": True, "reason": "the storage"}
    for _ in range(2):
        assert await owner.ask("POST", "/v1/pause", {"reason": " the\nstorage "}) == (200, told)
        assert owner.manager.controller.state.pause.reason == "the storage"
    for _ in range(2):
        assert await owner.ask("DELETE", "/v1/pause") == (200, {"paused": False, "reason": ""})
        assert owner.manager.controller.state.pause is None
    assert (await owner.ask("POST", "/v1/pause", {"reason": "x" * 513}))[0] == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/moves"), ("DELETE", "/v1/moves/x"), ("POST", "/v1/pause"), ("DELETE", "/v1/pause")],
)
async def test_nobody_else_gives_orders(owner, method, path):
    """A sidecar's token speaks for its replica, and for nothing else."""
    status, said = await owner.ask(method, path, {}, owner.sidecar())
    assert (status, said) == (403, {"error": "not the owner's token"})
    assert owner.manager.controller.state.pause is None


@pytest.mark.parametrize("owner", [False], indirect=True)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/moves"), ("DELETE", "/v1/moves/x"), ("POST", "/v1/pause"), ("DELETE", "/v1/pause")],
)
async def test_a_manager_of_a_cluster_says_where_orders_are_given(owner, method, path):
    """The right to read the state there is no right to move jobs."""
    assert await owner.ask(method, path, {}) == (403, {"error": requests.ELSEWHERE})


async def test_no_observer_stays_behind(owner):
    """However many ask, the loop does not get slower."""
    before = len(owner.manager.controller.observers)
    for _ in range(3):
        await owner.ask("POST", "/v1/pause", {"reason": "x"})
        await owner.ask("DELETE", "/v1/pause")
    assert len(owner.manager.controller.observers) == before
