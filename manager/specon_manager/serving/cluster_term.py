"""One term of leadership: everything that only the leader does, from taking over to stepping down."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.backend import KubeBackend, KubeSettings
from specon_manager.backends.kube.background import BrokenError, leaves, name_of_coroutine
from specon_manager.backends.kube.certificates.store import PodAuthorities
from specon_manager.backends.kube.kueue.gatekeeper import Gatekeeper
from specon_manager.backends.kube.kueue.lookout import LocalQueues
from specon_manager.backends.kube.queues.status_writer import QueueStatusWriter
from specon_manager.backends.kube.queues.watch import QueueWatch
from specon_manager.backends.kube.records.memory import ClusterMemory
from specon_manager.backends.kube.records.migrations import MigrationWatch
from specon_manager.backends.kube.records.waits import Waits
from specon_manager.backends.kube.reporting.boosts import Boosts
from specon_manager.backends.kube.reporting.news import words_of
from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.reporting.protections import PROTECTIONS, Protections
from specon_manager.backends.kube.reporting.recorder import Recorder, reference
from specon_manager.backends.kube.reporting.share_news import words_of_turns
from specon_manager.backends.kube.reporting.signal_follower import SignalFollower
from specon_manager.backends.kube.reporting.train_job_status import TrainJobStatusWriter
from specon_manager.backends.kube.reporting.waits_news import words_of_waits
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import POD_RESIZE, PODS, Object, Resource
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from specon_manager.core.pause import set_pause
from specon_manager.core.state import State
from specon_manager.model.events import Paused, Tick
from specon_manager.model.settings import Settings
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Controller, Stepped
from specon_manager.runtime.forecasting import Forecasts
from specon_manager.runtime.metrics import Metrics
from specon_manager.serving.serve_settings import ServeSettings
from specon_manager.views.log_tail import LogTail, pod_log_tail

_log = logging.getLogger(__name__)
_FIRST_WORD: Final = 1
_QUEUES_SECONDS: Final = 60.0

TermTask = Callable[[], Coroutine[Any, Any, None]]


class Term:
    """What a leader has: state from the API, the loop around `step`, and what tells of it."""

    def __init__(
        self,
        settings: ServeSettings,
        api: Api,
        *,
        migrations: MigrationWatch,
        queues: QueueWatch,
        holds: Callable[[], bool],
        trusted: Callable[[], str],
        metrics: Metrics,
        paused: Callable[[], str | None] = lambda: None,
        changed: Callable[[], None] = lambda: None,
        beside: tuple[TermTask, ...] = (),
        local_queues: LocalQueues | None = None,
        wrote: Callable[[Resource, Object], None] = lambda _resource, _item: None,
    ) -> None:
        """Lead while `holds` says so. `trusted` is what sidecars have to trust; `beside` runs as long.

        `paused` is why nothing new is to be ordered, None where it may be: asked when this takes over.
        `changed` is told of news beside the state. `local_queues` are Kueue's, where its Workloads
        wait for checkpoints of those whom they would preempt. `wrote` is told of each written record.
        """
        self._settings, self._api, self._metrics = settings, api, metrics
        self._migrations, self._queues, self._holds = migrations, queues, holds
        self._beside = beside
        self._paused = paused
        self._clock = Clock()
        self._controller: Controller | None = None
        self.forecasts = Forecasts(self._state, self._now, changed=changed)
        self.recorder = Recorder(api, instance=settings.identity)
        self._waits = Waits()
        self._told_waits = self._waits.known
        self._told_turns: Mapping[str, str] = {}
        self._memory = ClusterMemory(
            api,
            identity=settings.identity,
            holds=holds,
            pod_of=self._pod_of,
            owner_of=self._owner_of,
            waits=self._waits,
            start_of=self.forecasts.start_of,
            namespaces=settings.watch_namespaces,
            progress_seconds=settings.progress_seconds,
            wrote=wrote,
        )
        self.backend = KubeBackend(
            api,
            KubeSettings(
                watch=WatchSettings(
                    namespaces=settings.watch_namespaces,
                    kueue_moves=settings.kueue_moves,
                    device_taints="device-taint" in settings.decisions.warnings,
                ),
                rooms=RoomSettings(
                    hold=settings.hold_room,
                    priority_class=settings.placeholder_priority_class or "",
                    guard_class=settings.guard_priority_class or "",
                ),
            ),
            keeper=self._memory,
            holds=holds,
            now=self._now,
            remark=self._remark,
        )
        self._authorities = PodAuthorities(api, trusted, namespaces=settings.watch_namespaces, fence=holds)
        self._train_jobs = TrainJobStatusWriter(
            api,
            self.backend.owner_reference,
            holds=holds,
            seconds=settings.progress_seconds,
            now=self._now,
        )
        self._gatekeeper = (
            None
            if local_queues is None
            else Gatekeeper(
                api,
                settings.preemption_gate,
                local_queues=local_queues,
                recorder=self.recorder,
                owner_of=self.backend.owner_reference,
                holds=holds,
            )
        )
        courtesies = [name for name in settings.signals if name not in PROTECTIONS]
        self._signals = SignalFollower(api, courtesies, self.backend.subjects)
        self._boosts = Boosts(api, courtesies, self.backend.owner_reference, holds=holds)
        self._protections = Protections(api, settings.signals, self.backend.subjects, holds=holds)

    def _state(self) -> State:
        return State() if self._controller is None else self._controller.state

    def _now(self) -> float:
        """Return the time by which the controller goes: that of checkpoints too."""
        return self._clock.now()

    async def run(self, serve: Callable[[Controller | None], None]) -> None:
        """Take over and lead until cancelled; `serve` is told whom reports are for.

        Raises NotLeadingError once another manager leads, and whatever broke one of the parts.
        """
        decisions = await self._decisions()
        state = await self._memory.load(decisions)
        clock = self._clock = Clock(self._memory.last_at)
        state, _ = set_pause(state, Paused(reason=self._paused()), clock.now())
        controller = Controller(state=state, memory=self._memory, backend=self.backend, clock=clock)
        self._controller = controller
        controller.observers += [self._metrics.observe, self._tell]
        counts = len(state.replicas), len(state.transactions)
        _log.info("took over %d replicas and %d transactions in flight", *counts)
        serve(controller)
        try:
            async with asyncio.TaskGroup() as group:
                for work in self._parts(controller, decisions):
                    group.create_task(_unending(work))
        except BaseExceptionGroup as several:
            # Whatever else broke at the same time: who does not lead any more has nothing to put right.
            deposed = next((error for error in leaves(several) if isinstance(error, NotLeadingError)), None)
            if deposed is None:
                raise
            raise deposed from None
        finally:
            serve(None)
            self._metrics.forget()

    async def _decisions(self) -> Settings:
        """Return the settings, with the queues that there are, and what this API server can do.

        From 1.33 on it resizes running pods.
        """
        try:
            reweight = self._settings.reweight and await self._api.serves(POD_RESIZE)
        except (ApiError, ApiUnavailableError) as error:
            _log.warning("whether pods can be resized is not known, they are not: %s", error)
            reweight = False
        try:
            async with asyncio.timeout(_QUEUES_SECONDS):
                await self._queues.synced.wait()  # nothing may be admitted before the quotas are known
        except TimeoutError:
            _log.warning("no TrainingQueues after %g s: those that are there count later", _QUEUES_SECONDS)
        return msgspec.structs.replace(
            self._settings.decisions,
            reweight=reweight,
            time_slices=self._settings.reweight,
            queues=self._queues.queues,
        )

    def _parts(self, controller: Controller, decisions: Settings) -> list[Coroutine[Any, Any, None]]:
        statuses = QueueStatusWriter(
            self._api,
            self._queues,
            identity=self._settings.identity,
            holds=self._holds,
            state=lambda: controller.state,
        )
        filled = self._settings.train_job_status
        train_jobs = [self._train_jobs.run(lambda: controller.state)] if filled else []
        return [
            *train_jobs,
            controller.run(self._settings.identity, decisions),
            self.backend.broken(),
            self._tell_queues(controller),
            statuses.run(),
            self._memory.run(),
            self.recorder.run(),
            self._signals.run(),
            self._boosts.run(lambda: controller.state, self._now),
            self._protections.run(lambda: controller.state, self._now),
            self._authorities.run(),
            self._answer_requests(controller),
            *([self._keep_gates(controller)] if self._gatekeeper is not None else []),
            *([self.forecasts.run()] if self._settings.forecasts else []),
            *(work() for work in self._beside),
        ]

    async def _tell_queues(self, controller: Controller) -> None:
        """Tell of queues that change once the manager has begun with those it knew."""
        await _await_begin(controller)
        await self._queues.tell(controller.post)

    async def _keep_gates(self, controller: Controller) -> None:
        """Look after Kueue's gates once it is known what runs: before, nobody could be asked to save."""
        assert self._gatekeeper is not None
        await _await_begin(controller)
        await self._gatekeeper.run(lambda: controller.state, self._now, controller.post)

    async def _answer_requests(self, controller: Controller) -> None:
        """Take requests for moves once the pods are known: before, no request would name one of them."""
        await _await_begin(controller)

        def is_known(move: str) -> bool:
            state = controller.state  # what waits there is this very request: an earlier leader read it
            return move in state.transactions or any(each.id == move for each in state.history)

        await self._migrations.answer_requests(
            controller.post,
            self.backend.replica_of,
            is_known=is_known,
            is_in_flight=lambda move: move in controller.state.transactions or self._memory.is_answered(move),
            uid_of=self.backend.uid_of,
            queued=list(controller.state.requests.values()),
            note_deleted=self._memory.note_deleted,
        )

    async def log_tail(self, replica: str) -> LogTail:
        """Return where the log of a replica is."""
        return pod_log_tail(replica, self.backend.pod_of(replica))

    def _pod_of(self, replica: str) -> str | None:
        return self.backend.pod_of(replica)

    def _owner_of(self, job: str) -> Object | None:
        return self.backend.owner_reference(job)

    def _tell(self, stepped: Stepped) -> None:
        """Say on the pod, on its owner where a move or the whole job is concerned, what a step changed."""
        notes = words_of(stepped.before, stepped.after, stepped.event)
        if isinstance(stepped.event, Tick):
            waits = self._waits.of(stepped.after, stepped.now)
            if waits is not self._told_waits:
                notes += words_of_waits(self._told_waits, waits)
                self._told_waits = waits
            turns = stepped.after.snapshot(stepped.now).slices.why
            notes += words_of_turns(self._told_turns, turns)
            self._told_turns = turns
        for note in notes:
            if note.whole:
                self._tell_of_job(note)
                continue
            subjects = self.backend.subjects(note.replica)
            for subject in subjects if note.action == "Move" else subjects[:_FIRST_WORD]:
                self.recorder.record(subject, note)
            if note.action == "Classify":
                replica = stepped.after.replicas[note.replica]
                self._signals.follow(replica)
                self._boosts.wake()

    def _tell_of_job(self, note: Note) -> None:
        """Say it on what creates the pods of a job; on its first pod where nothing does."""
        owner = self.backend.owner_reference(note.replica)
        subjects = self.backend.subjects(f"{note.replica}/worker/0") if owner is None else (owner,)
        for subject in subjects[:_FIRST_WORD]:
            self.recorder.record(subject, note)

    def _remark(self, namespace: str, pod: str, reason: str, text: str) -> None:
        note = Note(replica=f"{namespace}/{pod}", reason=reason, action="Observe", text=text, warning=True)
        self.recorder.record(reference(PODS, namespace, pod, self.backend.uid_of(namespace, pod)), note)
        _log.warning("pod %s/%s: %s", namespace, pod, text)


async def _await_begin(controller: Controller) -> None:
    """Wait for the first step, which comes after the backend's begin."""
    begun = asyncio.Event()
    controller.observers.append(lambda _: begun.set())
    await begun.wait()


async def _unending(work: Coroutine[Any, Any, None]) -> None:
    """Do the work, whose mere end would leave the rest of the term without it."""
    await work
    raise BrokenError(f"{name_of_coroutine(work)}: it came to its end")
