"""The Migrations as every manager sees them: pins, and the requests of people."""

import asyncio
import contextlib
import time

import pytest

from fakekube import schemas
from fakekube.cluster import FakeCluster
from fakekube.kinds import MIGRATIONS
from specon_manager.backends.kube.records.migration_status import EVICTED_POD
from specon_manager.backends.kube.records.migrations import MigrationWatch
from specon_manager.backends.kube.transport import resources
from specon_manager.backends.kube.transport.api import Api
from specon_manager.model.events import MoveRequested, RequestWithdrawn
from specon_manager.model.transactions import Request
from support.kube.custom_resources import FIRST_CRDS

R = "default/mnist/worker/0"


class Stage:
    """A cluster, a watch that runs, and what it handed on."""

    def __init__(self, cluster, stack):
        self.cluster = cluster
        self.api = Api(server=cluster.url, token="")
        self.watch = MigrationWatch(self.api, identity="one", sleep=lambda _: asyncio.sleep(0))
        self.requests = []
        self.known = set()
        self._stack = stack

    def begin(self, work):
        task = asyncio.ensure_future(work)

        async def end():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)
        return task

    def lead(self, **known):
        def replica_of(namespace, pod):
            return R if (namespace, pod) == ("default", "mnist-x7") else None

        answering = self.watch.answer_requests(
            self.requests.append, replica_of, is_known=self.known.__contains__, **known
        )
        return self.begin(answering)

    async def ask(self, name, **spec):
        return await self.cluster.machinery.create(
            MIGRATIONS, "default", {"metadata": {"name": name}, "spec": spec}
        )

    def status(self, name):
        item = self.cluster.store.get(MIGRATIONS, ("default", name))
        return item.get("status", {})

    async def until(self, holds):
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110  (a server's store has no event to wait for)
                await asyncio.sleep(0.005)


@pytest.fixture
async def stage():
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(FakeCluster(controllers=False, automatic=False))
        made = Stage(cluster, stack)
        stack.push_async_callback(made.api.close)
        made.begin(made.watch.run())
        await made.watch.synced.wait()
        yield made


async def test_a_request_is_handed_on_once(stage):
    """However often its object changes before anybody has looked at it."""
    stage.lead()
    item = await stage.ask("by-hand", replica=R, target="node-1", reason="upgrade")
    await stage.until(lambda: stage.requests)
    item["metadata"]["labels"] = {"a": "b"}
    await stage.api.replace(resources.MIGRATIONS, item, "by-hand", "default")
    await stage.ask("marker", pod="mnist-x7")
    await stage.until(lambda: len(stage.requests) == 2)
    assert stage.requests == [
        MoveRequested(id="default/by-hand", replica=R, target="node-1", reason="upgrade"),
        MoveRequested(id="default/marker", replica=R, target=None, reason=""),
    ]


async def test_requests_made_while_nobody_led_are_found(stage):
    """And again by the next leader, as long as nobody has written anything into them."""
    await stage.ask("by-hand", replica=R)
    await stage.until(lambda: len(stage.watch._reflector.items) == 1)
    for expected in (1, 2):
        task = stage.lead()
        await stage.until(lambda n=expected: len(stage.requests) == n)
        task.cancel()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"pod": "nobody"}, "there is no pod nobody with a sidecar in the namespace default"),
        ({"replica": "other/mnist/worker/0"}, "it names no replica and no job of the namespace default"),
    ],
)
async def test_a_request_that_names_nothing_of_its_namespace_is_refused_at_once(stage, spec, words):
    """The refusal is in its own status, where its author will look."""
    stage.lead()
    await stage.ask("bad", **spec)
    await stage.until(lambda: stage.status("bad").get("state") == "Refused")
    assert stage.status("bad")["message"] == words
    assert stage.status("bad")["manager"] == "one"
    assert not stage.requests


async def test_the_name_of_a_former_request_is_refused(stage):
    """Its id would be that of a move which is known: it would never be answered."""
    stage.known.add("default/by-hand")
    stage.lead()
    await stage.ask("by-hand", replica=R)
    await stage.until(lambda: stage.status("by-hand").get("state") == "Refused")
    assert "choose another name" in stage.status("by-hand")["message"]


async def test_a_server_that_does_not_know_that_a_move_is_refused_is_told_in_words(stage):
    """Helm upgrades no definitions: the state is the old one, and the message says it."""
    first = schemas.read(FIRST_CRDS)
    stage.cluster.machinery.schemas |= {MIGRATIONS: first["migrations"]}
    stage.lead()
    for name in ("bad", "worse"):
        await stage.ask(name, pod="nobody")
        await stage.until(lambda name=name: stage.status(name).get("state") == "RolledBack")
        assert stage.status(name)["message"].startswith("refused: there is no pod nobody")


async def test_a_request_that_is_deleted_before_it_began_is_withdrawn(stage):
    """Once; one that has begun, or was refused, is not."""
    stage.lead()
    await stage.ask("waits", replica=R)
    item = await stage.ask("begun", replica=R)
    await stage.ask("bad", pod="nobody")
    await stage.until(lambda: len(stage.requests) == 2 and stage.status("bad"))
    await stage.cluster.machinery.set_status(MIGRATIONS, item, state="Reserved", manager="one", replica=R)
    for name in ("begun", "bad", "waits"):
        await stage.cluster.machinery.delete(MIGRATIONS, ("default", name))
    await stage.until(lambda: len(stage.requests) == 3)
    await asyncio.sleep(0.05)
    assert stage.requests[2:] == [RequestWithdrawn(id="default/waits", reason="its Migration was deleted")]
    # Its id is in the history by now: another one of that name would never be answered.
    await stage.ask("waits", replica=R)
    await stage.until(lambda: stage.status("waits").get("state") == "Refused")


async def test_what_was_deleted_or_made_again_while_the_next_leader_began_is_withdrawn(stage):
    """It has read them before: one that is as it was goes on, and another one of that name is refused."""
    for name, target in (("same", "node-1"), ("other", "node-2")):
        await stage.ask(name, replica=R, target=target)
    await stage.until(lambda: len(stage.watch._reflector.items) == 2)
    read = [
        Request(id=f"default/{name}", replica=R, target="node-1", reason="", at=0.0)
        for name in ("same", "other", "deleted")
    ]
    stage.lead(queued=read)
    await stage.until(lambda: stage.status("other") and len(stage.requests) == 3)
    gone = "its Migration was deleted"
    assert stage.requests == [
        RequestWithdrawn(id="default/other", reason=gone),
        RequestWithdrawn(id="default/deleted", reason=gone),
        MoveRequested(id="default/same", replica=R, target="node-1", reason=""),
    ]
    assert stage.status("other")["state"] == "Refused"


@pytest.mark.parametrize(("age", "uid", "moves"), [(60, "u2", False), (60, "u1", True), (5, "", True)])
async def test_a_wish_for_a_pod_that_is_gone_for_long_moves_no_other_pod(stage, age, uid, moves):
    """Its eviction passed while nobody led; a moment after it, the pod may not be known here yet."""
    body = {"metadata": {"name": "wish", "annotations": {EVICTED_POD: "mnist-x7/u1"}}, "spec": {"replica": R}}
    await stage.cluster.machinery.create(MIGRATIONS, "default", body)
    stage.watch._wall = lambda: time.time() + age
    await stage.until(lambda: len(stage.watch._reflector.items) == 1)
    stage.lead(uid_of=lambda *_: uid)
    await stage.until(lambda: stage.requests or stage.status("wish"))
    assert [each.id for each in stage.requests] == ["default/wish"] * moves
    if not moves:
        assert stage.status("wish")["state"] == "Refused"
        assert stage.status("wish")["message"].endswith("the evicted pod mnist-x7 is gone")


async def test_what_a_request_waits_for_makes_it_no_other_request(stage):
    """The leader says it in the message; the next leader hands the request on all the same."""
    task = stage.lead()
    item = await stage.ask("waits", replica=R)
    await stage.until(lambda: stage.requests)
    said = {"message": "waits: 4 moves are in flight", "replica": R, "proposedAt": "2026-01-01T00:00:00Z"}
    await stage.cluster.machinery.set_status(MIGRATIONS, item, **said)
    await stage.ask("marker", pod="mnist-x7")
    await stage.until(lambda: len(stage.requests) == 2)
    assert [each.id for each in stage.requests] == ["default/waits", "default/marker"]
    task.cancel()
    stage.requests.clear()
    stage.lead()
    await stage.until(lambda: len(stage.requests) == 2)
    assert {each.id for each in stage.requests} == {"default/waits", "default/marker"}


async def test_a_refusal_that_is_not_written_is_written_later(stage):
    """The API was away, or had too much to do."""
    stage.cluster.faults.answer(500, method="PATCH", path="migrations")
    stage.cluster.faults.answer(429, method="PATCH", path="migrations")
    stage.lead()
    await stage.ask("bad", pod="nobody")
    await stage.until(lambda: stage.status("bad").get("state") == "Refused")


async def test_migrations_of_namespaces_that_another_manager_looks_after_are_left_alone(stage):
    """Neither its requests are answered, nor are its pins ours."""
    elsewhere = MigrationWatch(stage.api, identity="two", namespaces=("elsewhere",))
    stage.begin(elsewhere.run())
    await elsewhere.synced.wait()
    answered = []
    stage.begin(elsewhere.answer_requests(answered.append, lambda *_: None))
    item = await stage.ask("by-hand", pod="mnist-x7")
    await stage.until(lambda: len(elsewhere._reflector.items) == 1)
    stage.lead()
    await stage.until(lambda: stage.requests)
    status = {"state": "Evicting", "replica": R, "destination": "node-1", "destinationHostname": "node-1"}
    await stage.cluster.machinery.set_status(MIGRATIONS, item, **status)
    await stage.until(lambda: stage.watch.pins == {R: "node-1"})
    await stage.until(lambda: not elsewhere._waiting)
    assert dict(elsewhere.pins) == {}
    assert answered == []
    assert stage.status("by-hand")["state"] == "Evicting"


async def test_pins_follow_the_migrations(stage):
    """Set, moved to the source again, and lifted when the move is over or its object is gone."""
    item = await stage.ask("by-hand", replica=R)

    async def becomes(state, destination):
        status = {
            "state": state,
            "replica": R,
            "destination": destination,
            "destinationHostname": f"host-{destination}",
        }
        nonlocal item
        item = await stage.cluster.machinery.set_status(MIGRATIONS, item, **status)

    assert dict(stage.watch.pins) == {}
    await becomes("Evicting", "node-1")
    await stage.until(lambda: stage.watch.pins == {R: "host-node-1"})
    await becomes("Restoring", "node-0")
    await stage.until(lambda: stage.watch.pins == {R: "host-node-0"})
    await becomes("RolledBack", "node-0")
    await stage.until(lambda: stage.watch.pins == {})
    await becomes("Verifying", "node-0")
    await stage.until(lambda: stage.watch.pins == {R: "host-node-0"})
    await stage.cluster.machinery.delete(MIGRATIONS, ("default", "by-hand"))
    await stage.until(lambda: stage.watch.pins == {})
