"""A gang of several pods, from the manifest in samples/, moves as a whole on real kubelets.

Those of a JobSet and a LeaderWorkerSet need their real controllers in the cluster, and are left out without.
"""

import os

import pytest

from specon_manager.backends.kube.objects.annotation_keys import SUSPENDED_FOR
from specon_manager.backends.kube.objects.identity import JOB_SET_INDEX
from specon_manager.backends.kube.objects.leader_worker_set import WORKER_INDEX
from specon_manager.backends.kube.transport.resources import JOB_SETS, JOBS, LEADER_WORKER_SETS, Object
from support.live.gangs import IMAGE, RANKS, SERVICES, ask_for_move, check_unharmed, manifests, members
from support.live.stage import MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

OWNERS = {"Job": 1, "JobSet of one Job": 1, "JobSet of several Jobs": RANKS, "LeaderWorkerSet": 0}
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


def leader_worker_set(job: Object) -> Object:
    """Return a LeaderWorkerSet of one group of such pods; its controller makes the Service."""
    template = job["spec"]["template"]
    del template["spec"]["subdomain"]
    template["spec"]["restartPolicy"] = "Always"
    for each in template["spec"]["containers"][0]["env"]:
        if each["name"] == "RANK":
            each["valueFrom"]["fieldRef"]["fieldPath"] = f"metadata.labels['{WORKER_INDEX}']"
    return {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": {"name": "gang"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": RANKS, "workerTemplate": template}},
    }


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_gang_over_two_nodes_moves_as_a_whole(live: LiveStage, owner: str):
    """All ranks save at one agreed step, come back together on one node, and go on from that very link."""
    image = os.environ.get(IMAGE)
    if image is None or os.environ.get("SPECON_E2E_NO_SERVICES"):
        pytest.skip(f"the ranks need {IMAGE} (of samples/Dockerfile), and to find each other by name")
    above = LEADER_WORKER_SETS if owner == "LeaderWorkerSet" else JOB_SETS
    if owner != "Job" and not await live.api.serves(above):
        pytest.skip(f"the cluster knows no {above.kind}s")
    await live.manage(decisions=MOVES_NOTHING)
    service, job = manifests(image)
    jobs = OWNERS[owner]
    if owner == "Job":
        await live.api.create(SERVICES, service, live.namespace)
        await live.api.create(JOBS, job, live.namespace)
    elif above is LEADER_WORKER_SETS:
        await live.api.create(above, leader_worker_set(job), live.namespace)
    else:
        await live.api.create(JOB_SETS, job_set(job, jobs), live.namespace)
    name = "gang-ranks-0" if owner == "JobSet of one Job" else "gang"
    before = await members(live, name, jobs, {})
    await live.reported(name, step=20)
    target = await ask_for_move(live, name, before)
    migration = await live.ended("together", seconds=240)
    assert migration["state"] == "Succeeded", await live.account()
    assert migration["stepsLost"] == 0
    after = await members(live, name, jobs, {index: pod["metadata"]["uid"] for index, pod in before.items()})
    assert {pod["spec"]["nodeName"] for pod in after.values()} == {target}
    assert await check_unharmed(live, jobs) == 1
    if owner == "LeaderWorkerSet":
        found = await live.api.get(above, "gang", live.namespace)
        marks = found["metadata"].get("annotations") or {}
        assert (found["spec"]["replicas"], marks.get(SUSPENDED_FOR)) == (1, None)
