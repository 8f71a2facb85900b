"""The loop for a gang in docs/how-to/frameworks.md, run by two processes: a move loses no step."""

import subprocess
import sys
import time

import pytest
import yaml

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.objects.annotation_keys import SIDECAR_NAME
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.objects.owner import slim_job
from specon_manager.backends.kube.objects.ways import owner_immovable_because, suspends

SETTINGS = InjectionSettings(image="specon/sidecar:0", manager="https://m.specon.svc", ca_bundle="PEM")
STEPS_SECONDS = 60.0
BEFORE = """
import contextlib, os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist

rank, folder, steps, step, device = int(sys.argv[1]), Path(sys.argv[2]), 1_000_000, 0, "cpu"
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)

def train(number):
    time.sleep(0.01)
    (folder / f"trained-{rank}").write_text(str(number + 1))

def save(number):
    if rank == 0:
        (folder / "saved").write_text(str(number))
"""


def page(root):
    """Return what the page says of several pods that train as one."""
    return (root / "docs/how-to/gang.md").read_text()


@pytest.fixture
def loop(root):
    """Return the first block of Python of the page."""
    return page(root).partition("```python\n")[2].partition("```")[0]


class Gang:
    """Two processes that run the loop, each with a folder of its own in which it is asked."""

    def __init__(self, loop, folder):
        self.folder = folder
        self.ask = [folder / f"ask-{rank}" / "save" for rank in (0, 1)]
        self.processes = []
        for rank, ask in enumerate(self.ask):
            ask.parent.mkdir()
            script = folder / f"train-{rank}.py"
            script.write_text(BEFORE + loop.replace("/ask/", f"{ask.parent}/"))
            self.processes.append(subprocess.Popen([sys.executable, str(script), str(rank), str(folder)]))

    def read(self, name):
        path = self.folder / name
        return int(path.read_text() or 0) if path.exists() else 0

    def trained(self):
        return [self.read(f"trained-{rank}") for rank in (0, 1)]

    def until(self, holds):
        end = time.monotonic() + STEPS_SECONDS
        while not holds():
            assert time.monotonic() < end, self.trained()
            assert all(process.poll() is None for process in self.processes)
            time.sleep(0.05)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def gang(loop, tmp_path):
    gang = Gang(loop, tmp_path)
    yield gang
    gang.end()


def test_a_gang_that_is_asked_saves_pauses_together_and_trains_on(gang):
    """All ranks stop at the saved step, no matter which rank was asked; a second request is answered, too."""
    gang.until(lambda: min(gang.trained()) > 3)
    pause = gang.ask[0].with_name("save.pause")
    pause.touch()
    gang.ask[0].touch()
    gang.until(lambda: gang.read("saved") > 0 and not gang.ask[0].exists())
    saved = gang.read("saved")
    pause.touch()
    time.sleep(0.5)
    assert gang.trained() == [saved, saved]
    (gang.folder / "saved").unlink()
    gang.ask[1].touch()
    gang.until(lambda: gang.read("saved") > 0)
    assert gang.read("saved") == saved
    assert gang.trained() == [saved, saved]
    pause.unlink()
    gang.until(lambda: min(gang.trained()) > saved)


def test_the_job_is_a_gang_whose_trainer_can_be_asked_to_pause(root):
    """Its sidecar may write beside the request file, nowhere else; its pods are moved as one."""
    text = page(root).partition("```yaml\n")[2].partition("```")[0]
    job = yaml.safe_load(text)
    template = job["spec"]["template"]
    pod = {
        "metadata": {
            "generateName": "bert-",
            "labels": {"batch.kubernetes.io/job-completion-index": "2"},
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "bert", "uid": "u", "controller": True}
            ],
        },
        "spec": template["spec"],
    }
    options = read_options(pod["metadata"]["annotations"])
    injected = inject(pod, "default", options, SETTINGS, {})
    assert injected.warnings == ()
    containers = [*injected.pod["spec"].get("initContainers", ()), *injected.pod["spec"]["containers"]]
    (sidecar,) = (each for each in containers if each["name"] == SIDECAR_NAME)
    writable = {each["mountPath"] for each in sidecar["volumeMounts"] if not each.get("readOnly")}
    assert "/ask" in writable
    assert not writable & {"/data/checkpoints", "/data/logs"}
    owner = slim_job({**job, "metadata": {**job["metadata"], "namespace": "default", "uid": "u"}})
    assert owner_immovable_because(owner) == ""
    assert owner.coupling().coupled
    assert suspends(owner)
