"""The sample manifests of elastic jobs: whole, and given their sidecar by admission."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import review
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.objects.identity import identity_of
from specon_sidecar.settings import read_settings

JOBS = Path(__file__).parents[2] / "samples" / "jobs"
FILES = ("elastic-pytorchjob.yaml", "elastic-job.yaml")
SETTINGS = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://m.specon.svc", ca_bundle="PEM")


def objects_of(file):
    return list(yaml.safe_load_all((JOBS / file).read_text()))


def templates_of(workload):
    if workload["kind"] == "PyTorchJob":
        return {name: one["template"] for name, one in workload["spec"]["pytorchReplicaSpecs"].items()}
    return {"worker": workload["spec"]["template"]}


def pod_of(workload, role, template):
    """Return a pod as its owner's controller creates it."""
    name, kind = workload["metadata"]["name"], workload["kind"]
    metadata = {**template["metadata"], "name": f"{name}-{role.lower()}-0"}
    metadata["ownerReferences"] = [
        {"apiVersion": workload["apiVersion"], "kind": kind, "name": name, "uid": "u", "controller": True}
    ]
    if kind == "PyTorchJob":
        labels = {"replica-type": role.lower(), "replica-index": "0", "job-name": name}
        metadata["labels"] = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    else:
        index = {"batch.kubernetes.io/job-completion-index": "1"}
        metadata |= {"annotations": {**metadata["annotations"], **index}, "labels": index}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.fixture(params=[(file, role) for file in FILES for role in templates_of(objects_of(file)[-1])])
def pod(request):
    file, role = request.param
    workload = objects_of(file)[-1]
    return pod_of(workload, role, templates_of(workload)[role])


def added(pod):
    """Return the sidecar that admission adds."""
    request = {
        "uid": "1",
        "operation": "CREATE",
        "namespace": "samples",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": pod,
    }
    asked = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = review(asked, SETTINGS, {})["response"]
    assert response["allowed"], response["status"]["message"]
    assert "warnings" not in response
    steps = json.loads(base64.b64decode(response["patch"]))
    (containers,) = [each["value"] for each in steps if each["path"].startswith("/spec/initContainers")]
    return containers[0] if isinstance(containers, list) else containers


def test_each_replica_gets_a_sidecar_that_reads_its_own_log(pod):
    """Log and checkpoints are where the trainer writes them; each pod has a log of its own."""
    sidecar = added(pod)
    (trainer,) = pod["spec"]["containers"]
    own = {(one["name"], one["mountPath"], one.get("subPathExpr")) for one in trainer["volumeMounts"]}
    assert own <= {(one["name"], one["mountPath"], one.get("subPathExpr")) for one in sidecar["volumeMounts"]}
    arguments = sidecar["args"]
    for name in ("SPECON_POD_UID", "SPECON_POD_NAME", "SPECON_POD_NAMESPACE"):
        arguments = [argument.replace(f"$({name})", "x") for argument in arguments]
    settings = read_settings(arguments, {})
    assert f"--log={settings.log}" in trainer["args"]
    assert f"--checkpoint-dir={settings.checkpoint_path}" in trainer["args"]
    (log,) = [one for one in trainer["volumeMounts"] if str(settings.log).startswith(one["mountPath"])]
    assert log["subPathExpr"]


def test_each_job_opts_into_a_queue_and_into_scaling(pod):
    """Its bounds hold what it asks for, and it says how long it takes to save."""
    options = read_options(pod["metadata"]["annotations"])
    assert options.queue == "training"
    assert options.min_workers == 1
    assert options.max_workers > 2
    assert options.grace_period == 30


def test_the_jobs_are_of_both_ways_to_change_a_number():
    """A PyTorchJob whose master is worker 0, and workers of a Job beside a server of their own."""
    found = []
    for file in FILES:
        workload = objects_of(file)[-1]
        for role, template in templates_of(workload).items():
            made = pod_of(workload, role, template)
            identity = identity_of({**made, "metadata": {**made["metadata"], "namespace": "samples"}})
            found.append((identity.owner_kind, identity.job, identity.role, identity.index))
    assert found == [
        ("PyTorchJob", "perceptron", "worker", 0),
        ("PyTorchJob", "perceptron", "worker", 1),
        ("Job", "asynchronous", "worker", 1),
    ]


@pytest.mark.parametrize("file", FILES)
def test_everything_is_written_to_a_claim_that_several_nodes_may_mount(file):
    """All pods of a job have the same checkpoints."""
    objects = objects_of(file)
    (claim,) = [one for one in objects if one["kind"] == "PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for template in templates_of(objects[-1]).values():
        (volume,) = template["spec"]["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_the_workers_find_their_server():
    """PS_ADDRESS names Service and port of the server, which shares checkpoints with the workers."""
    _, service, server, job = objects_of("elastic-job.yaml")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    (trainer,) = job["spec"]["template"]["spec"]["containers"]
    (port,) = [one["port"] for one in service["spec"]["ports"]]
    known = {one["name"]: one.get("value") for one in trainer["env"]}
    assert known["PS_ADDRESS"] == f"{service['metadata']['name']}:{port}"
    assert f"--port={port}" in container["args"]
    assert service["spec"]["selector"] == server["spec"]["template"]["metadata"]["labels"]
    shared = {"name": "data", "mountPath": "/checkpoints", "subPath": "checkpoints"}
    assert shared in container["volumeMounts"]
    assert shared in trainer["volumeMounts"]
    assert "specon.io/inject" not in server["spec"]["template"]["metadata"].get("annotations", {})
