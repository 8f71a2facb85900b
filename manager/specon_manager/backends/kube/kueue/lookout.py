"""Follows Kueue's Workloads and queues, and says whose end each Workload is likely to bring about."""

import asyncio
from collections.abc import Callable, Mapping

from specon_manager.backends.kube.kueue.facts import (
    ClusterQueue,
    LocalQueue,
    Workload,
    cluster_queue_facts,
    local_queue_facts,
    workload_facts,
)
from specon_manager.backends.kube.kueue.queue_line import victims_by_waiting
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import (
    KUEUE_CLUSTER_QUEUES,
    KUEUE_LOCAL_QUEUES,
    KUEUE_WORKLOADS,
)

WorkloadKey = tuple[str, str]


class LocalQueues:
    """Follows LocalQueues: by them a new Workload's ClusterQueue is known."""

    def __init__(self, api: Api) -> None:
        self._reflector = Reflector(api, KUEUE_LOCAL_QUEUES, slim=local_queue_facts, changed=lambda _: None)

    async def run(self) -> None:
        """Follow them until cancelled."""
        await self._reflector.run()

    @property
    def synced(self) -> bool:
        """Whether all were seen."""
        return self._reflector.synced.is_set()

    def cluster_queue(self, namespace: str, name: str) -> str:
        """Return the ClusterQueue of a LocalQueue; empty where it is not known."""
        found: LocalQueue | None = self._reflector.items.get((namespace, name))
        return "" if found is None else found.cluster_queue


class Lookout:
    """What there is of Kueue, for the manager that leads."""

    def __init__(self, api: Api, local_queues: LocalQueues, changed: Callable[[], None]) -> None:
        """Tell `changed` where a Workload with our gate has changed."""
        self._local, self._told = local_queues, changed
        self._workloads = Reflector(api, KUEUE_WORKLOADS, slim=workload_facts, changed=self._note_change)
        self._queues = Reflector(
            api, KUEUE_CLUSTER_QUEUES, slim=cluster_queue_facts, changed=self._queue_changed
        )
        self._by_name: dict[str, ClusterQueue] = {}
        self._gated: set[WorkloadKey] = set()
        self._known: Mapping[str, tuple[Workload, ...]] | None = None
        """Whose end each waits for, while nothing has changed since that was worked out."""

    async def run(self) -> None:
        """Follow them until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workloads.run())
            group.create_task(self._queues.run())

    @property
    def synced(self) -> bool:
        """Whether the Workloads were all seen."""
        return self._workloads.synced.is_set()

    @property
    def knows_queues(self) -> bool:
        """Whether the queues were all seen by which victims are found."""
        return self.synced and self._queues.synced.is_set() and self._local.synced

    def list_gated(self) -> list[Workload]:
        """Return the Workloads with our gate that wait and either would preempt, or may."""
        found = (self._workloads.items[key] for key in sorted(self._gated))
        return [each for each in found if each.blocked_since is not None or _is_open(each)]

    def victims(self, now: float) -> Mapping[str, tuple[Workload, ...]]:
        """Return whose end each of the gated ones waits for, by the UID of its Workload."""
        if self._known is None:
            waiting = [(each, self.queue_of(each)) for each in self.list_gated()]
            workloads = self._workloads.items.values()
            self._known = victims_by_waiting(waiting, workloads, self._by_name, now) if waiting else {}
        return self._known

    def queue_of(self, workload: Workload) -> str:
        """Return the ClusterQueue that a Workload waits in; empty where it is not known."""
        return self._local.cluster_queue(workload.namespace, workload.local_queue)

    def _note_change(self, change: ObjectChange[Workload]) -> None:
        self._known = None
        after = change.after
        if after is not None and after.gated and after.is_pending:
            self._gated.add(change.key)
            self._told()
        else:
            self._gated.discard(change.key)

    def _queue_changed(self, change: ObjectChange[ClusterQueue]) -> None:
        self._known = None
        if change.after is None:
            self._by_name.pop(change.key[1], None)
        else:
            self._by_name[change.key[1]] = change.after


def _is_open(workload: Workload) -> bool:
    return workload.gate is not None and workload.gate.open
