"""Keeps `priority-boost` on Kueue's Workloads by what the end of each job would cost; the leader runs it."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from specon_manager.backends.kube.reporting.boost_value import REST_SECONDS, STEADY, boost_of_job
from specon_manager.backends.kube.reporting.signals import SignalWriter
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import OwnerOf
from specon_manager.core.state import State

SIGNAL: Final = "priority-boost"
_LOOK_SECONDS: Final = 30.0
_SETTLE_SECONDS: Final = 1.0
_MOST: Final = 20
"""Jobs whose Workloads are written at one look."""


class Boosts:
    """Looks twice a minute, and when a category has changed; each job is written seldom."""

    def __init__(
        self,
        api: Api,
        names: Collection[str],
        owner_of: OwnerOf,
        *,
        holds: Callable[[], bool],
        pause: Callable[[asyncio.Event], Awaitable[None]] | None = None,
    ) -> None:
        """Write where the signal is among the names, while `holds` says that this manager leads.

        `pause` waits between two looks; it may end sooner where the event is set.
        """
        self._writer = SignalWriter(api, names) if SIGNAL in names else None
        self._owner_of, self._holds, self._pause = owner_of, holds, pause or _pause
        self._woken = asyncio.Event()
        self._written: dict[str, tuple[int | None, float]] = {}
        """By job: the last write, and the time of the last value."""

    def wake(self) -> None:
        """Look again soon: a category has changed."""
        self._woken.set()

    async def run(self, state: Callable[[], State], now: Callable[[], float]) -> None:
        """Keep them until cancelled."""
        while True:
            if self._writer is not None:
                await self.keep(state(), now())
            await self._pause(self._woken)
            self._woken.clear()

    async def keep(self, state: State, now: float) -> int:
        """Write what differs noticeably; return of how many jobs."""
        assert self._writer is not None
        snapshot, written = state.snapshot(now), 0
        self._written = {name: known for name, known in self._written.items() if name in state.jobs}
        for job in list(state.jobs.values()):
            if not job.owned or job.ended_at is not None or written >= _MOST or not self._holds():
                continue
            wanted = boost_of_job(job, snapshot)
            if not self._is_news(job.name, wanted, now):
                continue
            owner = self._owner_of(job.name)
            _, before = self._written.get(job.name, (None, -math.inf))
            self._written[job.name] = wanted, before if wanted is None else now
            if owner is not None:
                written += 1
                await self._writer.write_workloads(owner["namespace"], owner["uid"], wanted)
        return written

    def _is_news(self, job: str, wanted: int | None, now: float) -> bool:
        """Whether a boost is worth a write: never more than one in `REST_SECONDS`, but for its end."""
        if job not in self._written:
            return True
        value, at = self._written[job]
        if wanted is None:
            return value is not None
        return (value is None or abs(wanted - value) >= STEADY) and now - at >= REST_SECONDS


async def _pause(woken: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            await woken.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_SETTLE_SECONDS)  # of thousands of categories many change at once
