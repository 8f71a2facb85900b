import re

import pytest

from specon_manager.backends.kube.objects.pod import NodeInfo, slim_pod
from specon_manager.backends.kube.placeholder import placeholder, placeholder_name, room
from specon_manager.model.resources import Resources
from support.kube.stage import template

NODE = NodeInfo(
    uid="n",
    name="node-1",
    allocatable=Resources(),
    labels={"kubernetes.io/hostname": "host-1"},
    taints=(),
    ready=True,
)


def _made(**spec):
    pod = template(
        tolerations=[{"key": "gpu", "operator": "Exists"}], imagePullSecrets=[{"name": "s"}], **spec
    )
    pod["metadata"] |= {"name": "p", "namespace": "a"}
    pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    return placeholder(
        pod,
        move="m-1",
        replica="a/p/worker/0",
        migration="train-1",
        node=NODE,
        priority_class="specon-room",
        reference={"apiVersion": "specon.io/v1alpha1", "kind": "Migration", "name": "train-1", "uid": "u"},
    )


def test_a_placeholder_asks_for_what_the_pod_asks_for_on_that_node_only():
    """By the value of the hostname label, which need not be the node's name; devices as limits too."""
    spec = _made()["spec"]
    [container] = spec["containers"]
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "host-1"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert container["image"] == "registry.example/train:1"
    assert container["resources"] == {
        "requests": {"cpu": "1000m", "memory": "1073741824", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


def test_a_placeholder_gives_way_at_once_and_may_do_nothing():
    """It passes the restricted pod security standard, has no token, and goes with its Migration."""
    made = _made()
    spec, [container] = made["spec"], made["spec"]["containers"]
    assert (spec["terminationGracePeriodSeconds"], spec["automountServiceAccountToken"]) == (0, False)
    assert spec["priorityClassName"] == "specon-room"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["runAsNonRoot"] is True
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Migration"
    assert made["metadata"]["labels"] == {"specon.io/placeholder": "train-1"}


@pytest.mark.parametrize("move", ["m-1", "team/" + "x" * 250, "a/B_c"])
def test_its_name_is_a_name_whatever_the_move_is_called(move):
    """The same each time, so that a second order finds the first one's; another one for each replica."""
    name = placeholder_name(move, "a/p/worker/0")
    assert re.fullmatch(r"[a-z0-9-]{1,63}", name)
    assert placeholder_name(move, "a/p/worker/0") == name
    assert placeholder_name(move + "x", "a/p/worker/0") != name
    assert placeholder_name(move, "a/p/worker/1") != name


def _seen(node="node-1", phase="Pending", state=None, **status):
    made = _made()
    made["metadata"]["uid"] = "u"
    made["spec"]["nodeName"] = node
    made["status"] = {"phase": phase, "containerStatuses": [{"name": "room", "state": state or {}}], **status}
    return slim_pod(made)


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        (_seen(phase="Running", state={"running": {}}), "held"),
        (_seen(state={"waiting": {"reason": "CrashLoopBackOff"}}), "held"),
        (_seen(state={"waiting": {"reason": "CreateContainerError"}}), "held"),
        (_seen(state={"waiting": {"reason": "ContainerCreating"}}), "waiting"),
        (_seen(state={"waiting": {"reason": "ImagePullBackOff"}}), "trouble"),
        (_seen(node=""), "waiting"),
        (_seen(node="node-2", phase="Running", state={"running": {}}), "trouble"),
        (_seen(phase="Failed", reason="Preempted"), "trouble"),
    ],
)
def test_room_is_held_where_the_pod_is_bound_and_its_image_is_there(pod, verdict):
    """Whether the harmless command exists in the image does not matter."""
    assert room(pod, "node-1")[0] == verdict


def test_what_the_scheduler_says_is_passed_on():
    """The refusal names it."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes: Insufficient cpu",
    }
    assert room(_seen(node="", conditions=[condition]), "node-1") == (
        "trouble",
        "0/3 nodes: Insufficient cpu",
    )
