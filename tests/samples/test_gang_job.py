"""The manifest of a gang: its pods find each other, and its trainer is asked where it looks."""

from pathlib import Path

import pytest
import yaml

from specon_sidecar.parse import checkpoint_mode

JOBS = Path(__file__).parents[2] / "samples" / "jobs"
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
