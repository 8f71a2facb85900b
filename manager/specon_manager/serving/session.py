"""A manager on this machine put together: state directory, journal, controller, server and backend."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec import Struct
from prometheus_client import CollectorRegistry

from specon_manager import __version__
from specon_manager.backends.base import Backend
from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.jobs import LocalJob, job_spec, read_job
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import JobSubmitted
from specon_manager.model.settings import Settings
from specon_manager.runtime.append_file import DiskFullError, UnwritableError
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Controller, Stepped
from specon_manager.runtime.forecasting import Forecasts
from specon_manager.runtime.journal import NAME, Journal, recover
from specon_manager.runtime.journal_line import SCHEMA
from specon_manager.runtime.memory import JournalMemory
from specon_manager.runtime.metrics import Metrics
from specon_manager.runtime.page.page import Page
from specon_manager.runtime.server import Server
from specon_manager.runtime.state_directory import Address, StateDirectory
from specon_manager.runtime.tokens import Tokens
from specon_manager.serving.former_port import listen
from specon_manager.views.log_tail import LogTail
from specon_manager.views.page import CurveOf

_log = logging.getLogger(__name__)
_HOST: Final = "127.0.0.1"
_SHUTDOWN_GRACE: Final = 5.0


class SessionOptions(Struct, frozen=True, kw_only=True):
    """What a local run is given."""

    directory: Path
    jobs: Sequence[LocalJob]
    settings: Settings
    nodes: tuple[VirtualNode, ...]
    working_directory: Path
    environment: Mapping[str, str]
    samples: Path
    leave_running: bool = False
    """Whether training goes on when the manager is stopped."""
    end_with_manager: bool = False
    """Whether training ends even when the manager is killed."""
    forecasts: bool = False
    """Whether jobs that wait are told when they start: that takes a part of the machine."""
    port: int = 0
    """Port of the HTTP server; 0 takes the one this directory had before, or a free one."""


class Host(Protocol):
    """What a manager on this machine looks after, and how."""

    name: str
    """Of this manager, for the status page."""
    forecasts: bool
    """Whether it is asked when jobs that wait start."""

    def backend(self, tokens: Tokens, url: Callable[[], str]) -> Backend:
        """Return the backend; sidecars report at `url`, which is known once the server listens."""
        ...

    def observe(self, stepped: Stepped) -> None:
        """Look at a step."""
        ...

    async def log_tail(self, replica: str) -> LogTail | None:
        """Return the end of the log of a replica, or where it is; None where nobody knows."""
        ...

    async def is_reported_to(self) -> bool:
        """Whether sidecars run that were started by an earlier manager, and report where it listened."""
        ...

    def read_job(self, body: bytes, state: State) -> JobSpec:
        """Return a submitted job; raises ValueError with every mistake."""
        ...

    async def work(self, session: "LocalSession") -> None:
        """Do the work beside the manager."""
        ...

    async def end(self) -> None:
        """Tidy up once nobody is served any more."""
        ...


class LocalSession:
    """A running manager on this machine."""

    def __init__(
        self,
        controller: Controller,
        began_at: float,
        address: Address,
        viewer: str = "",
        curve_of: CurveOf | None = None,
    ) -> None:
        self.controller = controller
        self.began_at = began_at
        """Begin of the run, on the controller's clock; it lies before this process after a restart."""
        self.address = address
        # Behind `#` it is sent to no server and stands in no log; the page takes it out of the address bar.
        self.page = f"{address.url}/page/#token={viewer}"
        """Link to the status page, which lets see and do nothing."""
        self.curve_of = curve_of
        """The recent past of each replica's metric; None where nobody keeps it."""
        self._changed = asyncio.Event()
        self._all_submitted = False
        controller.observers.append(lambda _: self._changed.set())

    @property
    def over(self) -> bool:
        """Whether every job was submitted and has ended."""
        jobs = self.controller.state.jobs.values()
        return self._all_submitted and all(job.ended_at is not None for job in jobs)

    async def wait_until_finished(self) -> None:
        """Return once every job has ended, those submitted meanwhile included."""
        while not self.over:
            self._changed.clear()
            await self._changed.wait()

    async def submit(self, jobs: Sequence[LocalJob]) -> None:
        """Submit each job at its time; those that an earlier manager submitted are known already."""
        for job in sorted(jobs, key=lambda job: job.submit_at):
            spec = job_spec(job)
            if spec.name in self.controller.state.jobs:
                continue
            await asyncio.sleep(self.began_at + job.submit_at - self.controller.clock.now())
            self.controller.post(JobSubmitted(spec))
            while spec.name not in self.controller.state.jobs:
                self._changed.clear()
                await self._changed.wait()
        self._all_submitted = True
        self._changed.set()


@contextlib.asynccontextmanager
async def open_session(options: SessionOptions) -> AsyncIterator[LocalSession]:
    """Run the jobs on this machine until the block is left; see `open_manager`."""
    host = _LocalHost(options)
    async with open_manager(options.directory, options.settings, host, port=options.port) as session:
        yield session


@contextlib.asynccontextmanager
async def open_manager(
    path: Path, settings: Settings, host: Host, *, port: int = 0, probes: tuple[str, int] | None = None
) -> AsyncIterator[LocalSession]:
    """Take the directory, take up what an earlier manager left there, and run until the block is left.

    `port` of the server on loopback: 0 takes the one this directory had before, or a free one. Probes and
    metrics are answered at `probes` besides. Raises DirectoryBusyError, NotOursError, JournalError,
    DiskFullError, UnwritableError, OSError. A failure of the running manager ends the block and is raised;
    what still waits for room on the disk at the end raises DiskFullError.
    """
    directory = StateDirectory(path)
    try:
        recovered = recover(directory.path / NAME)
        clock = Clock(0.0 if recovered is None else recovered.last_at)
        began_at = clock.now() if recovered is None else recovered.began_at
        state = State(settings=settings) if recovered is None else recovered.state
        journal = Journal(directory.path / NAME, began_at=began_at, version=__version__)
        if recovered is None:
            journal.begin(state)
        else:
            _log.info("took up %d steps of an earlier manager", recovered.steps)
            if recovered.schema != SCHEMA:
                _log.info("that was of version 0.1: a new journal is begun, the former one is %s.1", NAME)
                journal.begin_anew(state, recovered.last_at)
        try:
            kept = _Kept(directory, settings, state, journal, clock, began_at, port, probes)
            async with _serving(host, kept) as session:
                yield session
        except BaseExceptionGroup as several:
            with contextlib.suppress(DiskFullError, UnwritableError):
                journal.close()
            # Of the two tasks of a manager the first that fails ends the other.
            raise several.exceptions[0] from several
        except BaseException:
            with contextlib.suppress(DiskFullError, UnwritableError):
                journal.close()
            raise
        try:
            journal.close()
        except DiskFullError as error:
            raise DiskFullError(f"{error}: only the last, unanswered steps are not on record") from error
    finally:
        directory.release()


class _Kept(NamedTuple):
    """What the directory holds, and how it is to go on."""

    directory: StateDirectory
    settings: Settings
    state: State
    journal: Journal
    clock: Clock
    began_at: float
    port: int
    probes: tuple[str, int] | None


@contextlib.asynccontextmanager
async def _serving(host: Host, kept: _Kept) -> AsyncIterator[LocalSession]:
    tokens = Tokens(kept.directory.path)
    registry = CollectorRegistry()
    url = ""
    backend = host.backend(tokens, lambda: url)
    controller = Controller(
        state=kept.state, memory=JournalMemory(kept.journal), backend=backend, clock=kept.clock
    )
    controller.observers += [Metrics(registry).observe, host.observe]
    page = Page(tokens.may_view, manager=host.name)
    page.controller = controller
    page.show_logs(host.log_tail)
    server = Server(controller, tokens, registry, host.read_job, routes=page.routes)
    port = await listen(server, _HOST, kept.port, kept.directory.former_port(), host.is_reported_to)
    if kept.probes is not None:
        await server.start_probes(*kept.probes)
    address = kept.directory.publish(_HOST, port)
    url = address.url
    session = LocalSession(controller, kept.began_at, address, tokens.viewer, page.curve_of)
    forecasts = Forecasts(lambda: controller.state, controller.clock.now, changed=page.tell_changed)
    server.show_starts(forecasts.tell)
    page.show_starts(forecasts.tell)
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(controller.run(f"{os.uname().nodename}/{os.getpid()}", kept.settings))
            beside = [group.create_task(host.work(session))]
            if host.forecasts:
                beside.append(group.create_task(forecasts.run()))
            try:
                yield session
            finally:
                for task in (running, *beside):
                    task.cancel()
    finally:
        page.close()
        await server.stop()
        await host.end()


class _LocalHost:
    """Runs jobs on the virtual nodes of this machine."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._backend: LocalBackend | None = None
        self.name, self.forecasts = f"this machine ({os.uname().nodename})", options.forecasts

    def backend(self, tokens: Tokens, url: Callable[[], str]) -> LocalBackend:
        options = self._options
        settings = LocalSettings(
            directory=options.directory.resolve(),
            nodes=options.nodes,
            working_directory=options.working_directory,
            environment=options.environment,
            samples=options.samples,
            end_with_manager=options.end_with_manager,
        )
        self._backend = LocalBackend(settings, manager_url=url, token=tokens.sidecar)
        return self._backend

    def observe(self, stepped: Stepped) -> None:
        if self._backend is not None:
            self._backend.observe(stepped.after, stepped.now)

    async def log_tail(self, replica: str) -> LogTail | None:
        return None if self._backend is None else await self._backend.log_tail(replica)

    async def is_reported_to(self) -> bool:
        return self._backend is not None and await self._backend.has_pods()

    def read_job(self, body: bytes, state: State) -> JobSpec:
        return read_submitted_job(body, state)

    async def work(self, session: LocalSession) -> None:
        await session.submit(self._options.jobs)

    async def end(self) -> None:
        if self._backend is not None and not self._options.leave_running:
            await self._backend.evict_all(_SHUTDOWN_GRACE)


def read_submitted_job(body: bytes, state: State) -> JobSpec:
    """Return what `specon submit` sends as a job; raises ValueError with every mistake."""
    del state
    return job_spec(read_job(body))
