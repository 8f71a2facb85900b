import pytest

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import NodeInfo, slim_pod
from specon_manager.backends.kube.objects.ways import immovable_because, owner_immovable_because, suspends
from specon_manager.backends.kube.owners.bare import manifest_of, pin_to_node
from specon_manager.model.resources import Resources
from support.kube.stage import template

NODE = NodeInfo(uid="n", name="node-1", allocatable=Resources(), labels={}, taints=(), ready=True)


def _owned(kind="Job", *, labels=None):
    pod = template(labels=labels)
    reference = {"apiVersion": "x/v1", "kind": kind, "name": "train", "uid": "o", "controller": True}
    pod["metadata"] |= {"name": "train-0", "namespace": "a", "uid": "u", "ownerReferences": [reference]}
    return slim_pod(pod)


def _owner(kind="Job", **known):
    return OwnerInfo(kind=kind, namespace="a", name="train", uid="o", **known)


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (_owner(), ""),
        (_owner(at_once=4, ignores_disruptions=True), ""),
        (_owner(at_once=4), "podFailurePolicy"),
        (_owner(kueue=True), "Kueue manages Job train"),
        (_owner(controller="TrainJob bert"), "belongs to TrainJob bert"),
        (_owner(deleting=True), "is being deleted"),
        (_owner("StatefulSet", at_once=3, controller="Operator x"), ""),
        (_owner("TFJob"), ""),
        (_owner("PyTorchJob", at_once=2), ""),
        (_owner("PyTorchJob", at_once=2, options=Options(replicas="independent")), "suspension ends all"),
        (_owner("JobSet", at_once=4, jobs=2), "makes 2 Jobs"),
        (_owner(at_once=4, workers=4, indexed=True, hint="RANK"), ""),
        (_owner(at_once=4, workers=4, hint="RANK"), "is not Indexed"),
        (_owner(at_once=2, workers=4, indexed=True, hint="RANK"), "no group of workers"),
        (
            _owner("StatefulSet", at_once=3, hint="serviceName: x"),
            "cannot be suspended, and its 3 pods",
        ),
        (_owner("JobSet"), ""),
        (_owner("LeaderWorkerSet"), ""),
        (_owner("LeaderWorkerSet", apart="has 2 groups"), "LeaderWorkerSet train has 2 groups"),
        (_owner("LeaderWorkerSet", controller="DisaggregatedSet x"), "belongs to DisaggregatedSet x"),
        (_owner("LeaderWorkerSet", kueue=True, kueue_against=""), "not suspended by Kueue"),
        (_owner("LeaderWorkerSet", at_once=2, options=Options(replicas="independent")), "ends all"),
        (_owner(suspended=True, suspended_for="m-1"), ""),
        (None, "nothing is known yet of Job train"),
    ],
)
def test_each_kind_of_owner_moves_its_pods_or_says_why_not(owner, words):
    """The words are for people."""
    said = owner.options if owner else Options()
    why = immovable_because(_owned(owner.kind if owner else "Job"), owner, said)
    assert (words in why) if words else why == ""


def test_pods_of_a_kind_that_is_not_followed_are_observed():
    """Nothing more will be known of their owner."""
    assert "such pods are observed, not moved" in immovable_because(_owned("CronWorkflow"), None, Options())


def test_it_is_said_why_pods_of_ray_are_observed():
    """Ray decides by itself what runs in which of them."""
    assert "Ray plans its work itself" in immovable_because(_owned("RayCluster"), None, Options())
    assert "Ray" not in immovable_because(_owned("ReplicaSet"), None, Options())
    submitter = _owner(controller="RayJob tune")
    assert "belongs to RayJob tune" in immovable_because(_owned(), submitter, Options())


@pytest.mark.parametrize("controller", ["LeaderWorkerSet group", "Pod group-0"])
@pytest.mark.parametrize("said", [Options(), Options(replicas="independent")])
def test_a_pod_that_does_not_name_its_leader_worker_set_does_not_leave_its_group_alone(controller, said):
    """Though a StatefulSet of leaders, or of workers, may have one pod; annotations change nothing."""
    owner = _owner("StatefulSet", controller=controller, options=said)
    words = "a leader and its workers train as one"
    assert words in immovable_because(_owned("StatefulSet"), owner, said)
    assert words in owner_immovable_because(owner)


def test_a_pod_in_a_queue_of_kueue_is_left_to_it():
    """Whatever owns it."""
    pod = _owned(labels={"kueue.x-k8s.io/queue-name": "gpu"})
    assert "Kueue" in immovable_because(pod, _owner(), Options())


def test_jobs_with_one_pod_and_those_that_train_as_one_are_suspended():
    """The others' pods are evicted one at a time."""
    assert suspends(_owner(at_once=1))
    assert not suspends(_owner(at_once=2))
    assert suspends(_owner(at_once=2, workers=2, indexed=True, hint="RANK"))
    assert not suspends(_owner("StatefulSet"))


def test_a_manifest_has_nothing_that_belongs_to_the_pod_that_was():
    """Neither what the server sets, nor the node, nor the hostname that we pinned; the rest is whole."""
    pod = template({"specon.io/pinned": "node-0"}, nodeName="node-0", priority=0)
    pod["metadata"] |= {
        "name": "p",
        "namespace": "a",
        "uid": "u",
        "resourceVersion": "1",
        "finalizers": ["x"],
    }
    pod["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "generation": 1}
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-0", "disk": "ssd"}
    pod["spec"]["ephemeralContainers"] = [{"name": "debug"}]
    pod["status"] = {"phase": "Running"}
    manifest = manifest_of(pod)
    assert set(manifest["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert "specon.io/pinned" not in manifest["metadata"]["annotations"]
    assert set(manifest["spec"]) == {"containers", "volumes", "restartPolicy", "nodeSelector"}
    assert manifest["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "status" not in manifest
    assert pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] == "node-0"


def test_a_pod_that_is_created_again_is_pinned_by_us_or_by_nobody():
    """A hostname that its user asked for stays, and is not taken for ours."""
    manifest = manifest_of({"metadata": {"name": "p", "namespace": "a"}, "spec": {}})
    assert pin_to_node(manifest, None) == manifest
    body = pin_to_node(manifest, NODE)
    assert body["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}
    assert body["metadata"]["annotations"] == {"specon.io/pinned": "node-1"}
    theirs = {"metadata": {}, "spec": {"nodeSelector": {"kubernetes.io/hostname": "x"}}}
    assert pin_to_node(theirs, NODE) == theirs
