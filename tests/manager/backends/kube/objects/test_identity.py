"""Which replica a pod is."""

import pytest

from specon_manager.backends.kube.objects.identity import Identity, identity_of, kubeflow_member
from support.kube.pods import job_pod, kubeflow_pod, owned_by, pod, stateful_pod


def replica_of(manifest):
    found = identity_of(manifest)
    return None if found is None else found.replica


def test_a_bare_pod_is_a_job_of_its_own():
    """Its name is all that stays over a re-creation, so its UID is not part of who owns it."""
    assert identity_of(pod("mnist", uid="1")) == Identity(namespace="ml", job="mnist", owner_name="mnist")


@pytest.mark.parametrize(
    ("manifest", "replica", "kind"),
    [
        (job_pod("resnet"), "ml/resnet/worker/0", "Job"),
        (job_pod("resnet", 7), "ml/resnet/worker/7", "Job"),
        (stateful_pod("bert", 2), "ml/bert/worker/2", "StatefulSet"),
        (kubeflow_pod("TFJob", "tf", "ps", 1), "ml/tf/ps/1", "TFJob"),
        (kubeflow_pod("TFJob", "tf", "worker", 0), "ml/tf/worker/1", "TFJob"),
        (kubeflow_pod("TFJob", "tf", "chief", 0), "ml/tf/worker/0", "TFJob"),
        (kubeflow_pod("TFJob", "tf", "evaluator", 1), "ml/tf/worker/500001", "TFJob"),
        (kubeflow_pod("PyTorchJob", "gpt", "master", 0), "ml/gpt/worker/0", "PyTorchJob"),
        (kubeflow_pod("PyTorchJob", "gpt", "Worker", 3), "ml/gpt/worker/4", "PyTorchJob"),
        (pod("web-7f9-x", ownerReferences=owned_by("ReplicaSet", "web-7f9", api="apps/v1")),
         "ml/web-7f9/worker/0", "ReplicaSet"),
    ],
)  # fmt: skip
def test_owned_pods_are_replicas_of_their_owner(manifest, replica, kind):
    """The owner's name, and the role and index that the owner gave the pod."""
    found = identity_of(manifest)
    assert (found.replica, found.owner_kind, found.owner_uid) == (replica, kind, "owner-uid")


def test_a_stateful_pod_without_the_label_is_known_by_its_name():
    """Clusters older than the label have the ordinal in the name only."""
    manifest = stateful_pod("bert", 11)
    del manifest["metadata"]["labels"]["apps.kubernetes.io/pod-index"]
    assert replica_of(manifest) == "ml/bert/worker/11"


def test_a_job_set_is_known_by_its_child_jobs():
    """Each child Job's name is taken once in its namespace, and stays when the JobSet restarts it."""
    manifest = job_pod("llm-workers-1", 3)
    manifest["metadata"]["labels"] |= {
        "jobset.sigs.k8s.io/jobset-name": "llm",
        "jobset.sigs.k8s.io/jobset-uid": "set-uid",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": "1",
    }
    assert identity_of(manifest) == Identity(
        namespace="ml",
        job="llm-workers-1",
        index=3,
        owner_kind="JobSet",
        owner_name="llm",
        owner_uid="set-uid",
    )


def test_a_launcher_of_the_mpi_operator_belongs_to_the_mpi_job():
    """It is the pod of a Job of its own; workers have a role and an index, but no replica type."""
    labels = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "horovod",
    }
    launcher = job_pod("horovod-launcher")
    launcher["metadata"]["labels"] |= {**labels, "training.kubeflow.org/job-role": "launcher"}
    assert identity_of(launcher) == Identity(
        namespace="ml", job="horovod", role="ps", owner_kind="MPIJob", owner_name="horovod"
    )
    worker = pod(
        "horovod-worker-2", ownerReferences=owned_by("MPIJob", "horovod", api="kubeflow.org/v2beta1")
    )
    role = {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "2"}
    worker["metadata"]["labels"] = {**labels, **role}
    assert replica_of(worker) == "ml/horovod/worker/3"


def test_no_two_replicas_of_a_kubeflow_job_have_the_same_name():
    """Whatever types a job has, role and index differ."""
    members = [kubeflow_member(kind, index) for kind in ("ps", "worker", "evaluator") for index in range(50)]
    members.append(kubeflow_member("Master", 0))
    assert len(set(members)) == len(members)
    assert kubeflow_member("Master", 1) is None
    assert kubeflow_member("sidecar", 0) is None


@pytest.mark.parametrize(
    "manifest",
    [
        pod("", generateName="x-"),
        pod("UPPER"),
        pod("x", namespace=""),
        job_pod("resnet", 1_000_000),
        kubeflow_pod(replica_type="unheard-of"),
        pod("etcd-a", ownerReferences=owned_by("Node", "a", api="v1")),
        pod("no-ordinal", ownerReferences=owned_by("StatefulSet", "no", api="apps/v1")),
        {"metadata": None},
        {},
    ],
    ids=["no name yet", "upper case", "no namespace", "index", "type", "static", "ordinal", "null", "empty"],
)
def test_what_has_no_name_on_the_wire_is_no_replica(manifest):
    """None, and no exception: other people's pods have any form."""
    assert identity_of(manifest) is None


def test_an_owner_that_is_no_controller_does_not_create_pods():
    """Such references only tie lifetimes together."""
    references = owned_by("ConfigMap", "x", api="v1")
    references[0]["controller"] = False
    assert replica_of(pod("mnist", ownerReferences=references)) == "ml/mnist/worker/0"


def test_the_longest_names_fit():
    """253 characters of a pod's name are on the wire."""
    name = "a" * 253
    assert replica_of(pod(name)) == f"ml/{name}/worker/0"
