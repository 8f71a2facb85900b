import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.owner import (
    slim_job,
    slim_job_set,
    slim_pytorch_job,
    slim_stateful_set,
)
from specon_manager.backends.kube.objects.pod import slim_node, slim_pod
from specon_manager.backends.kube.objects.quantities import (
    format_quantities,
    quantity,
    requested_amounts,
    resources_of,
)
from specon_manager.backends.kube.objects.scheduling import constraints_of, taints_of
from specon_manager.model.constraints import Requirement, Taint, Toleration, objection
from specon_manager.model.resources import Resources
from support.kube.stage import template


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("250m", 0.25),
        ("2", 2.0),
        ("1.5Gi", 1.5 * 2**30),
        ("1e3", 1000.0),
        ("1E", 1e18),
        ("5k", 5000.0),
        ("0", 0.0),
    ],
)
def test_a_quantity_is_the_number_that_kubernetes_takes_it_for(text, number):
    """Suffixes of ten, of two and exponents."""
    assert quantity(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "much", "1Zi", "--1", ".", "1 Gi"])
def test_what_is_no_quantity_is_an_error_that_names_it(text):
    """ValueError with the text."""
    with pytest.raises(ValueError, match="quantity: "):
        quantity(text)


@given(st.floats(0.001, 1e6), st.integers(0, 2**50))
def test_written_amounts_are_never_less_than_what_was_requested(cpu, memory):
    """A placeholder holds at least as much as the pod takes."""
    back = format_quantities({"cpu": cpu, "memory": memory})
    assert quantity(back.get("cpu", "0")) >= cpu - 1e-6
    assert quantity(back.get("memory", "0")) >= memory


def test_a_pod_requests_the_larger_of_its_start_and_its_run():
    """Containers and native sidecars run together; an init container runs beside the sidecars before it."""
    spec = {
        "initContainers": [
            {"resources": {"requests": {"cpu": "1"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
            {"resources": {"requests": {"cpu": "3"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        ],
        "containers": [
            {"resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}},
            {"resources": {"requests": {"cpu": "1"}}},
        ],
        "overhead": {"cpu": "10m"},
    }
    assert resources_of(requested_amounts(spec)) == Resources(cpu=pytest.approx(3.51), memory=2**30, gpu=2)


def test_other_peoples_pods_keep_only_what_they_take():
    """No annotations, no labels, no volumes of a pod that did not ask for us."""
    pod = template(nodeName="node-1")
    pod["metadata"] = {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}}
    slim = slim_pod(pod)
    assert (slim.detail, slim.node, slim.requests) == (None, "node-1", Resources(cpu=1, memory=2**30))


def test_an_annotated_pod_without_a_sidecar_is_noticed():
    """It slipped through the webhook."""
    pod = template()
    pod["metadata"] |= {"name": "x", "namespace": "a", "uid": "u", "labels": {}}
    assert slim_pod(pod).wants_sidecar
    assert not slim_pod(pod, frozenset({"b"})).wants_sidecar


def test_a_hostname_that_we_pinned_is_no_wish_of_the_owner():
    """Else a pod that was moved once could never be moved again."""
    spec = {"nodeSelector": {"kubernetes.io/hostname": "node-1", "disk": "ssd"}}
    assert constraints_of(spec, pinned="node-1").selector == (("disk", "ssd"),)
    assert ("kubernetes.io/hostname", "node-1") in constraints_of(spec, pinned="").selector


def test_affinity_and_tolerations_are_taken_as_they_are_meant():
    """Alternatives; an unknown operator holds nowhere, an unknown toleration tolerates nothing."""
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-9"]}]},
        {"matchExpressions": [{"key": "x", "operator": "Near"}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"operator": "Exists", "key": "dedicated"}, {"operator": "Perhaps", "key": "y"}],
    }
    found = constraints_of(spec)
    assert found.terms[0] == (Requirement(key="gpu", operator="In", values=("a100",)),)
    assert found.tolerations[0] == Toleration(key="dedicated", operator="Exists")
    assert objection({"gpu": "a100"}, "n", (), found) is None
    assert objection({}, "node-9", (Taint(key="dedicated"),), found) is None
    assert objection({"x": "1"}, "n", (), found)
    assert objection({"gpu": "a100"}, "n", (Taint(key="y"),), found)


def test_a_cordoned_node_is_not_ready():
    """Neither is one whose kubelet does not answer."""
    node = {
        "metadata": {"name": "n", "uid": "u", "labels": {"kubernetes.io/hostname": "host-n"}},
        "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    slim = slim_node(node)
    assert (slim.ready, slim.hostname, slim.taints) == (
        True,
        "host-n",
        taints_of([{"key": "a", "effect": "NoExecute"}]),
    )
    assert not slim_node({**node, "spec": {"unschedulable": True}}).ready
    assert not slim_node({**node, "status": {}}).ready


def _ended(finished_at: str | None, deleted_at: str | None, phase: str = "Succeeded"):
    pod = template(nodeName="node-1")
    pod["metadata"] |= {
        "name": "p",
        "namespace": "a",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if deleted_at:
        pod["metadata"] |= {"deletionTimestamp": deleted_at, "deletionGracePeriodSeconds": 30}
    state = {"terminated": {"exitCode": 0, "finishedAt": finished_at}} if finished_at else {"running": {}}
    pod["status"] = {"phase": phase, "containerStatuses": [{"name": "trainer", "state": state}]}
    return slim_pod(pod).detail


def test_a_trainer_that_ended_before_it_was_told_has_finished():
    """The deletion was asked for its grace before the time that the API shows."""
    assert _ended("2026-01-01T01:00:00Z", None).ended_before_told
    assert _ended("2026-01-01T01:00:00Z", "2026-01-01T01:00:40Z").ended_before_told
    assert not _ended("2026-01-01T01:00:15Z", "2026-01-01T01:00:40Z").ended_before_told
    assert not _ended(None, "2026-01-01T01:00:40Z", "Running").ended_before_told


def test_nonsense_is_slimmed_without_an_error():
    """A watch must not end over one object."""
    assert slim_pod({}).phase == "Pending"
    assert slim_pod(
        {"metadata": {"labels": {"specon.io/sidecar": "injected"}}, "spec": {"containers": [1]}}
    ).detail
    assert slim_node({"status": {"conditions": "?"}}).ready is False
    assert slim_job({"spec": {"parallelism": "many"}}).at_once == 1


def test_owners_tell_how_many_pods_they_run_at_once():
    """The roles of Kubeflow jobs have the names that their pods will have."""
    indexed = slim_job({"spec": {"completions": 3, "parallelism": 2, "completionMode": "Indexed"}})
    assert (indexed.at_once, indexed.replicas) == (2, (("worker", 0), ("worker", 1), ("worker", 2)))
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    assert slim_job({"spec": {"podFailurePolicy": {"rules": rules}}}).ignores_disruptions
    assert slim_stateful_set({"spec": {"replicas": 2, "ordinals": {"start": 5}}}).replicas == (
        ("worker", 5),
        ("worker", 6),
    )
    torch = {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}
    slim = slim_pytorch_job({"spec": {"pytorchReplicaSpecs": torch, "runPolicy": {"suspend": True}}})
    assert (slim.at_once, slim.suspended) == (3, True)
    assert slim.replicas == (("worker", 0), ("worker", 1), ("worker", 2))
    child = {"template": {"spec": {"parallelism": 2}}, "replicas": 2}
    assert slim_job_set({"spec": {"replicatedJobs": [child]}}).at_once == 4
