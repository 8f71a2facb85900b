"""The manifest of a gang: its pods find each other, and its trainer is asked where it looks."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import review
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_sidecar.checkpoints.pause_lease import lease_file
from specon_sidecar.parse import checkpoint_mode
from specon_sidecar.settings import read_settings

JOBS = Path(__file__).parents[2] / "samples" / "jobs"
SETTINGS = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://m.specon.svc", ca_bundle="PEM")
SCRIPTS = JOBS.parent / "training"


@pytest.fixture(scope="module")
def objects():
    return {each["kind"]: each for each in yaml.safe_load_all((JOBS / "gang-job.yaml").read_text())}


@pytest.fixture
def trainer(objects):
    (container,) = objects["Job"]["spec"]["template"]["spec"]["containers"]
    return container


def test_its_pods_meet_at_the_first_one(objects, trainer):
    """A headless Service gives it a name before it is ready; it knows the pods by a label."""
    job, service = objects["Job"], objects["Service"]
    name = job["metadata"]["name"]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    known = {each["name"]: each.get("value") for each in trainer["env"]}
    assert known["MASTER_ADDR"] == f"{name}-0.{service['metadata']['name']}"
    assert int(known["WORLD_SIZE"]) == job["spec"]["completions"] == job["spec"]["parallelism"] == 4


def test_it_is_asked_by_a_file_in_a_folder_of_its_own(objects, trainer):
    """Else one pod would take away what another is asked; the checkpoints are for all of them."""
    said = objects["Job"]["spec"]["template"]["metadata"]["annotations"]
    mode = checkpoint_mode(said["specon.io/checkpoint"])
    assert f"--request-file={mode.target}" in trainer["args"]
    assert f"--checkpoint-dir={said['specon.io/checkpoint-path']}" in trainer["args"]
    mounts = {each["mountPath"]: each for each in trainer["volumeMounts"]}
    assert "$(RANK)" in mounts[str(Path(mode.target).parent)]["subPathExpr"]
    assert mounts[said["specon.io/checkpoint-path"]]["subPath"] == "checkpoints"
    assert (SCRIPTS / trainer["args"][0]).exists()


def test_its_sidecar_may_write_request_and_pause(objects):
    """Admission takes the pod without a word; the folder of its log is not read-only, the checkpoints are."""
    job = objects["Job"]
    template = job["spec"]["template"]
    assert read_options(template["metadata"]["annotations"]).replicas == "coupled"
    index = {"batch.kubernetes.io/job-completion-index": "1"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "gang", "uid": "u", "controller": True}
    said = {**template["metadata"]["annotations"], **index}
    metadata = {"name": "gang-1-x", "annotations": said, "labels": index, "ownerReferences": [owner]}
    request = {
        "uid": "1",
        "operation": "CREATE",
        "namespace": "samples",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]},
    }
    asked = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = review(asked, SETTINGS, {})["response"]
    assert response["allowed"]
    assert "warnings" not in response
    steps = json.loads(base64.b64decode(response["patch"]))
    (added,) = [each["value"] for each in steps if each["path"].startswith("/spec/initContainers")]
    sidecar = added[0] if isinstance(added, list) else added
    settings = read_settings([each.replace("$(SPECON_POD_UID)", "x") for each in sidecar["args"]], {})
    written = {each["mountPath"] for each in sidecar["volumeMounts"] if not each.get("readOnly")}
    lease = lease_file(settings.checkpoint, Path(settings.checkpoint_path))
    assert {str(lease.parent), str(Path(settings.checkpoint.target).parent)} <= written
    assert settings.checkpoint_path not in written
