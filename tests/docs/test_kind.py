"""docs/how-to/kind.md can be followed as it stands: its files, images, volume and move fit each other."""

import base64
import json
import re
import shlex

import kubernetes_validate
import pytest
import yaml

from fakekube import schemas
from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import review
from specon_manager.backends.kube.objects.annotation_keys import INJECTED, SIDECAR_LABEL
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.objects.volumes import judge_volumes, slim_claim, slim_volume
from support.packaging.documents import ROOT, commands
from support.packaging.helm import CHART, render, the

PAGE = ROOT / "docs" / "how-to" / "kind.md"
COMMANDS = [shlex.split(command.text) for command in commands(PAGE)]


def load(path):
    return list(yaml.safe_load_all((ROOT / path).read_text()))


def loaded(program):
    """Return the images that the page has a program load into the nodes."""
    (words,) = (words for words in COMMANDS if words[0] == program and "load" in words)
    return {word for word in words if "/" in word}


@pytest.fixture
def installed():
    """Return what the page's command installs."""
    (words,) = (words for words in COMMANDS if words[:2] == ["helm", "install"])
    assert words[2:] == ["specon", "charts/specon", "--namespace", "specon", "--create-namespace"]
    return render()


@pytest.fixture
def sidecar_image(installed):
    return yaml.safe_load(the(installed, "ConfigMap")["data"]["config.yaml"])["sidecar"]["image"]


@pytest.fixture
def job():
    return load("samples/jobs/job.yaml")[-1]


@pytest.fixture
def pod(job):
    """Return the pod of the job as its controller creates it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "gru", "uid": "u", "controller": True}
    template = job["spec"]["template"]
    metadata = {**template["metadata"], "generateName": "gru-", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("program", ["kind", "minikube"])
def test_the_images_that_run_are_loaded(program, installed, sidecar_image, job):
    """Those of the manager, of the sidecar and of the job, by the names that the cluster is told."""
    (manager,) = the(installed, "Deployment")["spec"]["template"]["spec"]["containers"]
    (trainer,) = job["spec"]["template"]["spec"]["containers"]
    assert loaded(program) == {manager["image"], sidecar_image, trainer["image"]}


def test_the_cluster_has_two_workers_that_share_the_folder():
    """In fields that kind knows, with the folder that the page makes, and the name that images go to."""
    (cluster,) = load("samples/kind/cluster.yaml")
    assert (cluster["kind"], cluster["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert cluster.keys() == {"kind", "apiVersion", "name", "nodes"}
    workers = [node for node in cluster["nodes"] if node["role"] == "worker"]
    assert len(workers) == 2
    (volume,) = load("samples/kind/volume.yaml")
    mount = {"hostPath": "build/kind", "containerPath": volume["spec"]["hostPath"]["path"]}
    assert all(worker == {"role": "worker", "extraMounts": [mount]} for worker in workers)
    assert [words for words in COMMANDS if words[0] == "mkdir"] == [
        ["mkdir", "-m", "0777", "-p", "build/kind"]
    ] * 2
    (start,) = (words for words in COMMANDS if words[:2] == ["minikube", "start"])
    assert start[-1] == f"$PWD/build/kind:{mount['containerPath']}"
    for words in COMMANDS:
        if words[0] == "kind" and "--name" in words:
            assert words[words.index("--name") + 1] == cluster["name"]


def test_the_volume_is_the_claims():
    """What the server takes; for the claim of the job, of its size and mode, in the default class of both."""
    (volume,) = load("samples/kind/volume.yaml")
    kubernetes_validate.validate(volume, "1.30", strict=True)
    claim = load("samples/jobs/job.yaml")[0]
    assert volume["spec"]["claimRef"] == {"namespace": "default", "name": claim["metadata"]["name"]}
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"]
    assert set(claim["spec"]["accessModes"]) <= set(volume["spec"]["accessModes"])
    assert "storageClassName" not in claim["spec"]
    assert volume["spec"]["storageClassName"] == "standard"


def test_the_volume_lets_the_job_move_anywhere(pod):
    """Not so with a volume that the cluster would have made itself."""
    named = {"name": "gru-x", "namespace": "default", "labels": {SIDECAR_LABEL: INJECTED}}
    detail = slim_pod({**pod, "metadata": {**pod["metadata"], **named}}).detail
    assert detail is not None
    claim = {"metadata": {"name": "gru"}, "spec": {"volumeName": "gru"}, "status": {"phase": "Bound"}}
    (volume,) = load("samples/kind/volume.yaml")
    options = read_options(pod["metadata"]["annotations"])
    verdict = judge_volumes(detail, options, {"gru": slim_claim(claim)}, {"gru": slim_volume(volume)})
    assert (verdict.immovable, verdict.terms) == ("", ())
    volume["spec"]["accessModes"] = ["ReadWriteOnce"]
    verdict = judge_volumes(detail, options, {"gru": slim_claim(claim)}, {"gru": slim_volume(volume)})
    assert "a directory of one node" in verdict.immovable


def test_the_move_is_of_the_job(pod):
    """What the definition takes, with the replica as the manager calls it."""
    (move,) = load("samples/kind/move.yaml")
    known = schemas.read(CHART / "crds")["migrations"]
    named = {**move, "metadata": {**move["metadata"], "name": "gru-1"}}
    kept, causes = known(None, named)
    assert not causes
    assert kept["spec"] == move["spec"]
    who = identity_of({**pod, "metadata": {**pod["metadata"], "name": "gru-x", "namespace": "default"}})
    assert move["spec"]["replica"] == f"default/{who.job}/worker/{who.index}"


def test_the_job_is_admitted_with_the_image_that_is_loaded(pod, sidecar_image):
    """Without a warning; the sidecar's image needs no registry."""
    settings = InjectionSettings(image=sidecar_image, manager="https://m.specon.svc", ca_bundle="PEM")
    request = {"uid": "1", "operation": "CREATE", "namespace": "default", "object": pod}
    request["resource"] = {"group": "", "version": "v1", "resource": "pods"}
    asked = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = review(asked, settings, {})["response"]
    assert response["allowed"]
    assert "warnings" not in response
    patch = json.loads(base64.b64decode(response["patch"]))
    assert sidecar_image in json.dumps(patch)


def test_the_states_of_the_move_are_those_of_the_definition():
    """As a watch shows them, in this order."""
    (text,) = re.findall(r"The move goes through (.*?)\. It ends as\n\*(\w+)\*", PAGE.read_text(), re.DOTALL)
    states = [*re.findall(r"\*(\w+)\*", text[0]), text[1]]
    definition = yaml.safe_load((CHART / "crds" / "migrations.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert states == schema["properties"]["status"]["properties"]["state"]["enum"][: len(states)]
