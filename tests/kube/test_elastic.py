"""Jobs placed as a whole on a whole cluster: the real Job controller and the real scheduler do the rest.

Needs KUBECONFIG and two nodes that run pods. No webhook takes part: the template of the Job has the gate that
it would add.
"""

import asyncio
import os
import uuid
from pathlib import Path

import pytest

from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE
from specon_manager.backends.kube.objects.pod import slim_node
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import JOBS, NAMESPACES, NODES, PDBS, PODS
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from specon_manager.model.actions import PlaceJob
from specon_manager.model.events import JobRefused
from support.kube import context as kube_context
from support.kube.manifests import IMAGE
from support.kube.placing_stage import ELASTIC, QUEUED, described
from support.kube.stage import Stage, template

pytestmark = pytest.mark.cluster
_INDEX = "batch.kubernetes.io/job-completion-index"


class Gang:
    """A queued elastic Job in a namespace of its own, and the orders that place it."""

    def __init__(self, stage: Stage, api: Api, namespace: str, nodes: list[str]) -> None:
        self.stage, self.api, self.namespace, self.nodes = stage, api, namespace, nodes
        self.job = f"{namespace}/train"

    async def make(self, workers: int) -> None:
        pods = template({**QUEUED, **ELASTIC}, schedulingGates=[{"name": ADMISSION_GATE}])
        pods["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
        container = pods["spec"]["containers"][0]
        container |= {"image": IMAGE, "command": ["sh", "-c", "exec sleep 3600"]}
        container["resources"] = {"requests": {"cpu": "10m", "memory": "16Mi"}}
        numbers = {"completions": workers, "parallelism": workers}
        spec = {"backoffLimit": 0, "completionMode": "Indexed", **numbers, "template": pods}
        await self.api.create(JOBS, {"metadata": {"name": "train"}, "spec": spec}, self.namespace)
        await described(self.stage)
        await self.shows(lambda pods: len(pods) == workers)

    async def place(self, transaction: str, *nodes: int) -> None:
        wanted = {f"{self.job}/worker/{index}": self.nodes[node] for index, node in enumerate(nodes)}
        order = PlaceJob(
            job=self.job, transaction=transaction, placement=wanted, grace_seconds=1.0, reason="test"
        )
        await self.stage.backend.carry_out(order)

    async def shows(self, holds) -> None:
        """Wait until something holds for the pods, by completion index: the nodes on which they run."""
        for _ in range(300):
            if holds(await self._pods()):
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"not within a minute: {await self._pods()}")

    async def runs(self, *nodes: int) -> None:
        """Wait until exactly these workers run, each on its node."""
        wanted = {index: self.nodes[node] for index, node in enumerate(nodes)}
        await self.shows(lambda pods: pods == wanted)

    async def _pods(self) -> dict[int, str | None]:
        listed, _ = await self.api.list(PODS, self.namespace)
        return {
            int(pod["metadata"]["annotations"][_INDEX]): pod["spec"].get("nodeName")
            if pod["status"].get("phase") == "Running"
            else None
            for pod in listed
        }


@pytest.fixture
async def gang(request):
    if "cluster" not in (request.config.option.markexpr or "") or not os.environ.get("KUBECONFIG"):
        pytest.skip("a whole cluster: KUBECONFIG=... ALLOW_CONTEXT=... pytest -m cluster runs it")
    if not os.environ.get("CONTRACT_IMAGE"):
        pytest.skip("CONTRACT_IMAGE names no image with sh that the nodes of the cluster have or can pull")
    path = Path(os.environ["KUBECONFIG"])
    kube_context.endpoint(path)  # refuses one that tests may not change
    api = await Api.connect(kubeconfig=path)
    listed, _ = await api.list(NODES)
    nodes = [node.name for node in map(slim_node, listed) if node.ready and not node.taints]
    if len(nodes) < 2:
        pytest.skip("the cluster has fewer than two nodes that run pods")
    namespace = f"elastic-{uuid.uuid4().hex[:10]}"
    await api.create(NAMESPACES, {"metadata": {"name": namespace}})
    watch = WatchSettings(namespaces=(namespace,))
    settings = KubeSettings(watch=watch, eviction_patience=3.0, unschedulable_seconds=3.0)
    try:
        async with Stage(api, settings=settings) as stage:
            yield Gang(stage, api, namespace, nodes)
    finally:
        await api.delete(NAMESPACES, namespace)
        await api.close()


async def test_a_gang_is_admitted_scaled_preempted_and_admitted_again(gang):
    await gang.make(3)
    await gang.place("change-1", 0, 1, 0)
    await gang.runs(0, 1, 0)
    await gang.place("change-2", 0, 1, 0, 1, 1)
    await gang.runs(0, 1, 0, 1, 1)
    await gang.place("change-3", 0, 1)
    await gang.runs(0, 1)
    await gang.place("change-4")
    await gang.shows(lambda pods: not pods)
    job = await gang.api.get(JOBS, "train", gang.namespace)
    marks = job["metadata"]["annotations"]
    assert (marks["specon.io/suspended-for"], marks["specon.io/scaled"]) == ("held-change-4", "3:2")
    await gang.place("change-5", 1, 1, 1)
    await gang.runs(1, 1, 1)
    job = await gang.api.get(JOBS, "train", gang.namespace)
    assert "specon.io/suspended-for" not in (job["metadata"].get("annotations") or {})
    assert not job["status"].get("failed")


async def test_a_disruption_budget_stands_against_a_preemption(gang):
    await gang.make(2)
    await gang.place("change-1", 0, 1)
    await gang.runs(0, 1)
    budget = {"minAvailable": "100%", "selector": {"matchLabels": {"app": "training"}}}
    await gang.api.create(PDBS, {"metadata": {"name": "never"}, "spec": budget}, gang.namespace)
    await gang.place("change-2")
    refused = await gang.stage.hear(JobRefused, transaction="change-2", seconds=30.0)
    assert "never" in refused.reason
    await gang.runs(0, 1)
