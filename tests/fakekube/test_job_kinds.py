"""The stand-ins for the controllers of jobs: elastic numbers, suspension, gates; as their sources read."""

import json

import pytest

from fakekube.cluster import FakeCluster
from fakekube.failures import FailureError
from fakekube.kinds import JOB_SETS, JOBS, MPI_JOBS, PODS, PYTORCH_JOBS, TF_JOBS, TRAIN_JOBS
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.objects.job_patch import JobWish, job_patch
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, carry_over
from support.kube.job_objects import job_object

KINDS = {
    "Job": JOBS,
    "TFJob": TF_JOBS,
    "PyTorchJob": PYTORCH_JOBS,
    "MPIJob": MPI_JOBS,
    "JobSet": JOB_SETS,
    "TrainJob": TRAIN_JOBS,
}
ELASTIC = ("Job", "TFJob", "PyTorchJob", "MPIJob", "JobSet")


@pytest.fixture
async def cluster():
    async with FakeCluster(nodes=4, automatic=False) as fake:
        yield fake


async def make(cluster, kind, workers=2, **spec):
    pods = job_object("Job", workers)["spec"]["template"]
    cluster.train_jobs.runtimes["torch"] = pods
    body = job_object(kind, workers, **spec)
    body["metadata"] = {"name": "train"}
    await cluster.machinery.create(KINDS[kind], "default", body)
    await cluster.settle()


async def wish(cluster, kind, **wished):
    obj = cluster.store.get(KINDS[kind], ("default", "train"))
    patch = job_patch(kind, obj, JobWish(**wished))
    await cluster.machinery.patch(KINDS[kind], ("default", "train"), patch.form, patch.body)
    await cluster.settle()


def replicas(cluster):
    """Return the UID of each pod by the replica that we take it for."""
    return {identity_of(pod).replica: pod["metadata"]["uid"] for pod in cluster.pods()}


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_pods_have_the_names_that_their_owner_foretells(cluster, kind):
    """What is told of a job before it has pods, and what its pods say, is the same."""
    await make(cluster, kind, 3)
    owner = OWNER_RESOURCES[kind][1](cluster.store.get(KINDS[kind], ("default", "train")))
    if kind == "TrainJob":
        owner = carry_over(
            owner, OWNER_RESOURCES["JobSet"][1](cluster.store.get(JOB_SETS, ("default", "train")))
        )
    foretold = {f"{owner.job_name}/{role}/{index}" for role, index in owner.named(3)}
    assert set(replicas(cluster)) == foretold
    assert {identity_of(pod).owner_kind for pod in cluster.pods()} == {
        "JobSet" if kind == "TrainJob" else kind
    }


@pytest.mark.parametrize("kind", ELASTIC)
async def test_the_last_workers_go_and_come_and_the_others_stay(cluster, kind):
    """By one patch of the owner's object."""
    await make(cluster, kind, 3)
    first = replicas(cluster)
    await wish(cluster, kind, workers=1)
    fewer = replicas(cluster)
    assert fewer.items() < first.items()
    assert len(first) - len(fewer) == 2
    assert sorted(first)[-2:] == sorted(set(first) - set(fewer))
    await wish(cluster, kind, workers=4)
    more = replicas(cluster)
    assert fewer.items() < more.items()
    assert len(more) - len(fewer) == 3


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_a_suspended_job_has_no_pods_and_comes_back_with_the_same_replicas(cluster, kind):
    """Nothing is counted as a failure."""
    await make(cluster, kind)
    first = replicas(cluster)
    await wish(cluster, kind, suspended=True, mark="change-1")
    assert cluster.pods() == []
    await wish(cluster, kind, suspended=False, mark=None)
    second = replicas(cluster)
    assert set(second) == set(first)
    assert not set(second.values()) & set(first.values())
    status = cluster.store.get(KINDS[kind], ("default", "train")).get("status") or {}
    assert not any(c["type"] == "Failed" and c["status"] == "True" for c in status.get("conditions") or [])


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "MPIJob", "Job"])
async def test_suspended_jobs_take_another_number_of_workers(cluster, kind):
    """And come back with it: a restart."""
    await make(cluster, kind)
    before = len(replicas(cluster))
    await wish(cluster, kind, suspended=True, workers=4, scaled="2:4")
    await wish(cluster, kind, suspended=False)
    assert len(replicas(cluster)) == before + 2


async def test_what_may_not_change_is_refused(cluster):
    """The trainer of a TrainJob; the number of pods of a JobSet whose Jobs are not Indexed."""
    await make(cluster, "TrainJob")
    body = {"spec": {"trainer": {"numNodes": 5}}}
    with pytest.raises(FailureError, match="immutable"):
        await cluster.machinery.patch(TRAIN_JOBS, ("default", "train"), "merge", body)
    loose = [{"name": "w", "template": {"spec": {"template": job_object("Job")["spec"]["template"]}}}]
    await cluster.machinery.create(
        JOB_SETS, "default", {"metadata": {"name": "s"}, "spec": {"replicatedJobs": loose}}
    )
    loose[0]["template"]["spec"]["parallelism"] = 2
    with pytest.raises(FailureError, match="immutable"):
        await cluster.machinery.patch(
            JOB_SETS, ("default", "s"), "merge", {"spec": {"replicatedJobs": loose}}
        )


async def test_a_stale_patch_is_refused(cluster):
    """It holds only for the version that was read."""
    await make(cluster, "PyTorchJob")
    old = cluster.store.get(PYTORCH_JOBS, ("default", "train"))
    await wish(cluster, "PyTorchJob", workers=3)
    patch = job_patch("PyTorchJob", old, JobWish(workers=1))
    with pytest.raises(FailureError):
        await cluster.machinery.patch(PYTORCH_JOBS, ("default", "train"), patch.form, patch.body)
    assert len(replicas(cluster)) == 3


async def test_gated_pods_of_every_worker_wait(cluster):
    """They have names and no nodes until the gate is gone."""
    pods = job_object("Job")["spec"]["template"]
    pods["spec"]["schedulingGates"] = [{"name": "specon.io/admission"}]
    await make(cluster, "Job", pods=pods)
    assert [pod["spec"].get("nodeName") for pod in cluster.pods()] == [None, None]
    one = cluster.pods()[0]["metadata"]["name"]
    body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "specon.io/admission"}]}}
    await cluster.machinery.patch(PODS, ("default", one), "strategic", body)
    await cluster.settle()
    assert [bool(pod["spec"].get("nodeName")) for pod in cluster.pods()] == [True, False]


async def test_trainers_are_told_of_each_other_as_their_operator_does(cluster):
    """A sparse cluster names only parameter servers; an elastic one names bounds."""
    await make(cluster, "TFJob", enableDynamicWorker=True)
    worker = cluster.pod("train-worker-1")["spec"]["containers"][0]["env"]
    said = json.loads(next(each["value"] for each in worker if each["name"] == "TF_CONFIG"))
    assert said == {"sparseCluster": {"ps": ["train-ps-0"]}, "task": {"type": "worker", "index": 1}}
    await cluster.machinery.delete(TF_JOBS, ("default", "train"))
    await cluster.settle()
    await make(cluster, "PyTorchJob", elasticPolicy={"minReplicas": 1, "maxReplicas": 4})
    env = {e["name"]: e["value"] for e in cluster.pod("train-worker-0")["spec"]["containers"][0]["env"]}
    assert (env["PET_NNODES"], env["PET_RDZV_ENDPOINT"]) == ("1:4", "train-worker-0:29400")
