"""Which pods wait for the admission of their job."""

import copy

import pytest

from specon_manager.backends.kube.admission.gate import gate_arrival, gate_pod, other_queue, unheld
from specon_manager.backends.kube.admission.injection import Injection
from specon_manager.backends.kube.objects.capability import SINCE
from support.kube.pods import job_pod, kubeflow_pod, owned_by, pod, stateful_pod

OURS = {"name": "specon.io/admission"}
THEIRS = {"name": "example.com/quota"}
PINS = {"ml/r/worker/4": "host-3"}


def made(manifest, pins=None):
    """Return the pod as the gate leaves it; what it is given stays as it is."""
    before = copy.deepcopy(manifest)
    done = gate_pod(Injection(manifest), "ml", pins or {})
    assert manifest == before
    return done


def gates(manifest, pins=None):
    return made(manifest, pins).pod["spec"].get("schedulingGates")


def job_set_pod():
    labels = {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/jobset-uid": "u"}
    found = job_pod("llm-worker-0", 1)
    found["metadata"]["labels"] |= labels
    return found


def of_owner(kind, api):
    return pod("x-1", ownerReferences=owned_by(kind, "x", api=api))


@pytest.mark.parametrize(
    "manifest",
    [job_pod("r"), job_pod("r", 4), kubeflow_pod(), kubeflow_pod("TFJob", "t", "ps", 0), job_set_pod()],
    ids=["Job", "Indexed Job", "PyTorchJob", "TFJob", "JobSet"],
)
def test_pods_whose_job_can_be_held_are_gated(manifest):
    """With our gate alone, and without a word."""
    assert gates(manifest) == [OURS]
    assert made(manifest).warnings == ()


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (pod("mnist"), "nothing that can be suspended creates it"),
        (stateful_pod(), "a StatefulSet is not held"),
        (of_owner("DaemonSet", "apps/v1"), "a DaemonSet is not held"),
        (of_owner("ReplicaSet", "apps/v1"), "a ReplicaSet is not held"),
        (of_owner("Job", "batch.volcano.sh/v1alpha1"), "a Job is not held"),
        (pod("x", spec={"nodeName": "node-1"}), "spec.nodeName: 'node-1' gives it a node already"),
        (
            job_pod("r", annotations={"kubernetes.io/config.mirror": "hash"}),
            "it is a static pod, which its kubelet runs",
        ),
    ],
    ids=["bare", "StatefulSet", "DaemonSet", "ReplicaSet", "Volcano's Job", "bound", "static"],
)
def test_other_pods_are_let_through_with_the_reason(manifest, why):
    """Nobody would release them, or their scheduling is decided already."""
    assert gates(manifest) is None
    (said,) = made(manifest).warnings
    assert said.startswith(f"specon.io/queue: the pod is not held until its job is admitted: {why}")


@pytest.mark.parametrize(
    ("change", "other"),
    [
        (lambda one: one["metadata"]["labels"].update({"kueue.x-k8s.io/queue-name": "q"}), "Kueue"),
        (lambda one: one["metadata"]["annotations"].update({"kueue.x-k8s.io/workload": "w"}), "Kueue"),
        (lambda one: one["spec"].update(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), "Kueue"),
        (lambda one: one["spec"].update(schedulerName="volcano"), "Volcano"),
        (lambda one: one["metadata"]["annotations"].update({"scheduling.k8s.io/group-name": "g"}), "Volcano"),
        (lambda one: one["metadata"]["annotations"].update({"volcano.sh/queue-name": "g"}), "Volcano"),
    ],
)
def test_pods_of_other_queueing_controllers_are_theirs(change, other):
    """Two that hold the same pod would wait for each other."""
    manifest = job_pod("r", 4)
    assert other_queue(manifest) == ""
    change(manifest)
    assert other_queue(manifest) == other
    assert OURS not in (gates(manifest) or [])
    assert unheld(manifest, "ml") == f"{other} decides when it starts"


def pinned_pod(node="host-3", annotated_as="ml/r/worker/4"):
    found = job_pod("r", 4)
    found["metadata"]["annotations"] |= {"specon.io/replica": annotated_as, "specon.io/pinned": node}
    found["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return found


def test_a_pod_on_its_way_to_the_node_that_was_decided_is_not_held():
    """Neither when it comes with a gate of an earlier call."""
    assert gates(pinned_pod(), PINS) is None
    gated_before = pinned_pod()
    gated_before["spec"]["schedulingGates"] = [dict(THEIRS), dict(OURS)]
    assert gates(gated_before, PINS) == [THEIRS]


@pytest.mark.parametrize("pins", [{}, {"ml/r/worker/4": "host-4"}, {"ml/r/worker/5": "host-3"}])
def test_a_node_that_nobody_decided_opens_no_gate(pins):
    """Selector and annotation may be copied from the manifest of another pod."""
    assert gates(pinned_pod(), pins) == [OURS]


def test_gates_of_others_stay():
    """In their order, ours at the end; twice is the same as once."""
    manifest = job_pod("r", 4)
    manifest["spec"]["schedulingGates"] = [dict(THEIRS)]
    assert gates(manifest) == [THEIRS, OURS]
    assert gates(made(manifest).pod) == [THEIRS, OURS]
    ours_first = job_pod("r", 4)
    ours_first["spec"]["schedulingGates"] = [dict(OURS), dict(THEIRS)]
    assert gates(ours_first) == [OURS, THEIRS]


def test_a_bound_pod_keeps_no_gate_that_the_server_would_refuse():
    """One that was copied from a gated pod: the server takes either a node or gates."""
    assert gates(job_pod("r", 4) | {"spec": {"nodeName": "n", "schedulingGates": [dict(OURS)]}}) is None


def test_every_kind_that_can_be_suspended_is_named():
    """In the reason for one that cannot, so that its owner knows what to use."""
    assert all(kind in unheld(stateful_pod(), "ml") for kind in SINCE)


# -- what a move awaits ----------------------------------------------------------------------------

R = "ml/r/worker/4"


def awaited_gates(manifest, arriving=(R,)):
    before = copy.deepcopy(manifest)
    done = gate_arrival(Injection(manifest), arriving).pod
    assert manifest == before
    assert gate_arrival(Injection(done), arriving).pod == done
    return done["spec"].get("schedulingGates")


def test_what_a_move_awaits_is_gated_until_its_room_is_its_own():
    """Also one that waits in no queue; gates of others stay."""
    assert awaited_gates(pinned_pod()) == [OURS]
    theirs = pinned_pod()
    theirs["spec"]["schedulingGates"] = [dict(THEIRS)]
    assert awaited_gates(theirs) == [THEIRS, OURS]


def test_nothing_else_is():
    """Neither other replicas, nor what is not pinned by us, nor what has a node already."""
    assert awaited_gates(pinned_pod(), arriving=()) is None
    assert awaited_gates(job_pod("r", 4)) is None
    chosen = pinned_pod()
    chosen["metadata"]["annotations"]["specon.io/pinned"] = "host-4"
    assert awaited_gates(chosen) is None
    bound = pinned_pod()
    bound["spec"]["nodeName"] = "node-3"
    assert awaited_gates(bound) is None
