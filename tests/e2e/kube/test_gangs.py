"""A gang of several pods, from the manifest in samples/, moves as a whole on real kubelets.

That of a JobSet needs the real controller of JobSets in the cluster, and is left out without it.
"""

import os
from typing import Any

import pytest

from specon_manager.backends.kube.objects.identity import JOB_SET_INDEX
from specon_manager.backends.kube.objects.job_set import index_in_set
from specon_manager.backends.kube.transport.resources import JOB_SETS, JOBS, MIGRATIONS, Object
from specon_manager.cli.run.gang_proofs import chain_of
from support.live.gangs import IMAGE, SERVICES, manifests
from support.live.stage import MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

RANKS = 4
OWNERS = {"Job": 1, "JobSet of one Job": 1, "JobSet of several Jobs": RANKS}
"""How many batch Jobs there are."""


def job_set(job: Object, jobs: int) -> Object:
    """Return a JobSet of so many alike Jobs; it has what its controller's own webhook would fill in."""
    job["spec"] |= {"completions": RANKS // jobs, "parallelism": RANKS // jobs}
    template = job["spec"]["template"]["spec"]
    del template["subdomain"]  # its controller sets it, and makes the Service
    for each in template["containers"][0]["env"]:
        if each["name"] == "MASTER_ADDR":
            each["value"] = "gang-ranks-0-0.gang"
        if each["name"] == "RANK" and jobs == RANKS:
            each["valueFrom"]["fieldRef"]["fieldPath"] = f"metadata.labels['{JOB_SET_INDEX}']"
    ranks = {"name": "ranks", "replicas": jobs, "template": {"spec": job["spec"]}}
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": {"name": "gang"},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "replicatedJobs": [ranks],
        },
    }


async def chain(live: LiveStage) -> Any:
    """Return what the log of the first rank says of the chain of parameters."""
    lines = await live.in_volume(
        "import json, pathlib\n"
        "log = pathlib.Path('/volume/logs/0/train.log').read_text().splitlines()\n"
        "print(json.dumps({'lines': [line for line in log if 'chain=' in line]}))"
    )
    return chain_of(line.encode() for line in lines["lines"])


async def members(live: LiveStage, job: str, jobs: int, former: dict[int, str]) -> dict[int, Object]:
    """Wait until each rank runs in another pod than the former one (by UID); return the pods by index."""
    indices = [index_in_set(rank, 0) or 0 for rank in range(RANKS)] if jobs == RANKS else range(RANKS)
    return {index: await live.training(job, index, former=former.get(index, "")) for index in indices}


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_gang_over_two_nodes_moves_as_a_whole(live: LiveStage, owner: str):
    """All ranks save at one agreed step, come back together on one node, and go on from that very link."""
    image = os.environ.get(IMAGE)
    if image is None or os.environ.get("SPECON_E2E_NO_SERVICES"):
        pytest.skip(f"the ranks need {IMAGE} (of samples/Dockerfile), and to find each other by name")
    if owner != "Job" and not await live.api.serves(JOB_SETS):
        pytest.skip("the cluster knows no JobSets")
    await live.manage(decisions=MOVES_NOTHING)
    service, job = manifests(image)
    jobs = OWNERS[owner]
    if owner == "Job":
        await live.api.create(SERVICES, service, live.namespace)
        await live.api.create(JOBS, job, live.namespace)
    else:
        await live.api.create(JOB_SETS, job_set(job, jobs), live.namespace)
    name = "gang-ranks-0" if owner == "JobSet of one Job" else "gang"
    before = await members(live, name, jobs, {})
    await live.reported(name, step=20)
    nodes = {pod["spec"]["nodeName"] for pod in before.values()}
    target = next(node for node in await live.nodes() if nodes != {node})
    spec = {
        "job": f"{live.namespace}/{name}",
        "targets": [target],
        "reason": "an end-to-end test asks for it",
    }
    kind = {"apiVersion": MIGRATIONS.api_version, "kind": MIGRATIONS.kind}
    together = {**kind, "metadata": {"name": "together"}, "spec": spec}
    await live.api.create(MIGRATIONS, together, live.namespace)
    migration = await live.ended("together", seconds=240)
    assert migration["state"] == "Succeeded", await live.account()
    assert migration["stepsLost"] == 0
    after = await members(live, name, jobs, {index: pod["metadata"]["uid"] for index, pod in before.items()})
    assert {pod["spec"]["nodeName"] for pod in after.values()} == {target}
    found = await chain(live)
    assert (found.resumes, found.broken) == (1, 0)
    owned, _ = await live.api.list(JOBS, live.namespace)
    assert len(owned) == jobs
    assert not any(one["status"].get("failed") for one in owned)
