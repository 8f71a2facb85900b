"""A gang on a real API server, with the real Job controller: suspended, gone, resumed on other nodes.

Nodes and their kubelet are played here; no webhook takes part: the template of the Job has the gate that it
would add to pods of a held job.
"""

import asyncio
import os

import pytest

from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import JOBS, PODS
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from specon_manager.model.actions import PlaceJob
from specon_manager.model.events import JobObserved, JobRefused, ReplicaGone, ReplicaStarted
from support.kube import server as kube_server
from support.kube.client import MERGE, KubeClient
from support.kube.placing_stage import QUEUED, described
from support.kube.stage import Stage, template

_CAPACITY = {"cpu": "64", "memory": "64Gi", "pods": "100"}
_HOSTNAME = "kubernetes.io/hostname"
_INDEX = "batch.kubernetes.io/job-completion-index"
RANKS = 4


class _Kubelet:
    """Binds pods that nothing gates to the node of their selector, runs them, and ends those that must go."""

    def __init__(self, kube: KubeClient, usual: str) -> None:
        self._kube, self._usual = kube, usual

    async def run(self) -> None:
        while True:
            for pod in (await self._kube.get("pods")).body["items"]:
                await self._look(pod)
            await asyncio.sleep(0.05)

    async def _look(self, pod: dict) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        name, phase = metadata["name"], pod["status"].get("phase")
        if metadata.get("deletionTimestamp"):
            if phase == "Running":
                ended = {"exitCode": 143, "finishedAt": metadata["deletionTimestamp"]}
                await self._tell(name, "Failed", {"terminated": ended})
            await self._kube.delete("pods", name, gracePeriodSeconds=0)
        elif not spec.get("nodeName") and not spec.get("schedulingGates"):
            node = (spec.get("nodeSelector") or {}).get(_HOSTNAME, self._usual)
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            await self._kube.create("pods", binding, name, "binding")
        elif spec.get("nodeName") and phase == "Pending":
            await self._tell(name, "Running", {"running": {"startedAt": metadata["creationTimestamp"]}})

    async def _tell(self, name: str, phase: str, state: dict) -> None:
        container = {"name": "trainer", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        body = {"status": {"phase": phase, "containerStatuses": [{**container, "state": state}]}}
        await self._kube.patch("pods", name, body, "status", form=MERGE)


@pytest.fixture
async def api(kube, tmp_path):
    programs = kube_server.assets()
    if programs is None or not os.access(programs / "kube-controller-manager", os.X_OK):
        pytest.skip("no kube-controller-manager in the folder that KUBEBUILDER_ASSETS names")
    config = kube_server.kubeconfig(tmp_path, kube.endpoint)
    with kube_server.controlling(tmp_path, programs, config, "job-controller"):
        made = await Api.connect(kubeconfig=config)
        yield made
        await made.close()


@pytest.mark.parametrize("kube", ["server"], indirect=True)
async def test_a_gang_of_four_ranks_moves_as_a_whole(kube, api):
    """No pod of the new while one of the old is there; the Job counts no failure, and is as it was."""
    for name in ("gang-0", "gang-1"):
        made = await kube.ask(
            "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {_HOSTNAME: name}}}
        )
        assert made.status == 201, made.message
        ready = {"type": "Ready", "status": "True", "reason": "test", "message": "test"}
        status = {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [ready]}
        await kube.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, form=MERGE)
    pods = template({**QUEUED, "specon.io/savers": "all"}, schedulingGates=[{"name": ADMISSION_GATE}])
    numbers = {"completions": RANKS, "parallelism": RANKS, "completionMode": "Indexed", "backoffLimit": 0}
    kubelet = asyncio.create_task(_Kubelet(kube, "gang-0").run())
    settings = KubeSettings(watch=WatchSettings(namespaces=(kube.namespace,)))
    try:
        async with Stage(api, settings=settings) as stage:
            await _moves(api, stage, kube.namespace, {"spec": {**numbers, "template": pods}})
    finally:
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
        for name in ("gang-0", "gang-1"):
            await kube.ask("DELETE", f"/api/v1/nodes/{name}")


async def _moves(api: Api, stage: Stage, namespace: str, job: dict) -> None:
    name, ranks = f"{namespace}/train", range(RANKS)
    names = [f"{namespace}/train/worker/{rank}" for rank in ranks]

    async def place(transaction: str, node: str = "", **fields) -> None:
        placement = dict.fromkeys(names, node) if node else {}
        given = {"grace_seconds": 5.0, "reason": "test", **fields}
        await stage.backend.carry_out(
            PlaceJob(job=name, transaction=transaction, placement=placement, **given)
        )

    async def runs() -> dict[int, str]:
        found, _ = await api.list(PODS, namespace)
        return {
            int(pod["metadata"]["annotations"][_INDEX]): pod["spec"]["nodeName"]
            for pod in found
            if pod["status"].get("phase") == "Running"
        }

    async def until_runs(wanted: dict[int, str]) -> None:
        async with asyncio.timeout(60):
            while await runs() != wanted:  # noqa: ASYNC110  (a server has no event to wait for)
                await asyncio.sleep(0.05)

    await api.create(JOBS, {"metadata": {"name": "train"}, **job}, namespace)
    await described(stage)
    await place("admit-1", "gang-0")
    await until_runs(dict.fromkeys(ranks, "gang-0"))
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == RANKS)
    spec = stage.said(JobObserved)[-1].spec
    assert (spec.coupled, spec.savers, spec.immovable) == (True, "all", "")
    former = {event.replica: event.incarnation for event in stage.said(ReplicaStarted)}
    await place("move-2", gang=True, ending=former, fresh_until=stage.now + 60)
    await stage.until(lambda: len(stage.said(ReplicaGone)) == RANKS, seconds=60.0)
    found = await api.get(JOBS, "train", namespace)
    mark = found["metadata"]["annotations"]["specon.io/suspended-for"]
    assert (mark, found["spec"]["suspend"], await runs()) == ("held-move-2", True, {})
    await place("move-2", "gang-1", gang=True)
    await until_runs(dict.fromkeys(ranks, "gang-1"))
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == 2 * RANKS)
    found = await api.get(JOBS, "train", namespace)
    assert "specon.io/suspended-for" not in found["metadata"].get("annotations", {})
    assert (found["spec"]["suspend"], found["spec"]["completions"], found["spec"]["parallelism"]) == (
        False,
        RANKS,
        RANKS,
    )
    assert not found["status"].get("failed")
    assert not [each for each in found["status"].get("conditions") or [] if each["type"] == "Failed"]
    assert not stage.said(JobRefused)
