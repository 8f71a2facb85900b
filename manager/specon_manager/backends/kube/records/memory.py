"""The memory of the manager in custom resources: orders are written before they are given, the rest soon."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.answers import Answers
from specon_manager.backends.kube.records.decoding import Problem
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.housekeeping import Housekeeping
from specon_manager.backends.kube.records.job_record import Recorded, flying_of, read_training_job
from specon_manager.backends.kube.records.migration_record import Migrated, read_migration
from specon_manager.backends.kube.records.move_records import MoveRecords
from specon_manager.backends.kube.records.progress_record import Progressed, read_progress
from specon_manager.backends.kube.records.progress_writer import ProgressWriter
from specon_manager.backends.kube.records.queued import QueuedRequests
from specon_manager.backends.kube.records.record_writer import RecordWriter
from specon_manager.backends.kube.records.restore import Restored, restore
from specon_manager.backends.kube.records.training_jobs import ForecastOf, TrainingJobs
from specon_manager.backends.kube.records.waits import Waits
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import (
    MIGRATIONS,
    TRAINING_JOBS,
    TRAINING_PROGRESSES,
    Object,
    OwnerOf,
    Resource,
)
from specon_manager.core.state import State
from specon_manager.model.actions import Action
from specon_manager.model.cluster import job_of
from specon_manager.model.events import (
    Event,
    InstructionDelivered,
    NodeObserved,
    ReplicaGone,
    ReplicaStarted,
    ReportReceived,
)
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Transaction, TransactionState

_log = logging.getLogger(__name__)


class ClusterMemory:
    """Migrations, TrainingJobs and TrainingProgress objects, the only memory of a manager on Kubernetes.

    Exactly one object holds a transaction: a Migration the move of a replica, the TrainingJob of its job
    whatever is about all of it. It is
    written through with its resourceVersion before anything is ordered because of it; while the API is away
    nothing is ordered. Each that is open carries the identity of the manager that wrote it last, and a new
    manager begins by writing its own into each: so an old one that wakes up finds out. One of these serves
    one term of leadership.
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
        start_of: ForecastOf = lambda _job, _now: None,
        namespaces: Collection[str] = (),
        progress_seconds: float = 60.0,
        writes_per_second: float = 20.0,
        burst: int = 100,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        wrote: Callable[[Resource, Object], None] = lambda _resource, _item: None,
    ) -> None:
        """Remember as the manager called `identity`, for as long as `holds` says that it leads.

        `pod_of` names the pod of a replica, for people, `owner_of` refers to what creates the pods of a job.
        With `namespaces`, all others are another manager's. Mere steps and losses are written every
        `progress_seconds`; `writes_per_second` and `burst` bound the writes of TrainingProgress objects, and
        half as many those of TrainingJobs. `wrote` is told of each record that was written.
        """
        self._api, self._namespaces, self._wall = api, frozenset(namespaces), wall
        rng = rng or random.Random()  # noqa: S311  (jitter, not cryptography)
        self._writer = RecordWriter(api, identity=identity, holds=holds, sleep=sleep, rng=rng, wrote=wrote)
        self._housekeeping = Housekeeping(api, holds=holds, sleep=sleep)
        self._moves = MoveRecords(self._writer, self._housekeeping, identity=identity)
        self._jobs = TrainingJobs(
            self._writer,
            identity=identity,
            holds=holds,
            owner_of=owner_of,
            waits=waits or Waits(),
            start_of=start_of,
            seconds=progress_seconds,
            rate=Rate(writes_per_second / 2, max(1, burst // 2), sleep=sleep),
            rng=rng,
        )
        self._progress = ProgressWriter(
            api,
            holds=holds,
            pod_of=pod_of,
            seconds=progress_seconds,
            rate=Rate(writes_per_second, burst, sleep=sleep),
            rng=rng,
        )
        self._queued = QueuedRequests(
            api, holds=holds, rate=Rate(writes_per_second / 2, burst, sleep=sleep), rng=rng
        )
        self._answers = Answers(
            api,
            self._housekeeping,
            identity=identity,
            holds=holds,
            rate=Rate(writes_per_second / 2, burst, sleep=sleep),
            rng=rng,
        )
        self._recorded: dict[str, Transaction] = {}
        """The transactions in flight as they are on record, by id."""
        self._deleted: set[Name] = set()
        """Migrations that somebody deleted, and nobody has looked at since."""
        self._refused: dict[str, str] = {}
        """Ids in flight that could not be recorded, each with the reason."""
        self._ended: set[str] = set()
        """Ids in the history that was last committed."""
        self._history: Sequence[Transaction] = ()
        self._now = 0.0
        self._scan = True
        self._heard: set[str] = set()
        self.last_at = 0.0
        """The latest time that was written down; the manager's clock must not begin before it."""

    # -- what the controller asks for ------------------------------------------------------------

    def note(self, now: float, event: Event, actions: Sequence[Action]) -> None:
        """Take note of the replicas and jobs that may have changed."""
        del actions
        self._now = now
        if isinstance(event, ReportReceived):
            self._heard.add(event.report.replica)
        elif isinstance(event, ReplicaStarted | ReplicaGone):
            self._jobs.touch(job_of(event.replica))
            self._scan = True
        elif not isinstance(event, InstructionDelivered | NodeObserved):
            self._scan = True

    def note_deleted(self, name: Name) -> None:
        """Take note that a Migration is gone: that of a move in flight is written again at the next commit.

        The next leader would not know of the move otherwise, nor how to create its bare pod again.
        """
        self._deleted.add(name)

    async def commit(self, state: State, *, acting: bool) -> Mapping[str, str]:
        """Write every transaction that went on; returns once that is done, however long the API is away.

        Raises NotLeadingError, and ApiError where one that was begun can be recorded no more.
        """
        del acting  # these are few: each step of one is written at once
        lost = self._moves.find_moves(self._deleted)
        self._deleted.clear()
        flying = [
            each
            for each in state.transactions.values()
            if each.id not in self._refused and (self._recorded.get(each.id) != each or each.id in lost)
        ]
        over = self._newly_ended(state)
        self._moves.follow(state, self._now)
        begun = [each for each in over if not (each.whole and each.state is TransactionState.REFUSED)]
        for each in begun:
            if each.whole:
                self._jobs.note_ended(each)
        moves = [each for each in (*over, *flying) if not each.whole]
        jobs = dict.fromkeys(each.job for each in (*begun, *flying) if each.whole)
        writes = [self._write_move(each, state) for each in moves]
        writes += [self._write_job(name, over, state) for name in jobs if name in state.jobs]
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        self._recorded = {
            name: each for name, each in state.transactions.items() if name not in self._refused
        }
        self._refused = {name: why for name, why in self._refused.items() if name in state.transactions}
        self._moves.forget_manifests(state)
        # Last: no TrainingProgress is to be ahead of what it is read with.
        self._tell_progress(state)
        self._jobs.tell(state, self._now)
        self._queued.tell(state.requests)
        self._answers.tell(state, over, self._now)
        return {name: why for name, why in self._refused.items() if state.transactions[name].attempt == 1}

    async def run(self) -> None:
        """Keep the records written in the background up to date, and old Migrations few, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._progress.due.run())
            group.create_task(self._jobs.due.run())
            group.create_task(self._queued.due.run())
            group.create_task(self._answers.due.run())
            group.create_task(self._housekeeping.run())

    async def _write_move(self, move: Transaction, state: State) -> None:
        begun = move.id in self._recorded
        why = await self._moves.write(move, state, self._now, begun=begun)
        if why and move.in_flight and not begun:
            self._refused[move.id] = why

    async def _write_job(self, name: str, over: Sequence[Transaction], state: State) -> None:
        """Write the transaction in flight of a job as a whole, or the one that has just ended."""
        flying = flying_of(name, state)
        told = [flying] if flying is not None else [each for each in over if each.job == name]
        begun = any(each.id in self._recorded for each in told)
        why = await self._jobs.write(name, state, self._now, begun=begun)
        if why and flying is not None and not begun:
            self._refused[flying.id] = why

    def _tell_progress(self, state: State) -> None:
        if self._scan:
            self._progress.update(state.replicas, self._now)
        else:
            for name in self._heard:
                if (replica := state.replicas.get(name)) is not None:
                    self._progress.touch(name, replica, self._now)
        self._scan = False
        self._heard.clear()

    def _newly_ended(self, state: State) -> list[Transaction]:
        if state.history is self._history:
            return []
        over = [each for each in state.history if each.id not in self._ended]
        self._history, self._ended = state.history, {each.id for each in state.history}
        return over

    # -- what the backend asks for ---------------------------------------------------------------

    async def keep_manifest(self, replica: str, manifest: Object) -> None:
        """Return once the manifest of a bare pod that moves is on record: before the pod is deleted.

        Raises LookupError where no move of the replica is on record, ValueError where the manifest
        is too long.
        """
        await self._moves.keep_manifest(replica, manifest)

    def read_manifest(self, replica: str) -> Object | None:
        """Return the manifest of a bare pod that was deleted for a move and is to be created again."""
        return self._moves.read_manifest(replica)

    def reference(self, replica: str) -> Object | None:
        """Return an owner reference to the record of the move in flight, for objects made for it."""
        if (found := self._moves.reference(replica)) is not None:
            return found
        whole = any(each.whole and replica in each.after for each in self._recorded.values())
        return self._jobs.reference(job_of(replica)) if whole else None

    def is_answered(self, request: str) -> bool:
        """Whether the Migration of that name is told what becomes of all of a job that it asks for."""
        return request in self._answers

    # -- taking over -----------------------------------------------------------------------------

    async def load(self, settings: Settings) -> State:
        """Return the state that the custom resources tell of, once every open record carries our identity.

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
        state = restored.state
        self.last_at = restored.last_at
        self._now = max(self._wall(), restored.last_at)
        for progress in progresses:
            self._progress.note_known(progress.replica, checkpoint_at=progress.checkpoint_at)
        self._recorded = dict(state.transactions)
        self._history, self._ended = state.history, {each.id for each in state.history}
        self._scan = True
        return state

    async def _read(self) -> tuple[list[Progressed], list[Migrated], list[Recorded]]:
        progresses, migrations, jobs, problems = [], [], [], []
        async for item in self._items(TRAINING_PROGRESSES):
            with self._api.reading.of(TRAINING_PROGRESSES.kind, _name_call(item)):
                progress, wrong = read_progress(item)
                problems += wrong
                if progress is not None:
                    progresses.append(progress)
        async for item in self._items(MIGRATIONS):
            with self._api.reading.of(MIGRATIONS.kind, _name_call(item)):
                migration, wrong = read_migration(item)
                problems += wrong
                migrations.append(migration)
        try:
            async for item in self._items(TRAINING_JOBS):
                with self._api.reading.of(TRAINING_JOBS.kind, _name_call(item)):
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
        """Write our identity into every open record; False where one changed since it was read."""
        state, whole = restored.state, restored.whole
        by_name = {each.name: each for each in migrations}
        try:
            for name, found in restored.open.items():
                self._now = max(self._now, self._wall())
                await self._moves.take(state.transactions[name], found, state, self._now)
            for closing in restored.closings:
                await self._moves.close(closing, by_name[closing.name], self._wall())
            self._now = max(self._now, self._wall())
            open_jobs = (*whole.transactions, *whole.closed)
            await self._jobs.take_over(whole.by_job, open_jobs, state, self._now)
        except ApiError as error:
            if error.conflict or error.not_found:
                return False
            raise
        self._moves.follow(state, self._now)
        self._answers.begin(state, migrations, self._now)
        self.problems = (*self.problems, *restored.problems)
        for problem in self.problems:
            _log.warning("%s", problem)
        self._tidy(restored, migrations)
        return True

    def _tidy(self, restored: Restored, migrations: Sequence[Migrated]) -> None:
        """Keep ended records of earlier managers as our own: for a while, and as long as they are needed."""
        closed = {closing.name: closing.state for closing in restored.closings}
        for each in sorted(migrations, key=lambda each: each.created_at):
            move = each.transaction
            apart = each.status.job is not None and each.status.ended_at is not None
            if each.name in closed or apart or (move is not None and not move.in_flight):
                at = each.created_at if move is None or move.ended_at is None else move.ended_at
                self._housekeeping.note_ended(each.about, at, each.name, each.uid)
            if each.replica is not None and each.status.manifest is not None:
                failed = closed.get(each.name, each.status.state) is MoveState.FAILED
                self._moves.remember(each, restored.state, failed=failed)


def _name_call(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
