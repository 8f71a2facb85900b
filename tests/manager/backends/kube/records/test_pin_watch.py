"""The pins of TrainingJobs as every manager sees them."""

import asyncio
import contextlib

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import NAMESPACES, TRAINING_JOBS
from specon_manager.backends.kube.records.pin_watch import PinWatch
from specon_manager.backends.kube.transport.api import Api

R = "default/mnist/worker/0"


@contextlib.asynccontextmanager
async def watching(cluster, **settings):
    """Run a watch of the cluster."""
    api = Api(server=cluster.url, token="")
    watch = PinWatch(api, **settings)
    task = asyncio.ensure_future(watch.run())
    try:
        async with asyncio.timeout(10):
            await watch.synced.wait()
        yield watch
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await api.close()


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  (a server's store has no event to wait for)
            await asyncio.sleep(0.005)


async def job(cluster, namespace="default"):
    """Make a TrainingJob, and return what sets its state and pins."""
    spec = {"job": f"{namespace}/mnist"}
    made = await cluster.machinery.create(
        TRAINING_JOBS, namespace, {"metadata": {"name": "mnist"}, "spec": spec}
    )

    async def change(state, *hostnames, kind="admit"):
        pins = [
            {"replica": f"{namespace}/mnist/worker/{index}", "hostname": hostname}
            for index, hostname in enumerate(hostnames)
        ]
        found = cluster.store.get(TRAINING_JOBS, (namespace, "mnist"))
        change = {"id": "change-1", "kind": kind, "state": state}
        await cluster.machinery.set_status(TRAINING_JOBS, found, change=change, pins=pins)

    assert made["metadata"]["uid"]
    return change


async def test_pins_follow_the_change_of_a_job():
    """They come with it and go with it."""
    async with FakeCluster(controllers=False, automatic=False) as cluster, watching(cluster) as watch:
        change = await job(cluster)
        assert watch.pins == {}
        await change("Coming", "host-1")
        await until(lambda: watch.pins == {R: "host-1"})
        await change("Coming", "host-2")
        await until(lambda: watch.pins == {R: "host-2"})
        assert watch.arriving == set()
        await change("Coming", "host-2", kind="move")
        await until(lambda: watch.arriving == {R})
        await change("Leaving", "host-2")
        await asyncio.sleep(0.05)
        assert watch.pins == {R: "host-2"}, "all of it starts anew, and its first pod may come at once"
        await change("Checkpointing", "host-2")
        await until(lambda: watch.pins == {})
        assert watch.arriving == set()


async def test_jobs_of_other_namespaces_are_other_managers_business():
    """Where only some are managed."""
    async with (
        FakeCluster(controllers=False, automatic=False) as cluster,
        watching(cluster, namespaces=["default"]) as watch,
    ):
        await cluster.machinery.create(NAMESPACES, "", {"metadata": {"name": "elsewhere"}})
        for namespace in ("elsewhere", "default"):
            await (await job(cluster, namespace))("Coming", "host-1")
        await until(lambda: watch.pins)
        assert watch.pins == {R: "host-1"}


async def test_a_server_without_training_jobs_has_no_pins():
    """The manager is ready all the same, and asks again now and then."""
    asked = asyncio.Event()

    async def sleep(_):
        asked.set()
        await asyncio.sleep(0.005)

    cluster = FakeCluster(controllers=False, automatic=False, without=(TRAINING_JOBS,))
    async with cluster, watching(cluster, sleep=sleep) as watch:
        assert watch.pins == {}
        async with asyncio.timeout(10):
            await asked.wait()
        assert watch.synced.is_set()


@pytest.mark.parametrize("state", ["Verifying", "Checkpointing"])
async def test_pins_that_were_there_before_are_known_once_it_is_synced(state):
    """A manager that just started answers admissions no worse than the one before it."""
    async with FakeCluster(controllers=False, automatic=False) as cluster:
        await (await job(cluster))(state, "host-1")
        async with watching(cluster) as watch:
            assert watch.pins == ({R: "host-1"} if state == "Verifying" else {})
