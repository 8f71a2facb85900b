"""Brings the annotations for other schedulers into line when a replica changes its category."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from specon_manager.backends.kube.reporting.signals import SignalWriter
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import PODS, Object
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
        self._waiting: dict[str, Category] = {}
        self._woken = asyncio.Event()

    def follow(self, replica: Replica) -> None:
        """Take note of a replica's category. Does not wait."""
        if not self._names or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting[replica.name] = replica.progress.category
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                name = next(iter(self._waiting))
                await self._write(name, self._waiting.pop(name))

    async def _write(self, replica: str, category: Category) -> None:
        for subject in self._subjects(replica):
            if subject["kind"] == PODS.kind:
                await self._writer.write(subject["name"], subject["namespace"], category)
