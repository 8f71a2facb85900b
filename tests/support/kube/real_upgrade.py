"""A real API server whose managers are replaced one after the other, as a Deployment replaces its pods."""

import asyncio
from collections.abc import Sequence

from specon_manager.backends.kube.transport.resources import LEASES
from support.kube.front import Front
from support.kube.real_stage import SYSTEM, RealStage
from support.live.manager import LiveManager

_ASKED_SECONDS = 5.0
"""The chart's `preStop`: so long a pod goes on that was told to end, and gets no new connections."""


class UpgradedStage(RealStage):
    """As the other one, with managers behind one address, which `upgrade` replaces."""

    async def _reached_at(self) -> tuple[str, str]:
        self._serving, self._started = [self.manager], [self.manager]
        fronts = Front(self._any), Front(self._leader)
        ports = []
        for front in fronts:
            ports.append(await front.start("127.0.0.1"))
            self._stack.push_async_callback(front.stop)
        return f"https://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}"

    async def upgrade(self, name: str) -> None:
        """Start a manager, wait until it is ready, and end the one before it."""
        before, self.manager = self.manager, LiveManager(name, "127.0.0.1", self._folder)
        self._started.append(self.manager)
        self._begin(self.manager)
        self._stack.callback(self.manager.stop)
        await self.eventually(self.manager.ready, f"{name} is ready")
        self._serving = [self.manager]
        await asyncio.sleep(_ASKED_SECONDS)
        await asyncio.to_thread(before.stop)

    async def _any(self) -> Sequence[tuple[str, int]]:
        return [(each.host, each.port) for each in self._serving]

    async def _leader(self) -> Sequence[tuple[str, int]]:
        holder = (await self.api.get(LEASES, "specon-manager", SYSTEM))["spec"]["holderIdentity"]
        leaders = [each for each in self._started if holder.startswith(f"{each.identity}_")]
        return [(each.host, each.reports_port) for each in leaders]
