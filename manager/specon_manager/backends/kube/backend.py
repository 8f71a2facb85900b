"""The Kubernetes backend: has the pods' owners carry orders out, and reports what became of them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final, NoReturn

from msgspec import Struct

from specon_manager.backends.base import Emit, NotLeadingError, Order
from specon_manager.backends.kube.background import Background
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.bare import bring_back
from specon_manager.backends.kube.owners.context import Hands, Keeper, RefusedError
from specon_manager.backends.kube.owners.patching import resume_owner
from specon_manager.backends.kube.placing.book import Book
from specon_manager.backends.kube.placing.placer import Placer
from specon_manager.backends.kube.placing.tools import Tools
from specon_manager.backends.kube.reporting.recorder import reference
from specon_manager.backends.kube.reweighting import Reweighting
from specon_manager.backends.kube.rooms import Placeholders, RoomSettings
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import JOBS, PODS, STATEFUL_SETS, Object
from specon_manager.backends.kube.watching.cluster_watch import ClusterWatch, WatchSettings
from specon_manager.backends.kube.watching.ledger import Remarks
from specon_manager.core.state import State
from specon_manager.model.actions import EvictReplica, HoldRoom, PlaceJob, SetWeight, StartReplica
from specon_manager.model.cluster import job_of
from specon_manager.model.events import Event, JobGone

_log = logging.getLogger(__name__)
_TICK: Final = 1.0  # seconds
_SETTLE: Final = 30.0  # seconds between two looks for jobs that nobody resumed


class KubeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How orders are carried out on Kubernetes; times in seconds."""

    watch: WatchSettings = WatchSettings()
    rooms: RoomSettings = RoomSettings()
    eviction_patience: float = 30.0
    """How long a disruption budget may stand against an eviction before it is given up."""
    unschedulable_seconds: float = 20.0
    """How long the scheduler may find no node for a new pod that was ordered to one."""


class KubeBackend:
    """Carries orders out; see `Backend`."""

    def __init__(
        self,
        api: Api,
        settings: KubeSettings,
        *,
        keeper: Keeper,
        holds: Callable[[], bool],
        now: Callable[[], float] = time.time,
        remark: Remarks = lambda *_: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; `holds` says whether this manager leads at this moment, `remark` tells about a pod.

        `now` is the manager's clock, seconds.
        """
        self._holds, self._sleep = holds, sleep
        self._hands = Hands(api=api, keeper=keeper, fence=self._fence, sleep=sleep, fixed=self._fix)
        self._background = Background()
        self._watch = ClusterWatch(
            api, settings.watch, remark=remark, noticed=self._notice, background=self._background
        )
        self._ledger = self._watch.ledger
        self._reweighting = Reweighting(api, self._fence)
        self._book = Book()
        self._rooms = Placeholders(
            settings.rooms, self._hands, self._watch, emit=self._say, monotonic=monotonic
        )
        self._placer = Placer(
            Tools(
                hands=self._hands,
                ledger=self._ledger,
                nodes=self._watch.nodes,
                book=self._book,
                say=self._say,
                now=now,
                monotonic=monotonic,
                eviction_patience=settings.eviction_patience,
                unschedulable_seconds=settings.unschedulable_seconds,
                unheard=self._watch.pod_without_sidecar,
                hand_over=self._rooms.hand_over,
                give_back=self._rooms.give_back,
                wake=self._watch.wake,
            ),
            self._background,
        )
        self._emit: Emit = _before_begin
        self._idle: set[tuple[str, str, str]] = set()

    @property
    def not_injected(self) -> int:
        """How many pods are annotated, but have no sidecar."""
        return self._watch.not_injected

    def pod_of(self, replica: str) -> str | None:
        """Return the name of the pod that is the replica, or None where there is none."""
        pod = self._ledger.live(replica)
        return None if pod is None else pod.name

    def replica_of(self, namespace: str, pod: str) -> str | None:
        """Return which replica a pod is, by its name, or None where it is none."""
        found = None if self._watch.pods is None else self._watch.pods.items.get((namespace, pod))
        if found is None or found.detail is None or found.detail.identity is None:
            return None
        return found.detail.identity.replica

    def uid_of(self, namespace: str, pod: str) -> str:
        """Return the UID of a pod by its name; empty where it is not there."""
        found = None if self._watch.pods is None else self._watch.pods.items.get((namespace, pod))
        return "" if found is None else found.uid

    def is_ending(self, replica: str) -> bool:
        """Whether the pod of a replica was told to end, or is gone."""
        pod = self._ledger.live(replica)
        return pod is None or pod.ended or pod.deleting

    def subjects(self, replica: str) -> tuple[Object, ...]:
        """Return references to what a replica is: its pod, where there is one, and then the pod's owner."""
        pod = self._ledger.live(replica)
        found = [] if pod is None else [reference(PODS, pod.namespace, pod.name, pod.uid)]
        owner = self._owner(replica) if pod is None else self._ledger.owner_of(pod)
        kinds = {JOBS.kind: JOBS, STATEFUL_SETS.kind: STATEFUL_SETS}
        if owner is not None and owner.kind in kinds:
            found.append(reference(kinds[owner.kind], owner.namespace, owner.name, owner.uid))
        return tuple(found)

    def owner_reference(self, job: str) -> Object | None:
        """Return a reference to what creates the pods of a job; None where nothing does."""
        owner = self._ledger.owner_of_job(job)
        if owner is None or owner.kind not in OWNER_RESOURCES:
            return None
        resource, _ = OWNER_RESOURCES[owner.kind]
        return reference(resource, owner.namespace, owner.name, owner.uid)

    async def begin(self, state: State, emit: Emit) -> None:
        """Read everything, tell what changed while nobody watched, tidy up, and watch from then on."""
        self._emit = emit
        for replica in state.replicas:
            if self._hands.keeper.read_manifest(replica) is not None:
                self._ledger.await_return(replica, awaited=True)
        self._book.begin(state)
        self._rooms.begin(state)
        await self._watch.begin(state, self._say)
        self._spawn(self._rooms.tidy(state))
        self._spawn(self._restore_weights(state))
        self._spawn(self._tick(), endless=True)
        self._spawn(self._settle(), endless=True)
        self._spawn(self._placer.look_after_strays())

    async def broken(self) -> NoReturn:
        """Wait until a task breaks without which nobody should lead, and raise why; see `Background`."""
        await self._background.broken()

    async def carry_out(self, order: Order) -> None:
        """Carry one order out; see `Backend`. Waits neither for disruption budgets nor for pods.

        Raises ValueError for orders about single replicas: all jobs here are placed by their owners.
        """
        self._fence()
        if isinstance(order, StartReplica | EvictReplica):
            raise ValueError(f"{order.replica} is placed by its owner: {type(order).__name__} is not for it")  # noqa: TRY004  (the type is right, the job is not)
        if isinstance(order, HoldRoom):
            self._book.moving(order)
            await self._rooms.hold(order)
        elif isinstance(order, SetWeight):
            await self._weigh(order)
        elif isinstance(order, PlaceJob):
            await self._rooms.defend(order)
            self._placer.order(order)
        else:
            await self._rooms.release(order)

    async def _weigh(self, order: SetWeight) -> None:
        pod = self._ledger.pod(order.replica, order.incarnation)
        if pod is None or pod.ended or pod.deleting or pod.detail is None:
            return
        if pod.detail.options.share is None:  # else its sidecar asks for its turns
            await self._reweighting.weigh(pod, order.weight)

    async def _restore_weights(self, state: State) -> None:
        """Give back what an earlier manager took of running pods: no record of ours says how much."""
        for replica in state.replicas.values():
            pod = self._ledger.live(replica.name)
            if pod is None or pod.detail is None or pod.ended or pod.deleting or replica.weight != 1.0:
                continue
            if pod.detail.whole_cpu is not None and pod.detail.trainer_cpu < pod.detail.whole_cpu:
                try:
                    await self._reweighting.weigh(pod, 1.0)
                except (ApiError, ApiUnavailableError) as error:
                    _log.warning("%s keeps fewer processors: %s", replica.name, error)

    async def end(self) -> None:
        """Stop watching; nothing that runs is touched."""
        await self._background.end()

    # -- watching --------------------------------------------------------------------------------

    def _notice(self, before: PodInfo | None, after: PodInfo | None) -> None:
        self._placer.note_pod(before, after)
        pod = after if after is not None else before
        if pod is not None and pod.detail is not None and pod.detail.placeholder:
            self._rooms.look(pod.name)

    async def _tick(self) -> None:
        while True:
            await self._sleep(_TICK)
            keeper = self._hands.keeper
            for replica in self._ledger.awaited:
                # Until its move is over: the new pod too may get lost, and nobody else creates it again.
                if keeper.reference(replica) is None and keeper.read_manifest(replica) is None:
                    self._ledger.await_return(replica, awaited=False)
                    self._watch.wake()
            await self._rooms.look_at_all()

    async def _settle(self) -> None:
        """Bring back jobs that are kept away without a change in flight and without a queue that holds them.

        Objects with our mark are resumed, and evicted bare pods are created again. The order for this may be
        lost, or the job may no longer be held. Pods that still end must be gone
        first, and what may create them again.
        """
        settled = False
        while True:
            marked = {owner.key: owner for owner in self._ledger.suspended()}
            idle = {key for key, owner in marked.items() if not self._in_flight(owner)}
            # Later on, a mark may be younger than the facts about its move: it counts the second time.
            waits = await self._resume_idle(idle & self._idle if settled else idle)
            self._idle, settled = idle, True
            for replica in self._ledger.awaited:
                await self._settle_bare(replica)
            rest = _SETTLE
            while waits and rest > 0:
                await self._sleep(_TICK)
                rest -= _TICK
                waits = await self._resume_idle(waits)
            await self._sleep(rest)

    async def _resume_idle(self, keys: Collection[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
        """Resume these owners if nothing of them is in flight; return those whose pods have to go first."""
        waits = set()
        for owner in [each for each in self._ledger.suspended() if each.key in keys]:
            if self._in_flight(owner):
                continue
            if owner.remains or any(map(self._book.is_ending, self._jobs_of(owner))):
                waits.add(owner.key)
                continue
            _log.warning("%s in %s is suspended for nothing: resumed", owner, owner.namespace)
            try:
                await resume_owner(self._hands, owner)
            except (RefusedError, ApiError, ApiUnavailableError) as error:
                _log.warning("%s in %s could not be resumed: %s", owner, owner.namespace, error)
        return waits

    async def _settle_bare(self, replica: str) -> None:
        keeper = self._hands.keeper
        if self._ledger.live(replica) is not None or job_of(replica) in self._book.flying:
            return
        if keeper.reference(replica) is not None or keeper.read_manifest(replica) is None:
            return
        _log.warning("%s is away for nothing: its pod is created again", replica)
        try:
            await bring_back(self._hands, replica, None)
        except (RefusedError, ApiError, ApiUnavailableError) as error:
            _log.warning("%s could not be created again: %s", replica, error)

    def _in_flight(self, owner: OwnerInfo) -> bool:
        return self._book.keeps(owner, self._jobs_of(owner)) or any(
            self._hands.keeper.reference(replica) is not None for replica in self._ledger.replicas_of(owner)
        )

    def _jobs_of(self, owner: OwnerInfo) -> list[str]:
        return sorted({job_of(replica) for replica in self._ledger.replicas_of(owner)} | {owner.job_name})

    # -- small parts -----------------------------------------------------------------------------

    def _owner(self, replica: str) -> OwnerInfo | None:
        return self._ledger.owner_of_job(job_of(replica))

    def _fix(self, owner: OwnerInfo) -> None:
        self._ledger.fix(owner)
        self._watch.wake()

    def _fence(self) -> None:
        if not self._holds():
            raise NotLeadingError("this manager does not hold the lease any more: nothing is done")

    def _say(self, event: Event) -> None:
        self._book.heard(event)
        if isinstance(event, JobGone):
            self._placer.forget(event.job)
            self._rooms.forget(event.job)
        self._emit(event)

    def _spawn(self, work: Coroutine[Any, Any, None], *, endless: bool = False) -> None:
        self._background.start(work, endless=endless)


def _before_begin(event: Event) -> NoReturn:
    raise RuntimeError(f"{event} before the backend was begun")
