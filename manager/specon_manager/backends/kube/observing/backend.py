"""A backend that reads and does nothing else: for a first look at a cluster."""

import asyncio
import logging
from collections.abc import Callable

from specon_manager.backends.base import Emit, Order
from specon_manager.backends.kube.background import Background
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.observing.printed import Printed
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.watching.cluster_watch import ClusterWatch, WatchSettings
from specon_manager.core.state import State
from specon_manager.model.events import ReportReceived

_log = logging.getLogger(__name__)


class ObservingBackend:
    """Follows nodes, owners and the selected pods, and reads what these print."""

    def __init__(
        self,
        api: Api,
        outputs: Api,
        settings: WatchSettings,
        *,
        most: int,
        remark: Callable[[str, str, str, str], None] = lambda *_: None,
        heartbeat: float,
    ) -> None:
        """Look by `api`; logs are read by `outputs`, at most so many at once, each on a connection.

        Of each pod there is a report every `heartbeat` seconds.
        """
        self._background = Background()
        self._watch = ClusterWatch(
            api, settings, remark=remark, noticed=self._notice, background=self._background
        )
        self._outputs, self._heartbeat = outputs, heartbeat
        self._room = asyncio.Semaphore(most)
        self._printed: dict[str, Printed] = {}
        self._emit: Emit | None = None

    @property
    def read(self) -> int:
        """How many pods are read, or wait for their turn."""
        return len(self._printed)

    @property
    def waiting(self) -> bool:
        """Whether some pods are not read, for as many as may be are read already."""
        return self._room.locked()

    async def begin(self, state: State, emit: Emit) -> None:
        """Read everything, and follow from then on."""
        self._emit = emit
        await self._watch.begin(state, emit)

    async def carry_out(self, order: Order) -> None:
        """Refuse: an observer orders nothing, and neither does a dry run."""
        raise RuntimeError(f"{type(order).__name__}: nothing is ordered by an observer")

    async def end(self) -> None:
        """Stop looking."""
        await self._watch.end()

    def _notice(self, before: PodInfo | None, after: PodInfo | None) -> None:
        gone = before if after is None else after if after.ended else None
        if gone is not None and (printed := self._printed.get(gone.uid)) is not None:
            printed.end()
        if after is None or after.ended or after.uid in self._printed or after.detail is None:
            return
        if after.detail.trains and after.detail.identity is not None:
            self._printed[after.uid] = self._reader(after)
            self._background.start(self._follow(after.uid), f"reading {after.namespace}/{after.name}")

    def _reader(self, pod: PodInfo) -> Printed:
        assert self._emit is not None
        emit = self._emit
        return Printed(
            self._outputs,
            pod,
            report=lambda report: emit(ReportReceived(report)),
            heartbeat=self._heartbeat,
        )

    async def _follow(self, uid: str) -> None:
        try:
            async with self._room:
                await self._printed[uid].run()
        finally:
            self._printed.pop(uid, None)
