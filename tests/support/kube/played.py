"""What a bare API server lacks, played: nodes that are objects alone, their kubelets, a Job, our webhook.

The scheduler is not played: it is the real one.
"""

import asyncio
import contextlib
from typing import Any, Self

from specon_manager.backends.kube.admission.gate import gate_arrival
from specon_manager.backends.kube.admission.injection import Injection
from specon_manager.backends.kube.objects.annotation_keys import PINNED, REPLICA
from specon_manager.backends.kube.objects.scheduling import HOSTNAME
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.resources import JOBS, NODES, PODS, Resource

Object = dict[str, Any]
SPACE = "default"
_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_INDEX = "batch.kubernetes.io/job-completion-index"
_PAUSE = 0.02


class Played:
    """`async with Played(api)`: whatever is bound runs at once, what is told to end is gone soon after."""

    def __init__(self, api: Api, *, lingers: float = 0.3) -> None:
        """Prepare; a pod that is told to end takes so many seconds."""
        self.api, self._lingers = api, lingers
        self.job: Object | None = None
        self.pins: dict[str, str] = {}
        """Node by replica, while a move awaits the next pod."""
        self._told: dict[str, float] = {}
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._play())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def node(self, name: str, cpu: str) -> None:
        """Add a node that is ready."""
        await self.api.create(NODES, {"metadata": {"name": name, "labels": {HOSTNAME: name}}})
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "50"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        await self.api.patch(NODES, name, None, {"status": status}, form="strategic", subresource="status")
        await self.api.patch(NODES, name, None, {"spec": {"taints": None}}, form="merge")

    async def priority_class(self, name: str, value: int, *, never: bool = False) -> None:
        """Make a PriorityClass."""
        policy = "Never" if never else "PreemptLowerPriority"
        await self.api.create(
            _CLASSES, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        )

    async def pod(self, name: str, node: str, cpu: str, priority_class: str) -> None:
        """Make a pod of somebody else that wants to be on that node."""
        resources = {"requests": {"cpu": cpu}}
        spec = {
            "containers": [{"name": "main", "image": "registry.example/other:1", "resources": resources}],
            "nodeSelector": {HOSTNAME: node},
            "priorityClassName": priority_class,
            "terminationGracePeriodSeconds": 0,
        }
        await self.api.create(PODS, {"metadata": {"name": name, "namespace": SPACE}, "spec": spec}, SPACE)

    async def pods(self) -> list[Object]:
        """Return all pods."""
        found, _ = await self.api.list(PODS, SPACE)
        return found

    async def node_of(self, name: str) -> str | None:
        """Return where a pod is, empty where it waits; None where there is none."""
        found = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in await self.pods()}
        return found.get(name)

    # -- played ----------------------------------------------------------------------------------

    async def _play(self) -> None:
        while True:
            pods = await self.pods()
            for pod in pods:
                with contextlib.suppress(ApiError):
                    await self._as_kubelet(pod)
            if self.job is not None:
                await self._as_controller(pods)
            await asyncio.sleep(_PAUSE)

    async def _as_kubelet(self, pod: Object) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp"):
            now = asyncio.get_running_loop().time()
            if now - self._told.setdefault(metadata["uid"], now) >= self._lingers:
                await self.api.delete(PODS, metadata["name"], SPACE, grace_seconds=0)
        elif pod["spec"].get("nodeName") and status.get("phase") == "Pending":
            containers = [
                {
                    "name": each["name"],
                    "image": each["image"],
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
                for each in pod["spec"]["containers"]
            ]
            runs = {"phase": "Running", "containerStatuses": containers}
            await self.api.patch(
                PODS, metadata["name"], SPACE, {"status": runs}, form="strategic", subresource="status"
            )

    async def _as_controller(self, pods: list[Object]) -> None:
        """Create what is missing of the Job, at once; a suspended one has no pods."""
        assert self.job is not None
        job = await self.api.get(JOBS, self.job["metadata"]["name"], SPACE)
        owned = [pod for pod in pods if _INDEX in (pod["metadata"].get("annotations") or {})]
        if job["spec"].get("suspend"):
            for pod in owned:
                if not pod["metadata"].get("deletionTimestamp"):
                    await self.api.delete(PODS, pod["metadata"]["name"], SPACE)
            return
        there = {pod["metadata"]["annotations"][_INDEX] for pod in owned}
        for index in range(job["spec"]["completions"]):
            if str(index) not in there:
                await self.api.create(PODS, self._admitted(job, index), SPACE)

    def _admitted(self, job: Object, index: int) -> Object:
        """Return the next pod of a completion index as our webhook lets it pass."""
        template, name = job["spec"]["template"], job["metadata"]["name"]
        replica = f"{SPACE}/{name}/worker/{index}"
        self._count += 1
        spec = {**template["spec"]}
        annotations = {**template["metadata"]["annotations"], _INDEX: str(index), REPLICA: replica}
        if (node := self.pins.get(replica)) is not None:
            spec["nodeSelector"] = {HOSTNAME: node}
            annotations[PINNED] = node
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name, _INDEX: str(index)}
        pod = {
            "metadata": {
                "name": f"{name}-{index}-{self._count}",
                "namespace": SPACE,
                "labels": {**template["metadata"]["labels"], **labels},
                "annotations": annotations,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": spec,
        }
        return gate_arrival(Injection(pod), self.pins).pod
