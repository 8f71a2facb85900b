"""TrainingQueues are followed, told to the core, and told what their jobs use."""

import asyncio
import contextlib

import msgspec
import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import NAMESPACES, TRAINING_QUEUES
from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.queues.status_writer import QueueStatusWriter
from specon_manager.backends.kube.queues.watch import QueueWatch
from specon_manager.backends.kube.transport.api import Api
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources

GIB = 2.0**30
TEAM_A = Queue(name="team-a", quota=Resources(cpu=8, memory=GIB))


class Stage:
    """A cluster, a watch that runs, and what it told."""

    def __init__(self, cluster, stack, given=()):
        self.cluster, self.stack = cluster, stack
        self.api = Api(server=cluster.url, token="")
        stack.push_async_callback(self.api.close)  # the last of all
        self.watch = QueueWatch(self.api, given=given, sleep=lambda _: asyncio.sleep(0.005))
        self.told = []
        self.begin(self.watch.run())
        self.begin(self.watch.tell(lambda event: self.told.append(event.queues)))

    def begin(self, work):
        task = asyncio.ensure_future(work)

        async def end():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self.stack.push_async_callback(end)

    async def make(self, name, **quota):
        """Make a queue; by the machinery, which a definition does not stop."""
        spec = {"quota": {"cpu": 8, "memory": "1Gi", **quota}}
        await self.cluster.machinery.create(TRAINING_QUEUES, "", {"metadata": {"name": name}, "spec": spec})

    async def change(self, name, **quota):
        patch = {"spec": {"quota": quota}}
        await self.cluster.machinery.patch(TRAINING_QUEUES, ("", name), "merge", patch)

    def status(self, name):
        return self.cluster.store.get(TRAINING_QUEUES, ("", name)).get("status") or {}

    async def until(self, holds):
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110  (a server's store has no event to wait for)
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def staged(**settings):
    without = settings.pop("without", ())
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            FakeCluster(controllers=False, automatic=False, without=without)
        )
        # Whatever an object of an older definition may say can be in the store.
        cluster.machinery.schemas.pop(TRAINING_QUEUES, None)
        stage = Stage(cluster, stack, **settings)
        async with asyncio.timeout(10):
            await stage.watch.synced.wait()
        yield stage


async def test_the_queues_are_told_once_they_are_known_and_when_they_change():
    """All of them each time, by name; a status is no change."""
    async with staged() as stage:
        await stage.until(lambda: stage.told)
        await stage.make("team-b")
        await stage.make("team-a")
        team_b = msgspec.structs.replace(TEAM_A, name="team-b")
        await stage.until(lambda: stage.told and stage.told[-1] == (TEAM_A, team_b))
        before = len(stage.told)
        found = stage.cluster.store.get(TRAINING_QUEUES, ("", "team-a"))
        await stage.cluster.machinery.set_status(TRAINING_QUEUES, found, running=3)
        await stage.change("team-a", cpu=9)
        await stage.until(lambda: stage.told[-1][0].quota.cpu == 9)
        assert len(stage.told) == before + 1
        await stage.cluster.machinery.delete(TRAINING_QUEUES, ("", "team-b"), {})
        await stage.until(lambda: len(stage.told[-1]) == 1)


async def test_a_quota_that_cannot_be_read_changes_nothing():
    """The last valid quota counts on; one that never was valid counts as 0, and the status says so."""
    async with staged() as stage:
        await stage.make("team-a")
        await stage.make("team-b", cpu="many")
        await stage.until(lambda: stage.told and len(stage.told[-1]) == 2)
        assert [queue.quota.cpu for queue in stage.watch.queues] == [8, 0]
        await stage.change("team-a", cpu="lots", memory="2Gi")
        await stage.until(lambda: stage.watch.message("team-a"))
        assert stage.watch.queues[0] == TEAM_A
        told = "spec.quota.cpu: 'lots' is no quantity: the last valid quota counts"
        assert stage.watch.message("team-a") == told
        assert stage.watch.message("team-b") == "spec.quota.cpu: 'many' is no quantity: 0 for it counts"
        await stage.change("team-a", cpu="1")
        await stage.until(lambda: stage.watch.queues[0].quota == Resources(cpu=1, memory=2 * GIB))
        assert stage.watch.message("team-a") == ""


async def test_queues_of_the_configuration_count_beside_objects():
    """One of the same name is replaced while its object is there."""
    given = (Queue(name="team-a"), Queue(name="team-c", quota=Resources(gpu=1)))
    async with staged(given=given) as stage:
        assert stage.watch.queues == given
        await stage.make("team-a")
        await stage.until(lambda: stage.watch.queues == (TEAM_A, given[1]))
        await stage.cluster.machinery.delete(TRAINING_QUEUES, ("", "team-a"), {})
        await stage.until(lambda: stage.watch.queues == given)


async def test_without_their_definition_there_are_no_quotas():
    """The manager leads all the same."""
    async with staged(without=(TRAINING_QUEUES,)) as stage:
        await stage.until(lambda: stage.told)
        assert stage.told == [()]


def state_of(*queues, cpu=2.0):
    """Return a state with one running job in each queue."""
    jobs, replicas = {}, {}
    for queue in queues:
        name = f"ml/of-{queue}"
        replica = Replica(
            name=f"{name}/worker/0",
            job=name,
            phase=Phase.RUNNING,
            node="n1",
            requests=Resources(cpu=cpu, memory=GIB),
        )
        jobs[name] = Job(
            spec=JobSpec(name=name, replicas=(replica.name,), queue=queue, held=True),
            submitted_at=0.0,
            order=0,
            admitted=True,
        )
        replicas[replica.name] = replica
    return State(jobs=jobs, replicas=replicas, queues={name: Queue(name=name) for name in queues})


def writer_of(stage, states, *, leads=True):
    return QueueStatusWriter(
        stage.api,
        stage.watch,
        identity="one",
        holds=lambda: leads,
        state=lambda: states[-1],
        wall=lambda: 1e9,
        sleep=lambda _: asyncio.sleep(0),
    )


async def test_the_use_of_a_queue_is_written_when_it_changes():
    """And not again while it stays as it is."""
    async with staged() as stage:
        await stage.make("team-a")
        await stage.make("team-b", cpu="many")
        await stage.until(lambda: len(stage.watch.infos) == 2)
        states = [state_of("team-a", "team-b")]
        writer = writer_of(stage, states)
        await writer.write()
        assert stage.status("team-a") == {
            "running": 1,
            "waiting": 0,
            "use": {"cpu": "2", "memory": "1Gi", "gpu": "0"},
            "share": "",
            "manager": "one",
            "updatedAt": "2001-09-09T01:46:40+00:00",
        }
        assert stage.status("team-b")["message"] == "spec.quota.cpu: 'many' is no quantity: 0 for it counts"
        before = len(stage.cluster.server.requests)
        await writer.write()
        assert len(stage.cluster.server.requests) == before
        states.append(state_of("team-a", "team-b", cpu=3.0))
        await writer.write()
        assert stage.status("team-a")["use"]["cpu"] == "3"


async def test_what_cannot_be_written_is_written_later():
    """A queue that was made anew meanwhile, under the same name, gets a status of its own."""
    async with staged() as stage:
        await stage.make("team-a")
        await stage.until(lambda: stage.watch.infos)
        writer = writer_of(stage, [state_of("team-a")])
        await writer.write()
        await stage.cluster.machinery.delete(TRAINING_QUEUES, ("", "team-a"), {})
        await writer.write()  # it may still be there, as far as the watch knows
        former = stage.watch.infos
        await stage.make("team-a")
        await stage.until(lambda: stage.watch.infos and stage.watch.infos != former)
        await writer.write()
        assert stage.status("team-a")["running"] == 1


async def test_nobody_writes_who_does_not_lead():
    """Another manager may know better."""
    async with staged() as stage:
        await stage.make("team-a")
        await stage.until(lambda: stage.watch.infos)
        with pytest.raises(NotLeadingError, match="one does not hold the lease"):
            await writer_of(stage, [state_of("team-a")], leads=False).write()
        assert stage.status("team-a") == {}


async def test_a_queue_takes_the_jobs_of_the_namespaces_that_it_selects():
    """A namespace that is labelled later, or not any more, is told as a change of the queue."""
    async with staged() as stage:
        machinery = stage.cluster.machinery
        spec = {"quota": {"cpu": 8, "memory": "1Gi"}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
        await machinery.create(TRAINING_QUEUES, "", {"metadata": {"name": "team-a"}, "spec": spec})
        await stage.until(lambda: stage.told and stage.told[-1])
        assert stage.told[-1][0].namespaces == ()
        for name, team in (("one", "a"), ("two", "b")):
            labelled = {"metadata": {"name": name, "labels": {"team": team}}}
            await machinery.create(NAMESPACES, "", labelled)
        await stage.until(lambda: stage.told[-1][0].namespaces == ("one",))
        await machinery.patch(NAMESPACES, ("", "one"), "merge", {"metadata": {"labels": {"team": None}}})
        await stage.until(lambda: stage.told[-1][0].namespaces == ())
