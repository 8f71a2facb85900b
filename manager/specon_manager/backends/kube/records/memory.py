"""The memory of the manager in custom resources: what is ordered is written before, the rest soon."""

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from specon_manager.backends.kube.records.housekeeping import Housekeeping
from specon_manager.backends.kube.records.job_memory import JobMemory, OwnerOf
from specon_manager.backends.kube.records.job_record import Recorded, read_training_job
from specon_manager.backends.kube.records.lenient import Problem
from specon_manager.backends.kube.records.migration_record import MANIFEST_BYTES, Migrated, read_migration
from specon_manager.backends.kube.records.migration_writer import Kept, MigrationWriter
from specon_manager.backends.kube.records.names import Name, migration_name
from specon_manager.backends.kube.records.progress_record import Progressed, read_progress
from specon_manager.backends.kube.records.progress_writer import ProgressWriter
from specon_manager.backends.kube.records.restore import Restored, restore
from specon_manager.backends.kube.records.waits import Waits
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import (
    MIGRATIONS,
    TRAINING_JOBS,
    TRAINING_PROGRESSES,
    Object,
    Resource,
)
from specon_manager.core.state import State
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Phase
from specon_manager.model.events import (
    Event,
    InstructionDelivered,
    NodeObserved,
    ReplicaGone,
    ReplicaStarted,
    ReportReceived,
)
from specon_manager.model.moves import Move, MoveState
from specon_manager.model.settings import Settings

_log = logging.getLogger(__name__)
_HOSTNAME: Final = "kubernetes.io/hostname"


class ClusterMemory:
    """Migrations, TrainingJobs and TrainingProgress objects, the only memory of a manager on Kubernetes.

    A Migration, or a TrainingJob with a change in flight, is written through with its resourceVersion before
    anything is ordered because of it; while the API is away nothing is ordered. Every one that is open
    carries the identity of the manager that wrote it last, and a new manager begins by writing its own into
    each: so an old one that wakes up finds out. One of these serves one term of leadership.
    """

    problems: tuple[Problem, ...] = ()
    """What made no sense when the state was loaded."""

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        holds: Callable[[], bool] = lambda: True,
        pod_of: Callable[[str], str | None] = lambda _: None,
        owner_of: OwnerOf = lambda _: None,
        waits: Waits | None = None,
        namespaces: Collection[str] = (),
        progress_seconds: float = 60.0,
        writes_per_second: float = 20.0,
        burst: int = 100,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """Remember as the manager called `identity`, for as long as `holds` says that it leads.

        `pod_of` names the pod of a replica, for people, `owner_of` refers to what creates the pods of a job.
        With `namespaces`, what is in others is another manager's. Mere steps and losses are written every
        `progress_seconds`; `writes_per_second` and `burst` bound the writes of TrainingProgress objects, and
        half as many those of TrainingJobs.
        """
        self._api = api
        self._namespaces = frozenset(namespaces)
        self._wall = wall
        rng = rng or random.Random()  # noqa: S311  (jitter, not cryptography)
        self._writer = MigrationWriter(api, identity=identity, holds=holds, sleep=sleep, rng=rng)
        self._kept: dict[str, Kept] = {}
        self._open: dict[str, str] = {}
        """Id of the move in flight, by replica."""
        self._ended: set[str] = set()
        """Ids in the history that was last committed."""
        self._history: Sequence[Move] = ()
        self._manifests: dict[str, tuple[Name, str]] = {}
        """Bare pods that are to be created again, by replica, each with the Migration that has it."""
        self._now = 0.0
        self._scan = True
        self._heard: set[str] = set()
        self._progress = ProgressWriter(
            api,
            holds=holds,
            pod_of=pod_of,
            seconds=progress_seconds,
            rate=Rate(writes_per_second, burst, sleep=sleep),
            rng=rng,
        )
        self._jobs = JobMemory(
            api,
            identity=identity,
            holds=holds,
            owner_of=owner_of,
            waits=waits or Waits(),
            seconds=progress_seconds,
            rate=Rate(writes_per_second / 2, max(1, burst // 2), sleep=sleep),
            sleep=sleep,
            rng=rng,
        )
        self._housekeeping = Housekeeping(api, holds=holds, sleep=sleep)
        self.last_at = 0.0
        """The latest time that was written down; the manager's clock must not begin before it."""

    # -- what the controller asks for ------------------------------------------------------------

    def note(self, now: float, event: Event, actions: Sequence[Action]) -> None:
        """Take note of which replicas and jobs may have changed."""
        del actions
        self._now = now
        if isinstance(event, ReportReceived):
            self._heard.add(event.report.replica)
        elif isinstance(event, ReplicaStarted | ReplicaGone):
            self._jobs.touch("/".join(event.replica.split("/")[:2]))
            self._scan = True
        elif not isinstance(event, InstructionDelivered | NodeObserved):
            self._scan = True

    async def commit(self, state: State, *, acting: bool) -> Mapping[str, str]:
        """Write every move and change that went on; returns once that is done, however long the API is away.

        Raises NotLeadingError, and ApiError where one that was begun can be recorded no more.
        """
        del acting  # these are few: each step of one is written at once
        not_begun = await self._jobs.commit(state, self._now)
        changed = [
            move
            for move in state.moves.values()
            if move.id not in self._kept or self._kept[move.id].move != move
        ]
        over = self._newly_ended(state)
        for move in (*changed, *over):
            kept = self._kept.get(move.id)
            if kept is None:
                kept = self._kept[move.id] = Kept(migration_name(move), move, None)
            kept.move, kept.replica = move, state.replicas.get(move.replica)
            kept.hostname = self._hostname(kept, state)
        self._open = {move.replica: move.id for move in state.moves.values()}
        for move in over:
            self._drop_manifest_unless_failed(self._kept[move.id])
        written = [
            self._writer.write(self._kept[move.id], now=self._now, measured=state.measured)
            for move in (*changed, *over)
        ]
        outcomes = await asyncio.gather(*written, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        refused = {move.id: self._kept[move.id].refused for move in changed if self._kept[move.id].refused}
        for move in over:
            kept = self._kept.pop(move.id)
            if kept.uid:
                self._housekeeping.ended(move.replica, move.ended_at or self._now, kept.name, kept.uid)
        self._forget_manifests(state)
        # Last: no TrainingProgress is to be ahead of the Migration that it is read with.
        self._tell_progress(state)
        self._jobs.tell(state, self._now)
        return {**refused, **not_begun}

    async def run(self) -> None:
        """Keep what is written in the background up to date, and old Migrations few, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._progress.run())
            group.create_task(self._jobs.run())
            group.create_task(self._housekeeping.run())

    def _tell_progress(self, state: State) -> None:
        if self._scan:
            self._progress.update(state.replicas, self._now)
        else:
            for name in self._heard:
                if (replica := state.replicas.get(name)) is not None:
                    self._progress.touch(name, replica, self._now)
        self._scan = False
        self._heard.clear()

    def _newly_ended(self, state: State) -> list[Move]:
        if state.history is self._history:
            return []
        over = [move for move in state.history if move.id not in self._ended]
        self._history, self._ended = state.history, {move.id for move in state.history}
        return over

    def _hostname(self, kept: Kept, state: State) -> tuple[str, str]:
        destination = kept.move.destination
        node = state.nodes.get(destination)
        if node is None and kept.hostname is not None and kept.hostname[0] == destination:
            return kept.hostname
        return destination, (destination if node is None else node.labels.get(_HOSTNAME, destination))

    # -- what the backend asks for ---------------------------------------------------------------

    async def keep_manifest(self, replica: str, manifest: Object) -> None:
        """Return once the manifest of a bare pod that moves is on record: before the pod is deleted.

        Raises LookupError where no move of the replica is on record, ValueError where the manifest
        is too long.
        """
        kept = self._kept.get(self._open.get(replica, ""))
        if kept is None or kept.gone or kept.refused:
            raise LookupError(f"no move of {replica} is on record")
        text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=True)
        if len(text) > MANIFEST_BYTES:
            raise ValueError(f"the manifest of {replica} has {len(text)} bytes, more than {MANIFEST_BYTES}")
        kept.manifest = text
        self._manifests[replica] = (kept.name, text)
        await self._writer.write(kept, now=self._now)

    def kept_manifest(self, replica: str) -> Object | None:
        """Return the manifest of a bare pod that was deleted for a move and is to be created again."""
        held = self._manifests.get(replica)
        if held is None:
            return None
        try:
            manifest = json.loads(held[1])
        except ValueError:
            return None  # edited by hand
        return manifest if isinstance(manifest, dict) else None

    def reference(self, replica: str) -> Object | None:
        """Return an owner reference to the Migration of the move in flight, for what is made for it."""
        kept = self._kept.get(self._open.get(replica, ""))
        if kept is None or not kept.uid:
            return None
        return {
            "apiVersion": MIGRATIONS.api_version,
            "kind": MIGRATIONS.kind,
            "name": kept.name.name,
            "uid": kept.uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }

    def _drop_manifest_unless_failed(self, kept: Kept) -> None:
        """Forget the manifest, but after a move that failed: the pod has still to be created."""
        if kept.move.state is not MoveState.FAILED:
            kept.manifest = None
            self._manifests.pop(kept.move.replica, None)

    def _forget_manifests(self, state: State) -> None:
        for name in list(self._manifests):
            replica = state.replicas.get(name)
            if name not in self._open and (replica is None or replica.phase is not Phase.STARTING):
                migration, _ = self._manifests.pop(name)
                self._housekeeping.without_manifest(migration)

    # -- taking over -----------------------------------------------------------------------------

    async def load(self, settings: Settings) -> State:
        """Return the state that the custom resources tell of, once every open Migration carries our identity.

        Waits while the API is away. Raises NotLeadingError, and ApiError where the API refuses to say it.
        """
        pauses = self._writer.pauses()
        while True:
            try:
                progresses, migrations, jobs = await self._read()
                # In a thread: ten thousand replicas take their time, and health is asked for meanwhile.
                restored = await asyncio.to_thread(
                    restore, progresses, migrations, settings, self._wall(), recorded=jobs
                )
                if await self._take_over(restored, migrations):
                    break
            except ApiUnavailableError as error:
                _log.warning("the state cannot be read yet: %s", error)
            except ApiError as error:
                if not (error.throttled or error.expired):
                    raise
                _log.warning("the state cannot be read yet: %s", error)
            await pauses.next()
        self.last_at = restored.last_at
        self._now = max(self._wall(), restored.last_at)
        for progress in progresses:
            self._progress.known(progress.replica, checkpoint_at=progress.checkpoint_at)
        self._history = restored.state.history
        self._ended = {move.id for move in self._history}
        self._scan = True
        return restored.state

    async def _read(self) -> tuple[list[Progressed], list[Migrated], list[Recorded]]:
        progresses, migrations, jobs, problems = [], [], [], []
        async for item in self._items(TRAINING_PROGRESSES):
            with self._api.reading.of(TRAINING_PROGRESSES.kind, _called(item)):
                progress, wrong = read_progress(item)
                problems += wrong
                if progress is not None:
                    progresses.append(progress)
        async for item in self._items(MIGRATIONS):
            with self._api.reading.of(MIGRATIONS.kind, _called(item)):
                migration, wrong = read_migration(item)
                problems += wrong
                migrations.append(migration)
        try:
            async for item in self._items(TRAINING_JOBS):
                with self._api.reading.of(TRAINING_JOBS.kind, _called(item)):
                    job, wrong = read_training_job(item)
                    problems += wrong
                    if job is not None:
                        jobs.append(job)
        except ApiError as error:
            if not error.not_found:
                raise
            # Helm installs no custom resource that came with a later chart.
            _log.warning("there are no TrainingJobs here, nothing is admitted or scaled: %s", error)
        self.problems = tuple(problems)
        return progresses, migrations, jobs

    async def _items(self, resource: Resource) -> AsyncIterator[Object]:
        async for page, _ in self._api.pages(resource):
            for item in filter(self._is_ours, page):
                yield item

    def _is_ours(self, item: Object) -> bool:
        return not self._namespaces or item["metadata"].get("namespace") in self._namespaces

    async def _take_over(self, restored: Restored, migrations: Sequence[Migrated]) -> bool:
        """Write our identity into every open Migration; False where one changed since it was read."""
        state = restored.state
        by_name = {each.name: each for each in migrations}
        self._kept = {}
        try:
            for move in state.moves.values():
                await self._take(move, restored.open[move.replica], state)
            for closing in restored.closings:
                await self._writer.close(closing, by_name[closing.name], self._wall())
            self._now = max(self._now, self._wall())
            await self._jobs.take_over(restored.jobs, state, self._now)
        except ApiError as error:
            if error.conflict or error.not_found:
                return False
            raise
        self._open = {move.replica: move.id for move in state.moves.values()}
        self.problems = (*self.problems, *restored.problems)
        for problem in self.problems:
            _log.warning("%s", problem)
        closed = {closing.name for closing in restored.closings}
        for each in sorted(migrations, key=lambda each: each.created_at):
            over = each.name in closed or (each.move is not None and not each.move.in_flight)
            if over:
                ended_at = None if each.move is None else each.move.ended_at
                at = each.created_at if ended_at is None else ended_at
                self._housekeeping.ended(each.replica or "", at, each.name, each.uid)
            if each.replica is not None and each.status.manifest is not None:
                self._remember_manifest(each, state)
        return True

    def _remember_manifest(self, each: Migrated, state: State) -> None:
        """Keep what an earlier manager had kept, where it is still needed."""
        assert each.replica is not None
        assert each.status.manifest is not None
        replica = state.replicas.get(each.replica)
        moving = state.moves.get(each.replica)
        if moving is not None and each.move is not None and moving.id != each.move.id:
            return
        if moving is not None or (replica is not None and replica.phase is Phase.STARTING):
            self._manifests[each.replica] = (each.name, each.status.manifest)
        else:
            self._housekeeping.without_manifest(each.name)

    async def _take(self, move: Move, found: Migrated, state: State) -> None:
        kept = Kept(found.name, move, state.replicas.get(move.replica))
        kept.uid, kept.version = found.uid, found.version
        kept.manifest = found.status.manifest
        hostname = found.status.destination_hostname
        if hostname is not None and found.status.destination == move.destination:
            kept.hostname = (move.destination, hostname)
        else:
            kept.hostname = (move.destination, move.destination)
        self._now = max(self._now, self._wall())
        await self._writer.replace(kept, now=self._now)
        self._kept[move.id] = kept


def _called(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
