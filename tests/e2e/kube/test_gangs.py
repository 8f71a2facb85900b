"""A gang of several pods, from the manifest in samples/, moves as a whole on real kubelets."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from specon_manager.backends.kube.transport.resources import JOBS, MIGRATIONS, Object, Resource
from specon_manager.cli.run.gang_proofs import chain_of
from support.live.jobs import CLAIM
from support.live.stage import MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SAMPLE = Path(__file__).parents[3] / "samples" / "jobs" / "gang-job.yaml"
IMAGE = "SPECON_E2E_SAMPLES_IMAGE"
SERVICES = Resource("", "v1", "services", "Service")
WORKERS = 4
SHORT = {"specon.io/interval": "1s", "specon.io/heartbeat": "1s"}


def manifests(image: str) -> tuple[Object, Object]:
    """Return the sample's Service and Job, with this image and small requests, on the volume of the test."""
    _, service, job = yaml.safe_load_all(SAMPLE.read_text("utf-8"))
    template = job["spec"]["template"]
    template["metadata"]["annotations"] |= SHORT
    (container,) = template["spec"]["containers"]
    container["image"] = image
    container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    template["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = CLAIM
    return service, job


async def chain(live: LiveStage) -> Any:
    """Return what the log of the first rank says of the chain of parameters."""
    lines = await live.in_volume(
        "import json, pathlib\n"
        "log = pathlib.Path('/volume/logs/0/train.log').read_text().splitlines()\n"
        "print(json.dumps({'lines': [line for line in log if 'chain=' in line]}))"
    )
    return chain_of(line.encode() for line in lines["lines"])


async def members(live: LiveStage, former: dict[int, str]) -> dict[int, Object]:
    """Wait until each rank runs in another pod than the former one (by UID), and return the pods."""
    return {rank: await live.training("gang", rank, former=former.get(rank, "")) for rank in range(WORKERS)}


async def test_a_gang_over_two_nodes_moves_as_a_whole(live: LiveStage):
    """All ranks save at one agreed step, come back together on one node, and go on from that very link."""
    image = os.environ.get(IMAGE)
    if image is None or os.environ.get("SPECON_E2E_NO_SERVICES"):
        pytest.skip(f"the ranks need {IMAGE} (of samples/Dockerfile), and to find each other by name")
    await live.manage(decisions=MOVES_NOTHING)
    service, job = manifests(image)
    await live.api.create(SERVICES, service, live.namespace)
    await live.api.create(JOBS, job, live.namespace)
    before = await members(live, {})
    await live.reported("gang", step=20)
    nodes = {pod["spec"]["nodeName"] for pod in before.values()}
    target = next(node for node in await live.nodes() if nodes != {node})
    spec = {"job": f"{live.namespace}/gang", "targets": [target], "reason": "an end-to-end test asks for it"}
    kind = {"apiVersion": MIGRATIONS.api_version, "kind": MIGRATIONS.kind}
    together = {**kind, "metadata": {"name": "together"}, "spec": spec}
    await live.api.create(MIGRATIONS, together, live.namespace)
    migration = await live.ended("together", seconds=240)
    assert migration["state"] == "Succeeded", await live.account()
    assert migration["stepsLost"] == 0
    after = await members(live, {rank: pod["metadata"]["uid"] for rank, pod in before.items()})
    assert {pod["spec"]["nodeName"] for pod in after.values()} == {target}
    found = await chain(live)
    assert (found.resumes, found.broken) == (1, 0)
    status = (await live.api.get(JOBS, "gang", live.namespace))["status"]
    assert not status.get("failed")
