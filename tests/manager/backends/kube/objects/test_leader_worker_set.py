"""A LeaderWorkerSet of one group is one gang, unless something stands against it."""

import copy

import pytest

from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.objects.leader_group import with_group
from specon_manager.backends.kube.objects.leader_worker_set import set_of
from specon_manager.backends.kube.objects.owner import slim_leader_worker_set, slim_stateful_set
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.watching.translate import spec_of
from specon_manager.model.resources import Resources
from support.kube.job_objects import job_object
from support.kube.pods import owned_by
from support.kube.stage import template

COUPLED = {"specon.io/replicas": "coupled"}
PREFIX = "leaderworkerset.sigs.k8s.io/"


def leader_worker_set(size=3, **group):
    """Return the object; `group` is merged over what its leaderWorkerTemplate says."""
    obj = job_object("LeaderWorkerSet", size, annotations=COUPLED)
    obj["spec"]["leaderWorkerTemplate"] |= group
    return obj


def pod(name, stateful_set, *, named="train", **more):
    """Return a pod as a StatefulSet makes it, before any webhook has seen it."""
    made = template(COUPLED, labels={f"{PREFIX}name": named}, nodeName="node-1", **more)
    made["metadata"] |= {
        "name": name,
        "namespace": "a",
        "uid": f"uid-{name}",
        "ownerReferences": owned_by("StatefulSet", stateful_set, api="apps/v1"),
    }
    return made


def stateful_set(name, replicas, owner):
    """Return one of its StatefulSets as it is kept; `owner` is kind and name."""
    kind, controller = owner.split()
    made = job_object("StatefulSet", replicas, annotations={}, name=name)
    made["metadata"]["annotations"] = {"specon.io/suspended-for": "move-1"}
    made["metadata"]["ownerReferences"] = owned_by(kind, controller, api="v1")
    return slim_stateful_set(made)


@pytest.mark.parametrize(
    ("name", "stateful_set", "replica"),
    [
        ("train-0", "train", "a/train/worker/0"),
        ("train-0-1", "train-0", "a/train/worker/1"),
        ("train-0-2", "train-0", "a/train/worker/2"),
        ("train-1", "train", "a/train-1/worker/0"),
        ("train-1-2", "train-1", "a/train-1/worker/2"),
    ],
)
def test_a_pod_is_a_member_of_its_group_by_names_alone(name, stateful_set, replica):
    """Whichever webhook is asked first. Two pods of one set never have one name."""
    found = identity_of(pod(name, stateful_set))
    assert found is not None
    assert (found.replica, found.owner_kind, found.owner_name) == (replica, "LeaderWorkerSet", "train")


@pytest.mark.parametrize(
    ("name", "stateful_set", "named"),
    [("other-0", "other", "train"), ("train-0-0", "train-0", "train"), ("train-x-1", "train-x", "train")],
)
def test_a_pod_that_names_a_set_whose_group_it_cannot_be_is_none_of_it(name, stateful_set, named):
    """Anyone may write labels."""
    found = identity_of(pod(name, stateful_set, named=named))
    assert found is not None
    assert (found.owner_kind, found.owner_name) == ("StatefulSet", stateful_set)


def test_its_only_group_is_one_job_with_the_names_that_its_pods_have():
    owner = slim_leader_worker_set(leader_worker_set(3))
    assert (owner.job_name, owner.at_once, owner.suspended, owner.apart) == ("a/train", 3, False, "")
    assert owner.replicas == (("worker", 0), ("worker", 1), ("worker", 2))
    made = slim_pod(pod("train-0-1", "train-0"))
    spec = spec_of("a/train", [made], owner, {})
    assert spec.replicas == ("a/train/worker/0", "a/train/worker/1", "a/train/worker/2")
    assert (spec.coupled, spec.immovable, spec.held, spec.resizing) == (True, "", False, "none")


def test_a_leader_may_ask_for_more_than_its_workers():
    leader = template(COUPLED)
    leader["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    owner = slim_leader_worker_set(leader_worker_set(3, leaderTemplate=leader))
    assert [(index, amount.cpu) for index, amount in owner.unlike] == [(0, 4.0), (1, 1.0)]
    assert owner.worker_requests == Resources(cpu=4, memory=2**30)
    assert owner.apart == ""


def test_a_set_whose_user_wants_no_group_is_suspended_by_its_user():
    """No mark of ours is on it, so nobody brings it back."""
    obj = leader_worker_set()
    obj["spec"]["replicas"] = 0
    owner = slim_leader_worker_set(obj)
    assert (owner.suspended, owner.suspended_for, owner.apart) == (True, "", "")


ANOTHER_CONTAINER = template({**COUPLED, "specon.io/container": "trainer"})
OTHER_NODES, OTHER_WORDS = template(COUPLED, nodeSelector={"disk": "ssd"}), template({"specon.io/cpu": "1"})


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"subGroupPolicy": {"subGroupSize": 2}}, "subgroups"),
        ({"restartPolicy": "None"}, "restartPolicy: None"),
        ({"restartPolicy": "Default"}, "restartPolicy: Default"),
        ({"restartPolicy": ["x"]}, "restarts its pods one by one"),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}, "loses its volumes"),
        ({"leaderTemplate": OTHER_NODES}, "may not run on the same nodes"),
        ({"leaderTemplate": OTHER_WORDS}, "different annotations"),
        ({"restartPolicy": "RecreateGroupAfterStart"}, ""),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}, ""),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": ["x"], "whenDeleted": {}}}, ""),
        ({"leaderTemplate": ANOTHER_CONTAINER}, ""),
    ],
)
def test_what_stands_against_it_is_said(group, words):
    apart = slim_leader_worker_set(leader_worker_set(**group)).apart
    assert (words in apart) if words else apart == ""


@pytest.mark.parametrize("key", ["exclusive-topology", "subgroup-exclusive-topology"])
def test_a_set_whose_controller_chooses_nodes_is_observed(key):
    obj = leader_worker_set()
    obj["metadata"]["annotations"] = {f"{PREFIX}{key}": "rack"}
    assert f"{PREFIX}{key}" in slim_leader_worker_set(obj).apart


def test_of_several_groups_none_is_moved():
    """No order of a lower number says which of them ends."""
    obj = leader_worker_set()
    obj["spec"]["replicas"] = 3
    assert "has 3 groups" in slim_leader_worker_set(obj).apart


def _suspended(*, by="move-1"):
    obj = leader_worker_set()
    obj["spec"]["replicas"] = 0
    obj["metadata"]["annotations"] = {"specon.io/suspended-for": by}
    return slim_leader_worker_set(obj)


LEADS, WORKS = "LeaderWorkerSet train", "Pod train-0"


@pytest.mark.parametrize(
    ("leaders", "workers", "left"),
    [
        (stateful_set("train", 1, LEADS), stateful_set("train-0", 2, WORKS), "StatefulSet train "),
        (stateful_set("train", 0, LEADS), stateful_set("train-0", 2, WORKS), "StatefulSet train-0"),
        (stateful_set("train", 0, LEADS), None, ""),
        (None, None, ""),
        (stateful_set("train", 1, "Operator x"), stateful_set("train-0", 2, "Operator x"), ""),
    ],
)
def test_what_may_create_its_pods_again_is_left_of_it(leaders, workers, left):
    """A StatefulSet of somebody else with such a name is not."""
    found = with_group(_suspended(), leaders, workers).remains
    assert (left in found) if left else found == ""


def test_a_group_that_is_not_as_its_set_says_is_left_alone():
    """A rolling update has an old group of another size, or a second one beside it."""
    owner = slim_leader_worker_set(leader_worker_set(3))
    whole = with_group(owner, stateful_set("train", 1, LEADS), stateful_set("train-0", 2, WORKS))
    assert (whole, whole.remains) == (owner, "")
    other = with_group(owner, stateful_set("train", 1, LEADS), stateful_set("train-0", 4, WORKS))
    assert "a group of 5 pods, and its size is 3" in other.apart
    surge = with_group(owner, stateful_set("train", 2, LEADS), stateful_set("train-0", 2, WORKS))
    assert "has 2 groups while it is updated" in surge.apart


def test_the_mark_that_its_statefulsets_are_given_with_its_annotations_means_nothing():
    """Else somebody would try to resume them."""
    assert stateful_set("train", 1, LEADS).suspended_for == ""


@pytest.mark.parametrize(
    ("name", "controller", "found"),
    [
        ("train", "LeaderWorkerSet train", "train"),
        ("train-0", "Pod train-0", "train"),
        ("train-2", "Pod train-2", "train"),
        ("train-0", "Pod other-0", ""),
        ("train", "Pod train", ""),
        ("train-0", "", ""),
    ],
)
def test_a_stateful_set_belongs_to_the_set_above_it(name, controller, found):
    assert set_of(name, controller) == found


@pytest.mark.parametrize("given", [None, 7, [], {"leaderTemplate": 7}, {"workerTemplate": [1], "size": "x"}])
def test_nonsense_is_slimmed_without_an_error(given):
    obj = copy.deepcopy(leader_worker_set())
    obj["spec"]["leaderWorkerTemplate"] = given
    assert slim_leader_worker_set(obj).at_once == 1
