"""A local manager put together: state directory, journal, controller, server and backend."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry

from specon_manager import __version__
from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.jobs import LocalJob, job_spec, read_job
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import JobSubmitted
from specon_manager.model.settings import Settings
from specon_manager.runtime.append_file import DiskFullError, UnwritableError
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Controller
from specon_manager.runtime.journal import NAME, Journal, recover
from specon_manager.runtime.journal_line import SCHEMA
from specon_manager.runtime.memory import JournalMemory
from specon_manager.runtime.metrics import Metrics
from specon_manager.runtime.page.page import Page
from specon_manager.runtime.server import Server
from specon_manager.runtime.state_directory import Address, StateDirectory
from specon_manager.runtime.tokens import Tokens

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
    port: int = 0
    """Port of the HTTP server; 0 takes the one this directory had before, or a free one."""


class Session:
    """A running local manager."""

    def __init__(self, controller: Controller, began_at: float, address: Address, viewer: str = "") -> None:
        self.controller = controller
        self.began_at = began_at
        """Begin of the run, on the controller's clock; it lies before this process after a restart."""
        self.address = address
        # Behind `#` it is sent to no server and stands in no log; the page takes it out of the address bar.
        self.page = f"{address.url}/page/#token={viewer}"
        """Link to the status page, which lets see and do nothing."""
        self._changed = asyncio.Event()
        self._all_submitted = False
        controller.observers.append(lambda _: self._changed.set())

    @property
    def over(self) -> bool:
        """Whether every job was submitted and has ended."""
        jobs = self.controller.state.jobs.values()
        return self._all_submitted and all(job.ended_at is not None for job in jobs)

    async def finished(self) -> None:
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
async def open_session(options: SessionOptions) -> AsyncIterator[Session]:
    """Take the directory, take up what an earlier manager left there, and run until the block is left.

    Raises DirectoryBusyError, NotOursError, JournalError, DiskFullError, UnwritableError, OSError. A failure
    of the running manager ends the block and is raised; what still waits for room on the disk at the end
    raises DiskFullError.
    """
    directory = StateDirectory(options.directory)
    try:
        recovered = recover(directory.path / NAME)
        clock = Clock(0.0 if recovered is None else recovered.last_at)
        began_at = clock.now() if recovered is None else recovered.began_at
        state = State(settings=options.settings) if recovered is None else recovered.state
        journal = Journal(directory.path / NAME, began_at=began_at, version=__version__)
        if recovered is None:
            journal.begin(state)
        else:
            _log.info("took up %d steps of an earlier manager", recovered.steps)
            if recovered.schema != SCHEMA:
                _log.info("that was of version 0.1: a new journal is begun, the former one is %s.1", NAME)
                journal.begin_anew(state, recovered.last_at)
        try:
            async with _serving(options, directory, state, journal, clock, began_at=began_at) as session:
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
            raise DiskFullError(f"{error}: the last steps are not on record; what was answered is") from error
    finally:
        directory.release()


@contextlib.asynccontextmanager
async def _serving(
    options: SessionOptions,
    directory: StateDirectory,
    state: State,
    journal: Journal,
    clock: Clock,
    *,
    began_at: float,
) -> AsyncIterator[Session]:
    tokens = Tokens(directory.path)
    registry = CollectorRegistry()
    url = ""
    backend = LocalBackend(
        LocalSettings(
            directory=options.directory.resolve(),
            nodes=options.nodes,
            working_directory=options.working_directory,
            environment=options.environment,
            samples=options.samples,
            end_with_manager=options.end_with_manager,
        ),
        manager_url=lambda: url,
        token=tokens.sidecar,
    )
    controller = Controller(state=state, memory=JournalMemory(journal), backend=backend, clock=clock)
    controller.observers.append(Metrics(registry).observe)
    controller.observers.append(lambda step: backend.observe(step.after))
    page = Page(tokens.may_view, manager=f"this machine ({os.uname().nodename})")
    page.controller = controller
    server = Server(controller, tokens, registry, _reader_of_jobs, routes=page.routes)
    port = await server.start(_HOST, options.port or directory.former_port())
    address = directory.publish(_HOST, port)
    url = address.url
    session = Session(controller, began_at, address, tokens.viewer)
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(
                controller.run(f"{os.uname().nodename}/{os.getpid()}", options.settings)
            )
            submitting = group.create_task(session.submit(options.jobs))
            try:
                yield session
            finally:
                submitting.cancel()
                running.cancel()
    finally:
        page.close()
        await server.stop()
        if not options.leave_running:
            await backend.evict_all(_SHUTDOWN_GRACE)


def _reader_of_jobs(body: bytes, state: State) -> JobSpec:
    """Turn what `specon submit` sends into a job."""
    del state
    return job_spec(read_job(body))
