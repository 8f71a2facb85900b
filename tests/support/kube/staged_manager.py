"""One whole manager in the event loop of a test: it can be killed, frozen, and made to skip time."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from prometheus_client import CollectorRegistry

from specon_manager.backends.kube.interception.desk import InterceptionSettings
from specon_manager.backends.kube.kueue.decision import PreemptionGateSettings
from specon_manager.backends.kube.transport.access import direct_access
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.lease import Elector, StillWorkingError
from specon_manager.core.state import State
from specon_manager.model.events import Event
from specon_manager.model.settings import Settings
from specon_manager.serving import cluster_manager
from specon_manager.serving.cluster_manager import ClusterManager
from specon_manager.serving.serve_settings import ListenAddress, ServeSettings, SidecarImage
from support.clocks.fair_time import fair_now
from support.ports import free_port

SYSTEM = "specon"
"""The namespace of managers."""
LEASE_SECONDS, RENEW_SECONDS = 12.0, 8.0
_NO_ORDERS = re.compile(r"/trainingprogresses/|/events|reviews|/pods/[^/]+/status$")
_ASKED_SECONDS = 1.0
"""In place of the five seconds of the chart's `preStop`; an eviction is answered within 0.6 s."""
_TIMES = {"lease_seconds": LEASE_SECONDS, "renew_seconds": RENEW_SECONDS, "retry_seconds": 0.3}


class Manager:
    """One manager and its way to the API server."""

    def __init__(
        self,
        name: str,
        server: str,
        urls: tuple[str, str],
        decisions: Settings,
        *,
        lease: str = "manager",
        namespaces: tuple[str, ...] = (),
        home: str = SYSTEM,
        configuration: str = "specon",
        interception: InterceptionSettings = InterceptionSettings(),  # noqa: B008  (frozen)
        preemption_gate: PreemptionGateSettings = PreemptionGateSettings(),  # noqa: B008  (frozen)
    ) -> None:
        """Start it; `urls` are those by which its webhook, and by which its reports are reached.

        Managers of one release have the same `lease`, in the namespace `home`.
        """
        self._home, self._configuration = home, configuration
        self.lease, self._namespaces, self._interception = lease, namespaces, interception
        self._preemption_gate = preemption_gate
        self.name, self.port = f"{name}_manager", free_port()
        self.reports_port, self.probe = free_port(), free_port()
        self._passable = asyncio.Event()
        self._passable.set()
        self.leaving = False
        """Whether a Service sends it no new connections any more."""
        self._frozen_at: float | None = None
        self._ahead = 0.0
        self._was_frozen = False
        self.changes: list[str] = []
        """Method and path of whatever else than reading the API server let it do."""
        access = direct_access(server)
        access.send = self._gated(access.send)  # type: ignore[method-assign]
        self.api = Api(access=access, seconds=3.0)
        elector = partial(Elector, monotonic=self._now, **_TIMES)
        with patch.object(cluster_manager, "Elector", elector):
            self.serves = ClusterManager(self._settings(urls, decisions), self.api, CollectorRegistry())
        self.task = asyncio.create_task(self.serves.run())

    @property
    def alive(self) -> bool:
        return not self.task.done() and self._passable.is_set()

    @property
    def leads(self) -> bool:
        """Whether it does the work of a leader."""
        return self.serves._elector.leading

    def has_taken_over(self) -> bool:
        """Whether it has read the state of its predecessor, and gives orders."""
        controller = self.serves._server.controller
        return controller is not None and controller.ready

    @property
    def state(self) -> State:
        """What it knows; raises AssertionError before it leads."""
        controller = self.serves._server.controller
        assert controller is not None
        return controller.state

    @property
    def orders(self) -> list[str]:
        """What of its changes only a leader may do.

        Whatever was on its way when it was frozen comes late: a nomination too, which is a hint.
        """
        return [change for change in self.changes if not _NO_ORDERS.search(change)]

    def post(self, event: Event) -> None:
        """Hand in an event; raises AssertionError before it leads."""
        controller = self.serves._server.controller
        assert controller is not None
        controller.post(event)

    def _gated(self, send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def sent(method: str, path: str, **rest: Any) -> Any:
            await self._passable.wait()
            answer = await send(method, path, **rest)
            if method != "GET" and answer.status < 300:
                self.changes.append(f"{method} {path}")
            return answer

        return sent

    def _now(self) -> float:
        return (fair_now() if self._frozen_at is None else self._frozen_at) + self._ahead

    async def passable(self) -> None:
        """Return as soon as it is not frozen: until then it neither hears nor answers."""
        await self._passable.wait()

    def freeze(self) -> None:
        """Let it think that no time passes, and let nothing that it sends go out, until it is thawed."""
        self._frozen_at, self._was_frozen = fair_now(), True
        self._passable.clear()

    def thaw(self, seconds: float = 0.0) -> None:
        """Let it go on, `seconds` later than it thinks."""
        self._frozen_at = None
        self.leap(seconds)
        self._passable.set()

    def leap(self, seconds: float) -> None:
        """Let so much time pass for its hold on the Lease."""
        self._ahead += seconds

    async def kill(self) -> None:
        """End it so that it can tell the API server nothing more."""
        closing = asyncio.ensure_future(self.api.close())
        self.task.cancel()
        await asyncio.gather(closing, self.task, return_exceptions=True)

    async def leave(self) -> None:
        """End it in order as its pod is: asked no more, it goes on until what it was asked is answered."""
        self.leaving = True
        await asyncio.sleep(_ASKED_SECONDS)
        await self.stop()

    async def stop(self) -> None:
        """End it in order; raises what broke it."""
        self.thaw()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.api.close()
        self.check()

    def check(self) -> None:
        """Raise what broke it, unless it ended as it has to after it was frozen for longer than its lease."""
        if not self.task.done() or self.task.cancelled():
            return
        error = self.task.exception()
        may = self._was_frozen and isinstance(error, BaseExceptionGroup)
        if may and error.split(StillWorkingError)[1] is None:
            return
        self.task.result()

    def _settings(self, urls: tuple[str, str], decisions: Settings) -> ServeSettings:
        return ServeSettings(
            decisions=decisions,
            sidecar=SidecarImage(heartbeat=1.0),
            hold_room=True,
            signals=(),
            progress_seconds=2.0,
            kubeconfig=None,
            context=None,
            namespace=self._home,
            watch_namespaces=self._namespaces,
            lease_name=self.lease,
            listen=ListenAddress("127.0.0.1", self.port),
            reports_listen=ListenAddress("127.0.0.1", self.reports_port),
            metrics_listen=ListenAddress("127.0.0.1", self.probe),
            webhook_service="specon-webhook",
            webhook_url=urls[0],
            reports_service="specon-reports",
            reports_url=urls[1],
            webhook_configuration=self._configuration,
            certificates="self",
            certificate_secret="certificates",
            certificate_directory=Path("/nowhere"),
            placeholder_priority_class=None,
            guard_priority_class="guards",
            identity=self.name,
            interception=self._interception,
            preemption_gate=self._preemption_gate,
        )
