"""Weights on virtual nodes: who is stopped when, told to the supervisors by leases that are always renewed.

A manager that is gone renews none, and everything runs on. The backend spares jobs: those in a transaction,
so that no checkpoint, end or proof waits for a turn, and those that begin on a GPU.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.backends.local.appetite import Appetite, running_threads
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.backends.local.pods import Pod
from specon_manager.backends.turns import Schedule, Sharer, TimeSlice, schedules
from specon_manager.model.cluster import JobSpec

RENEW_SECONDS: Final = 1.0
LEASE_SECONDS: Final = 4.0
"""For how long a trainer may be stopped in its turn's absence once the manager is gone."""

_log = logging.getLogger(__name__)


class SharingPod(Struct, frozen=True, kw_only=True):
    """A pod on a node."""

    pod: Pod
    node: str
    unit: str
    """What runs and stops as one: its job, or the replica itself where each trains for itself."""
    job: str
    reserved: float
    """Processors; who reserves any, or a GPU, has them whatever the weights."""


def member(pod: Pod, node: str, spec: JobSpec) -> SharingPod:
    """Describe the pod of a replica of a job."""
    requests = spec.requests_of(pod.replica)
    unit = spec.name if spec.coupled else pod.replica
    return SharingPod(pod=pod, node=node, unit=unit, job=spec.name, reserved=max(requests.cpu, requests.gpu))


class Sharing:
    """Keeps the leases of all pods. Its methods touch small files."""

    def __init__(self, nodes: Sequence[VirtualNode]) -> None:
        """Take the nodes; nobody is there yet."""
        # The job that is on has the GPU alone, as far as possible.
        self._room = {node.name: 1.0 if node.gpu is not None else node.processors for node in nodes}
        self._members: dict[str, SharingPod] = {}
        self._weights: dict[str, float] = {}
        self._appetites: dict[str, Appetite] = {}
        self._spared: frozenset[str] = frozenset()
        self._told: dict[str, tuple[Pod, float, tuple[TimeSlice, ...]]] = {}
        self._news = asyncio.Event()

    def join(self, one: SharingPod, weight: float = 1.0) -> None:
        """Let a pod take part, in place of an earlier one of the same replica."""
        self._members[one.pod.replica], self._weights[one.pod.replica] = one, weight
        self._appetites[one.pod.replica] = Appetite()
        self._news.set()

    def leave(self, pod: Pod) -> None:
        """Let a pod go that has ended."""
        known = self._members.get(pod.replica)
        if known is not None and known.pod is pod:
            del self._members[pod.replica], self._weights[pod.replica], self._appetites[pod.replica]
            self._told.pop(pod.replica, None)
            self._news.set()

    def weigh(self, replica: str, incarnation: str, weight: float) -> None:
        """Give a pod a weight; of one that is gone nothing is said."""
        known = self._members.get(replica)
        if known is not None and known.pod.incarnation == incarnation:
            self._weights[replica] = weight
            self._news.set()

    def spare(self, jobs: Collection[str]) -> None:
        """Let these jobs run undisturbed, and no others."""
        if self._spared != jobs:
            self._spared = frozenset(jobs)
            self._news.set()

    async def keep(self) -> None:
        """Renew the leases until cancelled; news is told at once."""
        while True:
            self._news.clear()
            self.renew()
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                self._look()

    def _look(self) -> None:
        """See how many processors each would use, where there are several to be shared."""
        here = Counter(one.node for one in self._members.values())
        shared = {
            one.pod.trainer_pid: self._appetites[replica]
            for replica, one in self._members.items()
            if one.reserved == 0 and here[one.node] > 1 and self._room[one.node] > 1
        }
        pids = [pid for pid in shared if pid is not None]
        for pid, threads in (running_threads(pids) if pids else {}).items():
            shared[pid].see(threads)

    def renew(self) -> None:
        """Tell each pod for a while to come when it runs; one that is stopped no more is told once."""
        now = time.monotonic()
        known, self._told = self._told, {}
        for schedule in self._schedules():
            for one in self._members.values():
                if one.unit in schedule.turns and not self._runs_on(one):
                    self._told[one.pod.replica] = one.pod, schedule.period, schedule.turns[one.unit]
        for replica, told in self._told.items():
            pod, period, turns = told
            lease = {"period": period, "on": turns, "until": now + LEASE_SECONDS}
            self._tell(pod, lease, news=known.get(replica) != told)
        for replica, (pod, _, _) in known.items():
            if replica not in self._told:
                self._tell(pod, None, news=True)

    def end(self) -> None:
        """Let everything run on."""
        for pod, _, _ in self._told.values():
            self._tell(pod, None, news=True)
        self._told = {}

    def _tell(self, pod: Pod, lease: dict[str, object] | None, *, news: bool) -> None:
        try:
            pod.share(lease, news=news)
        except OSError as error:
            _log.warning(
                "%s %s: its lease cannot be told, so it runs on: %s", pod.replica, pod.incarnation, error
            )

    def _runs_on(self, one: SharingPod) -> bool:
        return one.reserved > 0 or one.job in self._spared

    def _schedules(self) -> list[Schedule]:
        units: dict[str, list[SharingPod]] = {}
        room = dict(self._room)
        for one in self._members.values():
            if one.reserved > 0:
                room[one.node] -= one.reserved
            elif one.job not in self._spared:
                units.setdefault(one.unit, []).append(one)
        sharers = [
            Sharer(
                name=unit,
                # Ranks wait for each other: the slowest tells how fast all are.
                weight=min(self._weights[one.pod.replica] for one in members),
                nodes=self._count_wanted(members),
            )
            for unit, members in units.items()
        ]
        return schedules(sharers, {node: max(1, int(free)) for node, free in room.items()})

    def _count_wanted(self, members: Sequence[SharingPod]) -> dict[str, int]:
        """Return how many processors pods keep busy on each node."""
        wanted: dict[str, int] = {}
        for one in members:
            here = self._appetites[one.pod.replica].processors
            wanted[one.node] = wanted.get(one.node, 0) + here
        return {node: min(count, max(1, int(self._room[node]))) for node, count in wanted.items()}
