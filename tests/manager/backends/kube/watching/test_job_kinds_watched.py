"""Every kind of job against an API server with its controllers: told before it has pods, and with them."""

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import JOB_KINDS, JOBS
from specon_manager.backends.kube.transport.api import Api
from specon_manager.model.events import JobGone, JobObserved, ReplicaGone, ReplicaStarted
from support.kube.job_objects import ELASTIC, SUSPENDABLE, job_object
from support.kube.stage import Stage


@pytest.fixture
def cluster(cluster):
    cluster.train_jobs.runtimes["torch"] = job_object("Job")["spec"]["template"]
    return cluster


def suspended(kind, *, held):
    """Return the object, suspended by its user where it is `held`."""
    body = job_object(kind, 2)
    body["metadata"] = {"name": "train"}
    switch = {"suspend": held}
    beside = kind in {"Job", "JobSet", "TrainJob"}
    body["spec"] |= switch if beside else {"runPolicy": switch}
    return body


@pytest.mark.parametrize("kind", sorted(SUSPENDABLE))
async def test_a_suspended_job_of_each_kind_is_known_and_runs_when_it_is_resumed(cluster, api, kind):
    """Under the same name, with the replicas that were named before; all end evicted, and it is gone."""
    await cluster.machinery.create(SUSPENDABLE[kind], "default", suspended(kind, held=True))
    async with Stage(api) as stage:
        told = await stage.hear(JobObserved)
        assert (told.spec.held, told.spec.present) == (True, 2)
        assert stage.said(ReplicaStarted) == []
        body = {"spec": {"suspend": False}}
        if kind in {"TFJob", "PyTorchJob", "MPIJob"}:
            body = {"spec": {"runPolicy": {"suspend": False}}}
        await cluster.machinery.patch(SUSPENDABLE[kind], ("default", "train"), "merge", body)
        number = 3 if kind in {"TFJob", "MPIJob"} else 2
        await stage.until(lambda: len(stage.said(ReplicaStarted)) == number)
        assert {event.replica for event in stage.said(ReplicaStarted)} <= set(told.spec.replicas)
        await cluster.machinery.delete(SUSPENDABLE[kind], ("default", "train"))
        await stage.hear(JobGone, job=told.spec.name)
        assert all(event.evicted for event in stage.said(ReplicaGone))
        assert {event.spec.name for event in stage.said(JobObserved)} == {told.spec.name}


async def test_kinds_that_are_not_served_are_normal():
    """Their definitions are not installed on most clusters."""
    async with FakeCluster(nodes=1, without=JOB_KINDS) as cluster:
        api = Api(cluster.url)
        body = job_object("Job", 1, annotations=ELASTIC)
        body["metadata"] = {"name": "train"}
        await cluster.machinery.create(JOBS, "default", body)
        async with Stage(api) as stage:
            spec = (await stage.hear(JobObserved)).spec
            await stage.hear(ReplicaStarted)
        await api.close()
        assert (spec.held, spec.resizing, spec.present) == (False, "live", 1)
