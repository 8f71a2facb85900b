"""A stub of Kueue's scheduler and of its jobs: what it does with gates, quota and victims by its source.

Sources, at ff69552e79: `processEntry` and `requeueAndUpdate` of `pkg/scheduler/scheduler.go` (a head that
would preempt and has a closed gate is marked `BlockedOnPreemptionGates`, and not while it fits),
`HasClosedPreemptionGate` of `pkg/workload/workload.go`, `prepareForEviction` of `pkg/workload/evict/evict.go`
(gates are closed again), and `syncPreemptionGateStates` of `pkg/controller/core/workload_controller.go`.
ClusterQueues have no cohort here. It is no real Kueue: Go and its modules are needed for that.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from specon_manager.backends.kube.kueue.facts import CLOSED, GATE, OPEN, Workload, workload_facts
from specon_manager.backends.kube.kueue.victims import victims
from specon_manager.backends.kube.transport.resources import Object
from support.kube.kueue_api import KueueApi
from support.kube.kueue_objects import queue, queue_object

NAMESPACE = "default"
CYCLE_SECONDS = 0.1


class KueueStub:
    """Admits, preempts and requeues; `admit` and `end` are what becomes of jobs."""

    def __init__(
        self,
        api: KueueApi,
        now: Callable[[], float],
        *,
        admit: Callable[[str], None],
        end: Callable[[str], Awaitable[None]],
        gate: bool = True,
    ) -> None:
        """Heed gates where the feature gate is on; `gate` says so."""
        self.api, self._now, self._admit, self._end, self._gate = api, now, admit, end, gate
        self.preempted: list[tuple[str, str, float]] = []
        """Victim, preemptor, and when the preemptor was first blocked or, without gates, seen."""
        self.stale_writes = 0
        """For so many preemptors the scheduler writes an older copy of the status, which shuts the gate."""
        self.shut: set[str] = set()
        """Those for which it did."""
        self._queues: dict[str, tuple[float, object]] = {}
        self._read: dict[tuple[str, str], Workload] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add_queue(self, name: str, cpu: float) -> None:
        """Make a ClusterQueue that preempts lower priorities, and a LocalQueue of its name."""
        self.api.put("clusterqueues", queue_object(name, **{"default/cpu": cpu}))
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"local-{name}"}
        self.api.put("localqueues", {"metadata": metadata, "spec": {"clusterQueue": name}})
        self._queues[name] = cpu, queue(name, **{"default/cpu": cpu})

    def submit(self, name: str, queue_name: str, *, cpu: float, priority: int, gated: bool) -> None:
        """Make the Workload of a job, with our gate where the webhook has been asked."""
        created = self._time()
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"workload-{name}",
            "creationTimestamp": created,
            "labels": {"kueue.x-k8s.io/job-uid": f"job-{name}"},
        }
        spec: Object = {"queueName": queue_name, "priority": priority, "active": True}
        status: Object = {
            "resourceRequests": [{"resources": {"cpu": str(cpu)}}],
            "conditions": [],
            "preemptionGates": [],
        }
        if gated:
            spec["preemptionGates"] = [{"name": GATE}]
            status["preemptionGates"] = [{"name": GATE, "position": CLOSED, "lastTransitionTime": created}]
        self.api.put("workloads", {"metadata": metadata, "spec": spec, "status": status})

    def finish(self, name: str) -> None:
        """Let a job be over and deleted: its quota is free."""
        self.api.remove("workloads", NAMESPACE, name)

    async def run(self) -> None:
        """Look at the head of each queue, again and again."""
        seen = ""
        while True:
            if seen != self.api.version:
                seen = self.api.version
                for name in sorted(self._queues):
                    self._cycle(name)
            await asyncio.sleep(CYCLE_SECONDS)

    def pending(self, queue_name: str) -> list[str]:
        """Return what waits in a queue, the head first."""
        waiting = [each for each in self._every() if each.local_queue == queue_name and each.is_pending]
        return [each.name for each in sorted(waiting, key=lambda each: (-each.priority, each.created_at))]

    def _every(self) -> list[Workload]:
        """Return all Workloads; only those that changed are read again."""
        found = self.api.objects.get("workloads", {})
        versions = {key: each["metadata"]["resourceVersion"] for key, each in found.items()}
        known = self._read
        self._read = {
            key: known[key] if key in known and known[key].version == version else workload_facts(found[key])
            for key, version in versions.items()
        }
        return list(self._read.values())

    def _cycle(self, queue_name: str) -> None:
        cpu, known = self._queues[queue_name]
        for name in self.pending(queue_name):
            running = self._every()
            head = self._read[NAMESPACE, name]
            used = sum(
                sum(each.usage.values())
                for each in running
                if each.cluster_queue == queue_name and each.reserved_at is not None
            )
            if used + head.requests["cpu"] <= cpu:
                self._reserve(name, queue_name, head.requests["cpu"])
                return
            goes = victims(head, queue_name, running, {queue_name: known}, self._now())  # type: ignore[dict-item]
            if not goes:
                continue
            item, at = self._item(name), self._time()
            if self._gate and _is_closed(item):
                if head.blocked_since is None:
                    _set(item, "BlockedOnPreemptionGates", on=True, at=at)
                    self.api.put("workloads", item)
                return
            since = head.blocked_since or head.created_at
            if len(self.shut) < self.stale_writes and name not in self.shut and head.gated and self._gate:
                self.shut.add(name)
                item["status"]["preemptionGates"][0].update(position=CLOSED)
                self.api.put("workloads", item)
                return
            for each in goes:
                if not each.evicted:
                    self._evict(each.name, name, since)
            return

    def _reserve(self, name: str, queue_name: str, cpu: float) -> None:
        item, at = self._item(name), self._time()
        assignment = {"flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpu)}}
        item["status"]["admission"] = {"clusterQueue": queue_name, "podSetAssignments": [assignment]}
        for kind, on in (("QuotaReserved", True), ("Evicted", False), ("BlockedOnPreemptionGates", False)):
            _set(item, kind, on=on, at=at)
        self.api.put("workloads", item)
        self._admit(name)

    def _evict(self, name: str, preemptor: str, since: float) -> None:
        item, at = self._item(name), self._time()
        _set(item, "Evicted", on=True, at=at)
        for gate in item["status"]["preemptionGates"]:
            gate.update(position=CLOSED, lastTransitionTime=at)
        self.api.put("workloads", item)
        self.preempted.append((name, preemptor, since))
        task = asyncio.get_running_loop().create_task(self._ended(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ended(self, name: str) -> None:
        """Suspend the job; its quota is free once its pods are gone, and it waits again."""
        await self._end(name)
        item = self._item(name)
        item["status"].pop("admission", None)
        _set(item, "QuotaReserved", on=False, at=self._time())
        self.api.put("workloads", item)

    def _item(self, name: str) -> Object:
        return copy.deepcopy(self.api.objects["workloads"][NAMESPACE, name])

    def _time(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_closed(item: Object) -> bool:
    states = {each["name"]: each["position"] for each in item["status"].get("preemptionGates", ())}
    return any(states.get(each["name"], CLOSED) != OPEN for each in item["spec"].get("preemptionGates", ()))


def _set(item: Object, kind: str, *, on: bool, at: str) -> None:
    status = "True" if on else "False"
    conditions = item["status"]["conditions"]
    for each in conditions:
        if each["type"] == kind:
            if each["status"] != status:
                each.update(status=status, lastTransitionTime=at)
            return
    conditions.append({"type": kind, "status": status, "lastTransitionTime": at})
