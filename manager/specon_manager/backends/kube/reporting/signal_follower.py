"""Brings the annotations for other schedulers into line when a replica changes its category."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from specon_manager.backends.kube.reporting.signals import SignalWriter, category_of_job
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import PODS, Object
from specon_manager.core.state import State
from specon_manager.model.cluster import Replica
from specon_sidecar.classify import Category

_MOST_WAITING: Final = 10_000
Subjects = Callable[[str], Sequence[Object]]
"""References to the pod of a replica and, after it, to its owner."""


class SignalFollower:
    """Writes in the background; of several changes of one replica only the last is written."""

    def __init__(self, api: Api, names: Iterable[str], subjects: Subjects) -> None:
        """Write the signals of these names, none where there are none; raises ValueError for unknown ones."""
        self._names = tuple(names)
        self._writer = SignalWriter(api, self._names)
        self._subjects = subjects
        self._waiting: dict[str, tuple[Category, Category]] = {}
        self._woken = asyncio.Event()

    def follow(self, replica: Replica, state: State) -> None:
        """Take note of a replica's category, and of what its job is as a whole. Does not wait."""
        if not self._names or len(self._waiting) >= _MOST_WAITING:
            return
        job = state.jobs.get(replica.job)
        names = () if job is None else job.spec.replicas
        known = [state.replicas[name].progress.category for name in names if name in state.replicas]
        self._waiting[replica.name] = (replica.progress.category, category_of_job(known))
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                name = next(iter(self._waiting))
                own, whole = self._waiting.pop(name)
                await self._write(name, own, whole)

    async def _write(self, replica: str, own: Category, whole: Category) -> None:
        for subject in self._subjects(replica):
            if subject["kind"] == PODS.kind:
                await self._writer.write(PODS, subject["name"], subject["namespace"], own)
            else:
                await self._writer.write_workloads(subject["namespace"], subject["uid"], whole)
