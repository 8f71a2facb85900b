"""What is answered is on record; what finds no room waits, and nothing is ordered meanwhile."""

import asyncio
import errno

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from specon_manager.backends.base import NotLeadingError
from specon_manager.model import events as ev
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.resources import Resources
from specon_manager.runtime import append_file, controller
from specon_manager.runtime.append_file import UnwritableError
from specon_manager.runtime.controller import NotRecordedError
from specon_manager.runtime.journal import recover
from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Observation, Report, encode
from support.decisions.cluster import replica_of

A = replica_of("a")


def job(name):
    return ev.JobSubmitted(JobSpec(name=f"default/{name}", replicas=(replica_of(name),)))


class Disk:
    """Lets writes fail, and waits for them."""

    def __init__(self, monkeypatch):
        self.full = False
        self.number = errno.ENOSPC
        self._write = append_file.os.write
        monkeypatch.setattr(append_file.os, "write", self.write)
        monkeypatch.setattr(controller, "_ROOM_SECONDS", 0.01)

    def write(self, descriptor, content):
        if self.full:
            raise OSError(self.number, "the words of the system")
        return self._write(descriptor, content)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture
async def owner(manager, tmp_path):
    """Give a client that asks with the owner's token, or with that of a sidecar."""
    tokens = Tokens(tmp_path)

    def read_job(body, state):
        return msgspec.json.decode(body, type=JobSpec)

    server = Server(manager.controller, tokens, CollectorRegistry(), read_job)
    async with TestClient(TestServer(server.application())) as client:

        async def ask(method, path, body=None, token=tokens.owner):
            headers = {"Authorization": f"Bearer {token}"}
            async with client.request(method, path, data=body, headers=headers) as answer:
                said = await answer.read()
                decoded = msgspec.json.decode(said) if said.startswith(b"{") else said
                return answer.status, decoded, answer.headers.get("Retry-After")

        ask.sidecar = tokens.sidecar(A, "0001")
        yield ask


async def test_what_is_recorded_is_in_the_journal(manager):
    """A manager that is killed at once has it."""
    state = await manager.controller.record(job("a"))
    assert "default/a" in state.jobs
    recovered = recover(manager.path)
    assert recovered is not None
    assert "default/a" in recovered.state.jobs


@pytest.mark.parametrize(
    ("path", "body", "recorded"),
    [
        ("/v1/jobs", encode(job("b").spec), ev.JobSubmitted),
        ("/v1/moves", msgspec.json.encode({"replica": A}), ev.MoveRequested),
        ("/v1/pause", b"", ev.Paused),
    ],
)
async def test_no_answer_comes_before_the_commit(manager, owner, path, body, recorded):
    """However long that takes: an answer is a promise."""
    await manager.running("a")
    commit, held = manager.controller._memory.commit, asyncio.Event()
    reached, seen = asyncio.Event(), len(manager.steps)

    async def slow(state, *, acting):
        if not held.is_set() and any(isinstance(step.event, recorded) for step in manager.steps[seen:]):
            assert acting
            reached.set()
            await held.wait()
        return await commit(state, acting=acting)

    manager.controller._memory.commit = slow
    asked = asyncio.ensure_future(owner("POST", path, body))
    await asyncio.wait_for(reached.wait(), 60)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not asked.done()
    held.set()
    status, said, _ = await asyncio.wait_for(asked, 60)
    assert status in {200, 201, 202}, said  # a move waits for the first step of its job


async def test_who_asks_again_is_not_answered_before_the_commit_either(manager, owner):
    """What is known of the request may be a moment old: it has begun, and that is on no disk yet."""
    await manager.running("a")
    body = msgspec.json.encode({"replica": A, "id": "once"})
    status, said, _ = await owner("POST", "/v1/moves", body)
    assert status == 202, said
    commit, held = manager.controller._memory.commit, asyncio.Event()

    async def slow(state, *, acting):
        await held.wait()
        return await commit(state, acting=acting)

    manager.controller._memory.commit = slow
    asked = asyncio.ensure_future(owner("POST", "/v1/moves", body))
    for _ in range(500):
        await asyncio.sleep(0.001)
        assert not asked.done()
    held.set()
    status, again, _ = await asyncio.wait_for(asked, 60)
    assert (status, again["move"]) == (202, said["move"])


async def test_a_sidecar_is_believed_to_have_answered_once_that_is_on_record(manager, owner, disk):
    """It keeps its answer until then."""
    await manager.running("a")
    answer = encode(
        Acknowledgement(schema=1, replica=A, incarnation="0001", id="move-1", done=False, reason="no")
    )
    disk.full = True
    assert (await owner("POST", "/v1/acknowledgements", answer, owner.sidecar))[0] == 503
    disk.full = False
    await _until(lambda: not manager.controller.stalled)
    assert (await owner("POST", "/v1/acknowledgements", answer, owner.sidecar))[0] == 204
    recovered = recover(manager.path)
    assert recovered is not None
    assert recovered.steps == len(manager.steps)


async def test_a_full_disk_is_a_503_with_the_file_and_what_follows(manager, owner, disk):
    """For the first who asks it may still come about, for those after nothing is done."""
    await manager.running("a")
    disk.full = True
    status, said, again = await owner("POST", "/v1/jobs", encode(job("b").spec))
    assert (status, again) == (503, "5")
    assert said["error"] == (
        f"it is taken up when there is room, unless the manager ends: {manager.path}: the words of the system"
    )
    for method, path, body in (
        ("POST", "/v1/jobs", encode(job("c").spec)),
        ("POST", "/v1/moves", msgspec.json.encode({"replica": A})),
        ("POST", "/v1/pause", b""),
        ("DELETE", "/v1/pause", None),
    ):
        status, said, again = await owner(method, path, body)
        assert (status, again) == (503, "5")
        assert said["error"].startswith(f"nothing was done: {manager.path}: the words of the system")
    seen = Observation(name="loss", value=1.0, age=0.0, step=7)
    report = Report(
        schema=1,
        replica=A,
        incarnation="0001",
        session="s",
        sequence=1,
        category=Category.PROGRESSING,
        last=seen,
    )
    assert (await owner("POST", "/v1/reports", encode(report), owner.sidecar))[0] == 503
    assert (await owner("GET", "/v1/state"))[0] == 200
    disk.full = False
    await manager.until(lambda state: replica_of("b") in state.replicas)
    await _until(lambda: not manager.controller.stalled)
    assert (await owner("POST", "/v1/jobs", encode(job("b").spec)))[0] == 409
    assert (await owner("POST", "/v1/reports", encode(report), owner.sidecar))[0] == 204
    assert "default/c" not in manager.controller.state.jobs


async def test_nothing_is_ordered_while_there_is_no_room(manager, disk, caplog):
    """What runs is left alone, what happens meanwhile is taken up later, and both are told, once."""
    await manager.running("a")
    manager.backend.orders.clear()
    disk.full = True
    manager.controller.post(job("b"))
    await _until(lambda: manager.controller.stalled)
    manager.backend.emit(ev.ReplicaGone(replica=A, incarnation="0001", exit_code=0))
    await asyncio.sleep(0.1)
    assert manager.backend.orders == []
    assert manager.controller.state.replicas[A].phase is Phase.RUNNING
    disk.full = False
    await manager.until(lambda state: state.replicas[A].phase is Phase.SUCCEEDED)
    await manager.until(lambda state: state.replicas[replica_of("b")].phase is Phase.RUNNING)
    told = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert len(told) == 2
    assert told[0].startswith(
        f"{manager.path}: the words of the system: nothing is ordered until there is room"
    )
    assert told[1].startswith("there is room again")


async def test_a_long_wait_for_room_fills_no_memory(manager, disk):
    """Of repeated measurements, the queue keeps only the latest for each node."""
    disk.full = True
    manager.controller.post(job("a"))
    await _until(lambda: manager.controller.stalled)
    for number in range(1000):
        for node in ("node-0", "node-1"):
            usage = Resources(cpu=number)
            manager.controller.post(ev.NodeObserved(node=node, capacity=Resources(cpu=1), usage=usage))
    assert len(manager.controller._events) == 2
    disk.full = False
    await manager.until(lambda state: {node.usage.cpu for node in state.nodes.values()} == {999.0})


async def test_a_broken_disk_ends_the_manager_with_its_words(manager_of, disk):
    """Waiting would not help; who asked is told, and nothing was ordered because of it."""
    manager = manager_of.made()
    running = asyncio.ensure_future(manager.controller.run("test", manager.settings))
    await manager.until(lambda state: len(state.nodes) == 2)
    disk.full, disk.number = True, errno.EIO
    with pytest.raises(NotRecordedError, match="the manager ends, and it may not be on record"):
        await manager.controller.record(job("a"))
    with pytest.raises(UnwritableError, match=f"{manager.path}: cannot be written: the words of the system"):
        await running
    assert manager.backend.orders == []
    disk.full = False
    manager.journal.close()


async def test_who_asks_a_manager_that_is_deposed_is_told_so(manager_of):
    """Another one leads: whether it was written nobody can say."""
    manager = manager_of.made()
    running = asyncio.ensure_future(manager.controller.run("test", manager.settings))
    await manager.until(lambda state: len(state.nodes) == 2)

    async def depose(*arguments, **named):
        raise NotLeadingError("another one leads")

    manager.controller._memory.commit = depose
    with pytest.raises(NotRecordedError):
        await manager.controller.record(job("a"))
    with pytest.raises(NotLeadingError):
        await running
    manager.journal.close()


async def test_nobody_waits_for_ever(manager):
    """The wait for a memory that does not come back is bounded, and the caller is told to look."""

    async def never(*arguments, **named):
        await asyncio.Event().wait()

    commit = manager.controller._memory.commit
    manager.controller._memory.commit = never
    with pytest.raises(NotRecordedError, match=r"it is not on record after 0\.05 s"):
        await manager.controller.record(job("a"), 0.05)
    manager.controller._memory.commit = commit


async def _until(holds):
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)
