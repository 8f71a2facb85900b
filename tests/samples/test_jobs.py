"""The sample manifests for Kubernetes: whole, consistent, and given their sidecar by admission."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import review
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.objects.identity import identity_of
from specon_sidecar.settings import read_settings

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = ("pod.yaml", "job.yaml", "indexed-job.yaml", "statefulset.yaml")
SETTINGS = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://m.specon.svc", ca_bundle="PEM")
VERSION = yaml.safe_load((SAMPLES.parent / "charts/specon/Chart.yaml").read_text())["appVersion"]


def objects_of(file):
    return list(yaml.safe_load_all((SAMPLES / "jobs" / file).read_text()))


def pod_of(workload):
    """Return a pod as its owner's controller creates it, before anything has given it a name."""
    name, kind = workload["metadata"]["name"], workload["kind"]
    if kind == "Pod":
        return workload
    template = workload["spec"]["template"]
    metadata = {**template["metadata"], "generateName": f"{name}-"}
    metadata["ownerReferences"] = [
        {"apiVersion": workload["apiVersion"], "kind": kind, "name": name, "uid": "u", "controller": True}
    ]
    spec = dict(template["spec"])
    if kind == "StatefulSet":
        metadata |= {
            "name": f"{name}-1",
            "labels": {**metadata["labels"], "apps.kubernetes.io/pod-index": "1"},
        }
        claims = [one["metadata"]["name"] for one in workload["spec"]["volumeClaimTemplates"]]
        spec["volumes"] = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}-1"}} for claim in claims
        ]
    elif workload["spec"].get("completionMode") == "Indexed":
        index = {"batch.kubernetes.io/job-completion-index": "1"}
        metadata["annotations"] = {**metadata["annotations"], **index}
        metadata["labels"] = index
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(params=FILES)
def objects(request):
    return objects_of(request.param)


@pytest.fixture
def pod(objects):
    return pod_of(objects[-1])


def apply(document, patch):
    """Carry out a JSON patch (RFC 6902) of additions and replacements."""
    document = json.loads(json.dumps(document))
    for step in patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = document
        for part in way:
            place = place[int(part) if isinstance(place, list) else part]
        assert step["op"] in {"add", "replace"}
        if isinstance(place, dict):
            place[last] = step["value"]
        elif last == "-" or step["op"] == "add":
            place.insert(len(place) if last == "-" else int(last), step["value"])
        else:
            place[int(last)] = step["value"]
    return document


def admitted(pod):
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
    return apply(pod, json.loads(base64.b64decode(response["patch"])))


def test_each_sample_gets_its_sidecar(objects, pod):
    """Admission takes it without a word, and adds one native sidecar that reads the trainer's volume."""
    after = admitted(pod)
    (sidecar,) = after["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("specon-sidecar", "Always")
    (trainer,) = after["spec"]["containers"]
    own = {(one["name"], one["mountPath"], one.get("subPathExpr")) for one in trainer["volumeMounts"]}
    assert own <= {(one["name"], one["mountPath"], one.get("subPathExpr")) for one in sidecar["volumeMounts"]}
    assert sidecar["securityContext"]["runAsUser"] == pod["spec"]["securityContext"]["runAsUser"]


def test_each_sidecar_understands_what_it_is_told(pod):
    """The flags that admission writes are the sidecar's; log and checkpoints are where the trainer writes."""
    after = admitted(pod)
    (sidecar,) = after["spec"]["initContainers"]
    (trainer,) = after["spec"]["containers"]
    values = {"SPECON_POD_UID": "uid", "SPECON_POD_NAME": "vae", "SPECON_POD_NAMESPACE": "samples"}
    arguments = sidecar["args"]
    for name, value in values.items():
        arguments = [argument.replace(f"$({name})", value) for argument in arguments]
    settings = read_settings(arguments, {})
    assert f"--log={settings.log}" in trainer["args"]
    assert f"--checkpoint-dir={settings.checkpoint_path}" in trainer["args"]
    asks = settings.checkpoint.kind == "signal"
    assert settings.trainer_pid == ("auto" if asks else None)
    marks = [one for one in trainer["env"] if one["name"] == "SPECON_TRAINER"]
    assert marks == [{"name": "SPECON_TRAINER", "value": "1"}]
    assert bool(after["spec"].get("shareProcessNamespace")) == asks


def test_the_samples_show_one_replica_each():
    """Of each kind of owner there is one, and pods of it are told apart."""
    found = []
    for file in FILES:
        pod = pod_of(objects_of(file)[-1])
        identity = identity_of({**pod, "metadata": {"name": "x", **pod["metadata"], "namespace": "samples"}})
        found.append((identity.owner_kind, identity.job, identity.index))
    assert found == [
        ("Pod", "vae", 0),
        ("Job", "gru", 0),
        ("Job", "rnn-seeds", 1),
        ("StatefulSet", "dynamic-rnn", 1),
    ]


def test_claims_are_there_and_outlive_a_pod(objects, pod):
    """Everything is written to a claim of the same file, nothing to a volume that is lost with the pod."""
    claims = {one["metadata"]["name"] for one in objects if one["kind"] == "PersistentVolumeClaim"}
    workload = objects[-1]
    for one in workload["spec"].get("volumeClaimTemplates", ()):
        claims.add(f"{one['metadata']['name']}-{workload['metadata']['name']}-1")
    (volume,) = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] in claims


def test_what_runs_is_the_sample_image_without_root(pod):
    """With the version of the chart, unprivileged, and within limits."""
    (trainer,) = pod["spec"]["containers"]
    assert trainer["image"] == f"docker.io/specon/samples:{VERSION}"
    assert pod["spec"]["securityContext"]["runAsUser"] == 65532
    assert trainer["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {*trainer["resources"]} == {"requests", "limits"}
    assert (SAMPLES / "training" / trainer["args"][0]).exists()


@pytest.mark.processes
def test_the_samples_arguments_are_taken():
    """By the scripts themselves, all but the number of steps."""
    for file in FILES:
        (trainer,) = pod_of(objects_of(file)[-1])["spec"]["containers"]
        script, *arguments = [one.replace("$(JOB_COMPLETION_INDEX)", "1") for one in trainer["args"]]
        command = [sys.executable, SAMPLES / "training" / script, *arguments, "--no-such-argument"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 2
        assert answer.stderr.splitlines()[-1].endswith("unrecognized arguments: --no-such-argument")


def test_a_move_of_one_pod_costs_the_indexed_job_nothing():
    """Its failure policy ignores disruptions, and no pod of it retries by itself."""
    job = objects_of("indexed-job.yaml")[-1]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_options_are_read_without_a_mistake(pod):
    """As `kubectl` users write them."""
    options = read_options(pod["metadata"]["annotations"])
    assert options.inject
