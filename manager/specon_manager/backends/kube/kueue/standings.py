"""Follows Kueue's Workloads and queues, and says of each job whether they let it be moved, or sized."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from specon_manager.backends.kube.kueue.facts import (
    ClusterQueue,
    LocalQueue,
    Workload,
    cluster_queue_facts,
    local_queue_facts,
    workload_facts,
)
from specon_manager.backends.kube.kueue.lines import Cohort, line_of, lines
from specon_manager.backends.kube.kueue.slices import apply_slices, current_slice, fixed_because, growth
from specon_manager.backends.kube.kueue.standing import (
    ELASTIC,
    KueueMoveSettings,
    apply_workload,
    objection,
)
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import (
    KUEUE_CLUSTER_QUEUES,
    KUEUE_LOCAL_QUEUES,
    KUEUE_WORKLOADS,
)

_log = logging.getLogger(__name__)
_PAUSE: Final = 0.1
_REST: Final = 9.0
"""Times as long as a look at all Workloads took it rests at least."""


class Standings:
    """What its Workload says of each owner. A mark counts at once, who waits for the quota a moment later."""

    def __init__(
        self,
        api: Api,
        settings: KueueMoveSettings,
        changed: Callable[[Collection[str]], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Tell `changed` the UIDs of the owners with another standing than before."""
        self._covered, self._told, self._sleep = frozenset(settings.cluster_queues), changed, sleep
        self._workloads: Reflector[Workload] = Reflector(
            api, KUEUE_WORKLOADS, slim=workload_facts, changed=self._workload_changed
        )
        self._queues: Reflector[ClusterQueue] = Reflector(
            api, KUEUE_CLUSTER_QUEUES, slim=cluster_queue_facts, changed=self._queue_changed
        )
        self._local: Reflector[LocalQueue] = Reflector(
            api, KUEUE_LOCAL_QUEUES, slim=local_queue_facts, changed=self._queue_changed
        )
        self._of_job: dict[str, dict[str, Workload]] = {}
        """By UID of the job, and then of the Workload."""
        self._lines: Mapping[str, Cohort] = {}
        self._woken, self._all = asyncio.Event(), False

    async def run(self) -> None:
        """Follow them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in (self._workloads, self._queues, self._local):
                group.create_task(reflector.run())
            group.create_task(self._reckon())

    async def wait_until_synced(self) -> None:
        """Return once all were seen, and it is known who waits."""
        for reflector in (self._workloads, self._queues, self._local):
            await reflector.synced.wait()
        self._look()

    def of(self, owner: OwnerInfo) -> OwnerInfo:
        """Return an owner with what its Workload says, as it is where it has none.

        So it is where it has several, unless these are slices: Kueue replaces one by the other as it grows.
        """
        found = list(self._of_job.get(owner.uid, {}).values())
        if not found or (len(found) > 1 and not owner.slices):
            return owner
        workload = current_slice(found)
        queue = self._queue(workload)
        line = None if queue is None else self._lines.get(line_of(queue))
        covered = queue is not None and queue.name in self._covered
        local = self._local.items.get((workload.namespace, workload.local_queue))
        stopped = local is not None and local.stopped
        against = objection(workload, owner, queue, line, covered=covered, stopped=stopped)
        if not owner.slices:
            return apply_workload(owner, workload, against)
        fixed = fixed_because(owner, found, covered=covered)
        sized = apply_slices(owner, found, fixed, growth(found, queue, line, stopped=stopped))
        return msgspec.structs.replace(sized, kueue_against=against or ELASTIC)

    def _queue(self, workload: Workload) -> ClusterQueue | None:
        local = self._local.items.get((workload.namespace, workload.local_queue))
        name = workload.cluster_queue or ("" if local is None else local.cluster_queue)
        return self._queues.items.get(("", name))

    def _workload_changed(self, change: ObjectChange[Workload]) -> None:
        before, after = change.before, change.after
        told = set[str]()
        if before is not None:
            for uid in before.jobs & self._of_job.keys():
                self._of_job[uid].pop(before.uid, None)
            told |= before.jobs
        if after is not None and not after.finished:
            for uid in after.jobs:
                self._of_job.setdefault(uid, {})[after.uid] = after
            told |= after.jobs
        for uid in told:
            if not self._of_job.get(uid, {}):
                self._of_job.pop(uid, None)
        self._told(told)
        self._woken.set()

    def _queue_changed(self, change: ObjectChange[Any]) -> None:
        if change.before != change.after:  # what it counts by itself is none of our facts
            self._all = True
            self._woken.set()

    async def _reckon(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            began = time.thread_time()
            self._look()
            await self._sleep(max(_PAUSE, _REST * (time.thread_time() - began)))

    def _look(self) -> None:
        """Look who waits for whose quota, and tell of the jobs for which that matters."""
        queue_of = {key: each.cluster_queue for key, each in self._local.items.items()}
        queues = {queue.name: queue for queue in self._queues.items.values()}
        before, self._lines = self._lines, lines(self._workloads.items.values(), queues, queue_of)
        differ = {name for name in {*before, *self._lines} if before.get(name) != self._lines.get(name)}
        waits = {name for name in differ if _who_waits(before.get(name)) != _who_waits(self._lines.get(name))}
        if self._all:
            self._all = False
            self._told(list(self._of_job))
        elif differ:
            told = set[str]()
            for uid, found in self._of_job.items():
                # How much is free matters to who may grow; who waits, to all.
                heeded = ((self._queue(each), differ if each.elastic else waits) for each in found.values())
                if any(queue is not None and line_of(queue) in names for queue, names in heeded):
                    told.add(uid)
            self._told(told)


def _who_waits(line: Cohort | None) -> object:
    return None if line is None else (line.wanted, line.exceeded)
