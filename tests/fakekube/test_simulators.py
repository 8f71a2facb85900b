"""The simulators of the fake cluster: what real ones would do, where no contract test can ask them."""

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import (
    JOB_SETS,
    JOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    PVCS,
    PVS,
    PYTORCH_JOBS,
    STATEFUL_SETS,
    TF_JOBS,
)

CONTAINER = {"name": "main", "image": "trainer:1", "resources": {"requests": {"cpu": "6"}}}


@pytest.fixture
async def cluster():
    async with FakeCluster(nodes=2, automatic=False) as fake:
        yield fake


def template(**spec):
    return {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER], **spec}}


async def make_pod(cluster, name, **spec):
    made = await cluster.machinery.create(PODS, "default", {"metadata": {"name": name}, **_spec(spec)})
    await cluster.settle()
    return made


def _spec(spec):
    return {"spec": {"restartPolicy": "Never", "containers": [CONTAINER], **spec}}


def phase(cluster, name):
    return cluster.pod(name)["status"]["phase"]


def node(cluster, name):
    return cluster.pod(name)["spec"].get("nodeName", "")


def scheduled(cluster, name):
    conditions = cluster.pod(name)["status"]["conditions"]
    return next((e["status"], e.get("reason", "")) for e in conditions if e["type"] == "PodScheduled")


async def test_pods_wait_for_room(cluster):
    """Four pods of 6 cpus fill two nodes of 16; the fifth waits and runs when one ends."""
    for name in "abcde":
        await make_pod(cluster, name)
    assert sorted(node(cluster, name) for name in "abcd") == ["node-0", "node-0", "node-1", "node-1"]
    assert scheduled(cluster, "e") == ("False", "Unschedulable")
    await cluster.kubelet.complete(cluster.pod("a"))
    await cluster.settle()
    assert (phase(cluster, "a"), phase(cluster, "e"), node(cluster, "e")) == (
        "Succeeded",
        "Running",
        "node-0",
    )


async def test_higher_priority_takes_the_place(cluster):
    """A pod of higher priority makes one of lower priority go, marked as disrupted."""
    low = {"metadata": {"name": "low"}, "value": -10}
    await cluster.machinery.create(PRIORITY_CLASSES, "", low)
    await make_pod(
        cluster, "placeholder", priorityClassName="low", nodeSelector={"kubernetes.io/hostname": "node-1"}
    )
    await make_pod(cluster, "other", nodeSelector={"kubernetes.io/hostname": "node-1"})
    await make_pod(cluster, "trainer", nodeSelector={"kubernetes.io/hostname": "node-1"})
    assert cluster.pod("placeholder") is None
    assert (phase(cluster, "trainer"), node(cluster, "trainer")) == ("Running", "node-1")
    assert phase(cluster, "other") == "Running"


async def test_taints_need_tolerations(cluster):
    """A tainted node takes only pods that tolerate it, a cordoned one none."""
    await cluster.add_node("gpu-0", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    where = {"nodeSelector": {"kubernetes.io/hostname": "gpu-0"}}
    await make_pod(cluster, "a", **where)
    assert scheduled(cluster, "a") == ("False", "Unschedulable")
    tolerated = [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    await make_pod(cluster, "b", **where, tolerations=tolerated)
    assert node(cluster, "b") == "gpu-0"


async def test_pod_ends_in_two_steps(cluster):
    """A deleted pod first fails with 143, and its object goes when its time is over."""
    cluster.kubelet.stop_seconds = 5
    await make_pod(cluster, "a")
    await cluster.machinery.delete(PODS, ("default", "a"))
    await cluster.settle()
    assert phase(cluster, "a") == "Running"
    start = cluster.store.revision
    await cluster.advance(5)
    assert cluster.pod("a") is None
    last = [entry.after for entry in cluster.store.since(PODS, start) if entry.after is not None][-1]
    code = last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    assert (last["status"]["phase"], code) == ("Failed", 143)


async def test_deaf_pod_uses_its_whole_grace(cluster):
    """A pod that hears no signal stays until its grace period is over."""
    cluster.kubelet.deaf.add("a")
    await make_pod(cluster, "a")
    await cluster.machinery.delete(PODS, ("default", "a"), {"gracePeriodSeconds": 120})
    await cluster.settle()
    await cluster.advance(119)
    assert cluster.pod("a") is not None
    await cluster.advance(1)
    assert cluster.pod("a") is None


async def test_lost_node_keeps_its_pods(cluster):
    """On a node that is lost a deleted pod stays as an object until the node is back."""
    await make_pod(cluster, "a", nodeSelector={"kubernetes.io/hostname": "node-0"})
    await cluster.kubelet.down("node-0")
    await cluster.machinery.delete(PODS, ("default", "a"))
    await cluster.advance(100)
    assert cluster.pod("a")["metadata"]["deletionTimestamp"]
    await cluster.kubelet.up("node-0")
    await cluster.settle()
    assert cluster.pod("a") is None


async def test_image_that_cannot_be_pulled(cluster):
    """A pod whose image cannot be had waits and says so, until it can."""
    cluster.kubelet.unpullable.add("trainer:1")
    await make_pod(cluster, "a")
    waiting = cluster.pod("a")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (phase(cluster, "a"), waiting["reason"]) == ("Pending", "ErrImagePull")
    cluster.kubelet.unpullable.clear()
    await cluster.settle()
    assert phase(cluster, "a") == "Running"


async def test_volume_for_one_node(cluster):
    """A ReadWriteOnce volume keeps the next pod waiting until the last one is gone."""
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    await cluster.machinery.create(PVS, "", {"metadata": {"name": "v"}, "spec": volume})
    claim = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v"}}
    await cluster.machinery.create(PVCS, "default", claim)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    await make_pod(cluster, "a", volumes=volumes, nodeSelector={"kubernetes.io/hostname": "node-0"})
    await make_pod(cluster, "b", volumes=volumes, nodeSelector={"kubernetes.io/hostname": "node-1"})
    assert (phase(cluster, "a"), phase(cluster, "b"), node(cluster, "b")) == ("Running", "Pending", "node-1")
    await cluster.machinery.delete(PODS, ("default", "a"))
    await cluster.settle()
    assert phase(cluster, "b") == "Running"


async def test_native_sidecar_ends_after_the_trainer(cluster):
    """When the trainer completes, its native sidecar is over too, and the Job completes."""
    sidecar = {"name": "sidecar", "image": "sidecar:1", "restartPolicy": "Always"}
    spec = {"template": template(initContainers=[sidecar])}
    await cluster.machinery.create(JOBS, "default", {"metadata": {"name": "j"}, "spec": spec})
    await cluster.settle()
    [pod] = cluster.pods()
    assert "running" in pod["status"]["initContainerStatuses"][0]["state"]
    await cluster.kubelet.complete(pod)
    await cluster.settle()
    status = cluster.store.get(JOBS, ("default", "j"))["status"]
    assert (status["succeeded"], status["conditions"][-1]["type"]) == (1, "Complete")


async def test_retries_wait_longer_each_time(cluster):
    """With a backoff a failed pod is replaced after that delay, the next after twice as much."""
    cluster.jobs.backoff_seconds = 10
    await cluster.machinery.create(
        JOBS, "default", {"metadata": {"name": "j"}, "spec": {"template": template()}}
    )
    await cluster.settle()
    for delay in (10, 20):
        [pod] = [pod for pod in cluster.pods() if pod["status"]["phase"] == "Running"]
        await cluster.kubelet.complete(pod, 1)
        await cluster.settle()
        await cluster.advance(delay - 1)
        assert not [pod for pod in cluster.pods() if pod["status"]["phase"] == "Running"]
        await cluster.advance(1)
    assert cluster.store.get(JOBS, ("default", "j"))["status"]["failed"] == 2


@pytest.mark.parametrize(
    ("kind", "field"), [(TF_JOBS, "tfReplicaSpecs"), (PYTORCH_JOBS, "pytorchReplicaSpecs")]
)
async def test_operators_suspend_and_resume(cluster, kind, field):
    """A suspended TFJob or PyTorchJob has no pods; resumed, it has the same names again with other uids."""
    replica = {"replicas": 2, "restartPolicy": "OnFailure", "template": template()}
    body = {"metadata": {"name": "t"}, "spec": {"runPolicy": {}, field: {"Worker": replica}}}
    await cluster.machinery.create(kind, "default", body)
    await cluster.settle()
    first = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    await cluster.machinery.patch(kind, ("default", "t"), "merge", {"spec": {"runPolicy": {"suspend": True}}})
    await cluster.settle()
    assert cluster.pods() == []
    await cluster.machinery.patch(
        kind, ("default", "t"), "merge", {"spec": {"runPolicy": {"suspend": False}}}
    )
    await cluster.settle()
    second = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    assert list(second) == ["t-worker-0", "t-worker-1"] == list(first)
    assert not set(first.values()) & set(second.values())


async def test_job_set_passes_suspension_on(cluster):
    """A JobSet makes Jobs and suspends them with itself."""
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": {"template": template()}}}]
    await cluster.machinery.create(
        JOB_SETS, "default", {"metadata": {"name": "s"}, "spec": {"replicatedJobs": jobs}}
    )
    await cluster.settle()
    assert len(cluster.pods()) == 2
    await cluster.machinery.patch(JOB_SETS, ("default", "s"), "merge", {"spec": {"suspend": True}})
    await cluster.settle()
    assert [job["spec"]["suspend"] for job in cluster.store.all(JOBS)] == [True, True]
    assert cluster.pods() == []


async def test_stateful_set_in_order(cluster):
    """Pods of a StatefulSet come one after the other, and go from the highest."""
    cluster.kubelet.held.add("s-0")
    body = {"metadata": {"name": "s"}, "spec": {"replicas": 2, "template": template(restartPolicy="Always")}}
    await cluster.machinery.create(STATEFUL_SETS, "default", body)
    await cluster.settle()
    assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["s-0"]
    cluster.kubelet.held.clear()
    await cluster.settle()
    assert len(cluster.pods()) == 2
    await cluster.machinery.patch(STATEFUL_SETS, ("default", "s"), "merge", {"spec": {"replicas": 1}})
    await cluster.settle()
    assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["s-0"]


@pytest.mark.parametrize(("policy", "left"), [(None, 0), ("Foreground", 0), ("Orphan", 1)])
async def test_what_belongs_to_a_deleted_owner(cluster, policy, left):
    """Pods go with their Job, unless they are to be orphans."""
    await cluster.machinery.create(
        JOBS, "default", {"metadata": {"name": "j"}, "spec": {"template": template()}}
    )
    await cluster.settle()
    await cluster.machinery.delete(JOBS, ("default", "j"), {"propagationPolicy": policy} if policy else {})
    await cluster.settle()
    assert (len(cluster.pods()), cluster.store.get(JOBS, ("default", "j"))) == (left, None)


async def test_namespace_ends_with_everything_in_it(cluster):
    """A deleted namespace is gone when everything in it is, and owners make nothing new in it."""
    await cluster.machinery.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    await cluster.settle()
    await cluster.machinery.create(JOBS, "n", {"metadata": {"name": "j"}, "spec": {"template": template()}})
    await cluster.settle()
    await cluster.machinery.delete(NAMESPACES, ("", "n"))
    await cluster.settle()
    assert (cluster.pods(), cluster.store.get(NAMESPACES, ("", "n"))) == ([], None)
