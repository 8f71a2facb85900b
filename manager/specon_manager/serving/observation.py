"""A manager that looks at a cluster and changes nothing, put together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.observing.backend import ObservingBackend
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.settings import Settings
from specon_manager.runtime.controller import Stepped
from specon_manager.runtime.tokens import Tokens
from specon_manager.serving.session import LocalSession, open_manager
from specon_manager.views.first_look import FirstLook, Looking
from specon_manager.views.log_tail import LogTail, pod_log_tail


class ObservationOptions(Struct, frozen=True, kw_only=True):
    """What a look at a cluster is given."""

    directory: Path
    settings: Settings
    selector: Mapping[str, Any]
    """Whose pods are read: a LabelSelector."""
    namespaces: tuple[str, ...] = ()
    log_streams: int = 200
    """Of how many pods the log is read at once."""
    heartbeat: float = 10.0
    """Seconds between two reports of a pod."""
    port: int = 0
    probes: tuple[str, int] | None = None
    """Where metrics and probes are answered besides."""


class Observation:
    """A look that goes on."""

    def __init__(self, session: LocalSession, looking: Looking) -> None:
        self.session = session
        self._looking = looking

    def report(self) -> FirstLook:
        """Return what it came to so far."""
        controller = self.session.controller
        return self._looking.report(controller.state, controller.clock.now())


@asynccontextmanager
async def open_observation(options: ObservationOptions, api: Api, outputs: Api) -> AsyncIterator[Observation]:
    """Look until the block is left; raises as `open_manager` does.

    `outputs` has a connection for each log that is read.
    """
    host = _ObservingHost(options, api, outputs)
    settings = msgspec.structs.replace(options.settings, dry_run=True, reweight=False)
    directory, port, probes = options.directory, options.port, options.probes
    async with open_manager(directory, settings, host, port=port, probes=probes) as session:
        yield Observation(session, host.looking_since(session.controller.clock.now()))


class _ObservingHost:
    def __init__(self, options: ObservationOptions, api: Api, outputs: Api) -> None:
        self._options, self._api, self._outputs = options, api, outputs
        self._looking: Looking | None = None
        self.name, self.forecasts = "an observer, which changes nothing", False

    def looking_since(self, began: float) -> Looking:
        if self._looking is None:
            self._looking = Looking(began)
        return self._looking

    def backend(self, tokens: Tokens, url: Callable[[], str]) -> ObservingBackend:
        del tokens, url  # no sidecar reports here
        options = self._options
        watch = WatchSettings(namespaces=options.namespaces, selected=options.selector)
        return ObservingBackend(
            self._api, self._outputs, watch, most=options.log_streams, heartbeat=options.heartbeat
        )

    def observe(self, stepped: Stepped) -> None:
        self.looking_since(stepped.now).observe(stepped.before, stepped.after, stepped.now)

    async def log_tail(self, replica: str) -> LogTail:
        return pod_log_tail(replica, None)

    async def is_reported_to(self) -> bool:
        return False

    def read_job(self, body: bytes, state: State) -> JobSpec:
        del body, state
        raise ValueError("this manager only looks: it starts no jobs")

    async def work(self, session: LocalSession) -> None:
        del session
        await asyncio.Event().wait()

    async def end(self) -> None:
        """Nothing to tidy up."""
