"""The gang of samples/jobs/gang-job.yaml, for a test."""

from pathlib import Path
from typing import Any, Final

import yaml

from specon_manager.backends.kube.objects.job_set import index_in_set
from specon_manager.backends.kube.transport.resources import JOBS, MIGRATIONS, Object, Resource
from specon_manager.cli.run.gang_proofs import chain_of
from support.live.jobs import CLAIM
from support.live.stage import LiveStage

IMAGE: Final = "SPECON_E2E_SAMPLES_IMAGE"
SERVICES: Final = Resource("", "v1", "services", "Service")
_SAMPLE: Final = Path(__file__).parents[3] / "samples" / "jobs" / "gang-job.yaml"
RANKS: Final = 4
_SHORT: Final = {"specon.io/interval": "1s", "specon.io/heartbeat": "1s"}


def manifests(image: str) -> tuple[Object, Object]:
    """Return the sample's Service and Job, with this image and small requests, on the volume of the test."""
    _, service, job = yaml.safe_load_all(_SAMPLE.read_text("utf-8"))
    template = job["spec"]["template"]
    template["metadata"]["annotations"] |= _SHORT
    (container,) = template["spec"]["containers"]
    container["image"] = image
    container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    template["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = CLAIM
    return service, job


async def members(live: LiveStage, job: str, jobs: int, former: dict[int, str]) -> dict[int, Object]:
    """Wait until each rank runs in another pod than the former one (by UID); return the pods by index."""
    indices = [index_in_set(rank, 0) or 0 for rank in range(RANKS)] if jobs == RANKS else range(RANKS)
    return {index: await live.training(job, index, former=former.get(index, "")) for index in indices}


async def chain(live: LiveStage) -> Any:
    """Return what the log of the first rank says of the chain of parameters."""
    lines = await live.in_volume(
        "import json, pathlib\n"
        "log = pathlib.Path('/volume/logs/0/train.log').read_text().splitlines()\n"
        "print(json.dumps({'lines': [line for line in log if 'chain=' in line]}))"
    )
    return chain_of(line.encode() for line in lines["lines"])


async def ask_for_move(live: LiveStage, job: str, pods: dict[int, Object]) -> str:
    """Ask that all ranks go to one node, by the Migration `together`; return the node."""
    nodes = {pod["spec"]["nodeName"] for pod in pods.values()}
    target = next(node for node in await live.nodes() if nodes != {node})
    spec = {
        "job": f"{live.namespace}/{job}",
        "targets": [target],
        "reason": "an end-to-end test asks for it",
    }
    kind = {"apiVersion": MIGRATIONS.api_version, "kind": MIGRATIONS.kind}
    together = {**kind, "metadata": {"name": "together"}, "spec": spec}
    await live.api.create(MIGRATIONS, together, live.namespace)
    return target


async def check_unharmed(live: LiveStage, jobs: int) -> int:
    """Check that the chain is whole and that no Job counts a failure; return how often it was resumed."""
    found = await chain(live)
    assert found.broken == 0
    owned, _ = await live.api.list(JOBS, live.namespace)
    assert len(owned) == jobs
    assert not any(one["status"].get("failed") for one in owned)
    return int(found.resumes)
