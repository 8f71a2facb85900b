"""A real Kueue beside a real API server, scheduler and manager: jobs wait, train and are preempted.

Nodes, trainers and sidecars are played, as `RealStage` has them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.kueue.webhook import gate_webhook
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import (
    CUSTOM_RESOURCES,
    JOBS,
    KUEUE_CLUSTER_QUEUES,
    KUEUE_LOCAL_QUEUES,
    KUEUE_WORKLOADS,
    MIGRATIONS,
    TRAINING_JOBS,
    Object,
    Resource,
)
from support.kube import real_kueue, server
from support.kube.kueue_objects import queue_object
from support.kube.real_kueue import RealKueue
from support.kube.real_stage import TRAINING, RealStage
from support.kube.training_templates import elastic_job, held_job, training_template

FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
_PRIORITIES = Resource(
    "kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)
QUEUE = "kueue.x-k8s.io/queue-name"
FINAL = {"Succeeded", "RolledBack", "Failed", "Refused"}
_GATES = ("MultiKueueOrchestratedPreemption", "PriorityBoost")


class _Seen(Struct, frozen=True):
    uid: str
    raw: Object


class RealKueueStage(RealStage):
    """`async with RealKueueStage(folder, programs, kueue)`; `settings` are those of the manager for Kueue."""

    def __init__(
        self,
        folder: Path,
        programs: Path,
        kueue: Path,
        *,
        nodes: int = 5,
        without: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """Prepare; `without` are feature gates of Kueue that are off."""
        gate = {"preemption_gate": {"enabled": True, "patience": 60.0}}
        super().__init__(folder, programs, nodes=nodes, decisions={**gate, **settings})
        self.kueue = RealKueue(kueue, folder, dict.fromkeys(_GATES, True) | dict.fromkeys(without, False))
        self.seen: list[Any] = []
        """Told of each change of a Workload: the time of the event loop, and the Workload."""
        self._asked: list[str] = []

    async def _join(self) -> None:
        await self.kueue.install(self.api)
        while not await self._is_defined():  # noqa: ASYNC110  (an API server has no other word for it)
            await asyncio.sleep(0.3)
        process = self._stack.enter_context(self.kueue.running(self.config))
        while not await self.kueue.ready():
            assert process.poll() is None, self.kueue.log.read_text("utf-8")[-3000:]
            await asyncio.sleep(0.3)
        await self._create(FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
        await self._create(_PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000})
        self.workloads = Reflector(self.api, KUEUE_WORKLOADS, slim=_seen, changed=self._workload_changed)
        follows = asyncio.create_task(self.workloads.run())
        self._stack.callback(follows.cancel)

    async def _is_defined(self) -> bool:
        """Whether every definition of it is served: it ends where one is not."""
        found, _ = await self.api.list(CUSTOM_RESOURCES)
        conditions = [(each.get("status") or {}).get("conditions") or [] for each in found]
        established = ({one["type"] for one in each if one["status"] == "True"} for each in conditions)
        return all("Established" in each for each in established) and await self.api.serves(KUEUE_WORKLOADS)

    def _reviewed(self, about: WebhookSettings) -> Object:
        whole = super()._reviewed(about)
        return {**whole, "webhooks": [*whole["webhooks"], gate_webhook(about, None)]}

    async def _create(self, resource: Resource, value: Object, namespace: str | None = None) -> Object:
        """Create something whose definition asks for its kind."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **value}
        return await self.api.create(resource, whole, namespace)

    def _workload_changed(self, change: ObjectChange[_Seen]) -> None:
        now = asyncio.get_running_loop().time()
        for told in self.seen:
            told(now, None if change.after is None else change.after.raw)

    # -- what users and operators do -------------------------------------------------------------

    async def queue(self, name: str, **given: Any) -> None:
        """Make a ClusterQueue, and a LocalQueue of its name; quotas by `flavor/resource`."""
        made = queue_object(name, **given)
        made["metadata"].pop("uid")
        made["spec"]["namespaceSelector"] = {}
        if not made["spec"]["cohortName"]:
            del made["spec"]["cohortName"]
        await self._create(KUEUE_CLUSTER_QUEUES, made)
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
        await self._create(KUEUE_LOCAL_QUEUES, local, TRAINING)

    async def submit(
        self, name: str, queue: str, *, cpu: str = "1", workers: int = 1, **spec: Any
    ) -> list[str]:
        """Create a Job that trains once Kueue admits it; return its replicas. Several train as one."""
        template = training_template(name)
        template["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
        template["spec"]["serviceAccountName"] = "default"
        body: Object = {"backoffLimit": 0, "template": template, **spec}
        if workers > 1:
            template["metadata"]["annotations"] |= {
                "specon.io/replicas": "coupled",
                "specon.io/savers": "all",
            }
            body |= {"completionMode": "Indexed", "completions": workers, "parallelism": workers}
            self.sidecars.together.add(f"{TRAINING}/{name}")
        metadata = {"name": name, "labels": {QUEUE: queue}}
        await self.api.create(JOBS, {"metadata": metadata, "spec": body}, TRAINING)
        return [f"{TRAINING}/{name}/worker/{index}" for index in range(workers)]

    async def submit_elastic(self, name: str, queue: str, **numbers: int) -> list[str]:
        """Create a Job that Kueue sizes by slices; return the replicas that it may have."""
        made = elastic_job(name, queue, **numbers)
        await self.api.create(JOBS, made, TRAINING)
        return [f"{TRAINING}/{name}/worker/{index}" for index in range(numbers["most"])]

    async def hold(self, name: str, *, cpu: str) -> None:
        """Create a Job that our manager admits, and Kueue knows nothing of."""
        await self.api.create(JOBS, held_job(name, cpu), TRAINING)

    async def fill(self, name: str, queue: str, *, cpu: str, urgent: bool = False) -> None:
        """Create a Job that is none of ours."""
        container = {
            "name": "main",
            "image": "registry.example/other:1",
            "resources": {"requests": {"cpu": cpu}},
        }
        labels = {QUEUE: queue, **({"kueue.x-k8s.io/priority-class": "urgent"} if urgent else {})}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        metadata = {"name": name, "labels": labels}
        await self.api.create(JOBS, {"metadata": metadata, "spec": {"template": template}}, TRAINING)

    async def remove(self, name: str) -> None:
        """Delete a Job and its pods."""
        await self.api.delete(JOBS, name, TRAINING, propagation="Background")

    async def move(self, replica: str, target: str | None = None, **spec: Any) -> Object:
        """Ask for a move, wait for its end, and return what its Migration says."""
        name = f"asked-{len(self._asked)}"
        self._asked.append(name)
        wanted = {"replica": replica, "reason": "a test asks for it", **spec}
        if "job" in spec:
            del wanted["replica"]
        if target is not None:
            wanted["target"] = target
        await self._create(MIGRATIONS, {"metadata": {"name": name}, "spec": wanted}, TRAINING)
        found: Object = {}

        async def over() -> bool:
            found.update((await self.api.get(MIGRATIONS, name, TRAINING)).get("status") or {})
            return found.get("state") in FINAL

        await self.eventually(over, f"the move of {replica} is over: {found}", seconds=180)
        return found

    # -- what is seen ----------------------------------------------------------------------------

    def workload(self, job: str) -> Object:
        """Return the Workload of a Job; empty where there is none."""
        for each in self.workloads.items.values():
            owners = each.raw["metadata"].get("ownerReferences") or []
            if any(owner["name"] == job for owner in owners):
                return each.raw
        return {}

    def slices(self, job: str) -> list[Object]:
        """Return the Workloads of a Job that are not finished, the oldest first."""
        raws = (each.raw for each in self.workloads.items.values())
        found = [
            raw
            for raw in raws
            if any(owner["name"] == job for owner in raw["metadata"].get("ownerReferences") or [])
            and not _is(raw, "Finished")
        ]
        return sorted(found, key=lambda raw: (raw["metadata"]["creationTimestamp"], raw["metadata"]["uid"]))

    def sizes(self, job: str) -> list[tuple[int, bool]]:
        """Return how many pods each of these asks for, and whether it is admitted."""
        return [(raw["spec"]["podSets"][0]["count"], _is(raw, "Admitted")) for raw in self.slices(job)]

    async def record(self, job: str) -> Object:
        """Return the status of a TrainingJob; empty where there is none."""
        try:
            found = await self.api.get(TRAINING_JOBS, job, TRAINING)
        except ApiError:
            return {}
        return dict(found.get("status") or {})

    def says(self, job: str, condition: str) -> str:
        """Return the reason of a condition that is true of the job's Workload; empty where it is not."""
        for each in (self.workload(job).get("status") or {}).get("conditions") or []:
            if (each["type"], each["status"]) == (condition, "True"):
                return str(each["reason"])
        return ""

    async def trains(self, *replicas: str, beyond: int = 0) -> None:
        """Wait until all of them train."""

        async def all_train() -> bool:
            return all(self.sidecars.last.get(each, 0) > beyond and self.pod_of(each) for each in replicas)

        await self.eventually(all_train, f"{replicas} train", seconds=180)

    def pod_of(self, replica: str) -> Object | None:
        """Return the pod of a replica that runs; None where none does."""
        for each in self._pods.items.values():
            pod = each.raw
            if pod["metadata"].get("deletionTimestamp") or not pod["spec"].get("nodeName"):
                continue
            if (pod.get("status") or {}).get("phase") != "Running":
                continue
            injected = "specon.io/sidecar" in (pod["metadata"].get("labels") or {})
            identity = identity_of(pod) if injected else None
            if identity is not None and identity.replica == replica:
                return pod
        return None

    def node_of(self, replica: str) -> str:
        """Return on which node a replica runs; empty where it does not."""
        pod = self.pod_of(replica)
        return "" if pod is None else str(pod["spec"]["nodeName"])

    def other_node(self, *replicas: str) -> str:
        """Return a node on which none of them is."""
        taken = {self.node_of(each) for each in replicas}
        return next(node for node in self.nodes if node not in taken)


def _is(value: Object, kind: str) -> bool:
    conditions = (value.get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == (kind, "True") for each in conditions)


def _seen(found: Object) -> _Seen:
    return _Seen(found["metadata"]["uid"], found)


@asynccontextmanager
async def stage_for_moves(folder: Path, moves: Mapping[str, Any]) -> AsyncIterator[RealKueueStage]:
    """Yield a stage whose trainers pause, with a queue `team` of four CPUs; skip without the programs."""
    programs, kueue = server.assets(), real_kueue.assets()
    if programs is None or kueue is None or not (programs / "kube-scheduler").exists():
        pytest.skip(
            "no etcd, kube-apiserver, kube-controller-manager, kube-scheduler: set KUBEBUILDER_ASSETS"
        )
    async with RealKueueStage(folder, programs, kueue, signals=["priority-boost"], **moves) as made:
        made.sidecars.pauses = True
        await made.queue("team", **{"default/cpu": 4})
        yield made
