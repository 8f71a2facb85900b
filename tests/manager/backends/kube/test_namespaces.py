"""A manager with a list of namespaces leaves the pods of all others to their own managers."""

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import NAMESPACES
from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.transport.resources import JOBS, PODS
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from specon_manager.model.events import JobObserved, NodeObserved
from support.kube.stage import Stage, make_job, template

OURS = KubeSettings(watch=WatchSettings(namespaces=("default",)))
MARK = "specon.io/suspended-for"


@pytest.fixture
async def cluster():
    async with FakeCluster(nodes=1) as made:
        await made.machinery.create(NAMESPACES, "", {"metadata": {"name": "theirs"}})
        yield made


async def _suspended(api, namespace):
    """Have a Job that a manager suspended for a move, and return how to read its switch."""
    await make_job(api, "train", namespace)
    change = {"metadata": {"annotations": {MARK: "train-1"}}, "spec": {"suspend": True}}
    await api.patch(JOBS, "train", namespace, change, form="merge")

    async def suspend():
        return (await api.get(JOBS, "train", namespace))["spec"].get("suspend")

    return suspend


async def test_a_job_that_another_manager_suspended_is_not_resumed(api):
    """One of ours without a move in flight is, at the same time."""
    theirs, ours = await _suspended(api, "theirs"), await _suspended(api, "default")
    async with Stage(api, settings=OURS) as stage:
        await stage.hear(JobObserved)
        assert await ours() is False
        assert await theirs() is True


async def test_placeholders_of_another_manager_are_left(cluster, api):
    """Those without a move that are ours are given back."""
    for namespace in ("theirs", "default"):
        held = template(labels={"specon.io/placeholder": "train-1"})
        held["metadata"] |= {"name": "specon-room-train-1", "namespace": namespace}
        await api.create(PODS, {"apiVersion": "v1", "kind": "Pod", **held}, namespace)
    async with Stage(api, settings=OURS) as stage:
        await stage.hear(NodeObserved)
        await stage.until(lambda: cluster.pod("specon-room-train-1", "default") is None)
        assert cluster.pod("specon-room-train-1", "theirs") is not None
