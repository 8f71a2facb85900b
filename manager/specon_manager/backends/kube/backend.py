"""The Kubernetes backend: carries orders out by whoever owns the pods, and says what became of them."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn

from msgspec import Struct

from specon_manager.backends.base import Emit, NotLeadingError, Order
from specon_manager.backends.kube.background import Background
from specon_manager.backends.kube.owners.bare import Recreation
from specon_manager.backends.kube.owners.eviction import Eviction
from specon_manager.backends.kube.owners.patching import resumed
from specon_manager.backends.kube.owners.suspend import Suspension
from specon_manager.backends.kube.owners.table import suspends
from specon_manager.backends.kube.owners.way import (
    BlockedError,
    Coming,
    Hands,
    Keeper,
    Leaving,
    RefusedError,
    Way,
)
from specon_manager.backends.kube.placing.book import Book, job_of
from specon_manager.backends.kube.placing.placement import Tools
from specon_manager.backends.kube.placing.placer import Placer
from specon_manager.backends.kube.reweighting import Reweighting
from specon_manager.backends.kube.rooms import Rooms, RoomSettings
from specon_manager.backends.kube.telling.recorder import reference
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import JOBS, PODS, STATEFUL_SETS, Object
from specon_manager.backends.kube.watching.cluster_watch import ClusterWatch, WatchSettings
from specon_manager.backends.kube.watching.ledger import Remarks
from specon_manager.backends.kube.watching.owner_info import OWNER_RESOURCES, OwnerInfo
from specon_manager.backends.kube.watching.slim import PodInfo
from specon_manager.core.state import State
from specon_manager.model.actions import EvictReplica, HoldRoom, PlaceJob, SetWeight, StartReplica
from specon_manager.model.events import (
    Event,
    EvictionRefused,
    JobGone,
    ReplicaGone,
    ReplicaStarted,
    StartRefused,
)

_log = logging.getLogger(__name__)
_TICK: Final = 1.0  # seconds
_SETTLE: Final = 30.0  # seconds between two looks for jobs that nobody resumed
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 5.0
_UNSURE_SECONDS: Final = 60.0
"""How long a start is tried while the API server gives no answer."""
_GONE_SECONDS: Final = 30.0
"""How long a pod that waits for the wrong node may take to go."""
_UNHEARD_GRACE: Final = 30
"""Seconds; for a pod of which nobody hears, beyond which it is killed."""


class KubeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How orders are carried out on Kubernetes; times in seconds."""

    watch: WatchSettings = WatchSettings()
    rooms: RoomSettings = RoomSettings()
    eviction_patience: float = 30.0
    """How long a disruption budget may stand against an eviction before it is given up."""
    unschedulable_seconds: float = 20.0
    """How long the scheduler may find no node for a new pod that was ordered to one."""


class _Starting(Struct, kw_only=True):
    """A start that was ordered and not yet seen."""

    order: StartReplica
    hostname: str | None
    """Of the node that was ordered; None: any."""
    trouble_since: float | None = None
    room_given_back: bool = False
    again: bool = False
    """Whether it is about to be carried out once more."""


class KubeBackend:
    """Carries orders out; see `Backend`."""

    def __init__(
        self,
        api: Api,
        settings: KubeSettings,
        *,
        keeper: Keeper,
        holds: Callable[[], bool],
        remark: Remarks = lambda *_: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; `holds` says whether this manager leads at this moment, `remark` tells about a pod."""
        self._settings, self._holds = settings, holds
        self._monotonic, self._sleep = monotonic, sleep
        self._hands = Hands(api=api, keeper=keeper, fence=self._fence, sleep=sleep, fixed=self._fixed)
        self._background = Background()
        self._watch = ClusterWatch(
            api, settings.watch, remark=remark, noticed=self._noticed, background=self._background
        )
        self._ledger = self._watch.ledger
        self._reweighting = Reweighting(api, self._fence)
        self._book = Book()
        self._placer = Placer(
            Tools(
                hands=self._hands,
                ledger=self._ledger,
                nodes=self._watch.nodes,
                book=self._book,
                say=self._say,
                monotonic=monotonic,
                eviction_patience=settings.eviction_patience,
                unschedulable_seconds=settings.unschedulable_seconds,
            ),
            self._background,
        )
        self._rooms = Rooms(settings.rooms, self._hands, self._watch, emit=self._say, monotonic=monotonic)
        self._ways: Mapping[str, Way] = {"suspend": Suspension(), "evict": Eviction(), "bare": Recreation()}
        self._emit: Emit = _before_begin
        self._starting: dict[str, _Starting] = {}
        self._moves: dict[str, str] = {}
        """Id of the last move of a replica that is known."""
        self._went: dict[str, asyncio.Event] = {}
        """By UID: set when the pod's object is gone."""
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
        self._moves = {move.replica: move.id for move in state.moves.values()}
        for replica in state.replicas:
            if self._hands.keeper.kept_manifest(replica) is not None:
                self._ledger.await_return(replica, awaited=True)
        self._book.begin(state)
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
        """Carry one order out; see `Backend`. Waits for disruption budgets, but not for pods."""
        self._fence()
        if isinstance(order, HoldRoom):
            self._moves[order.replica] = order.move
            await self._rooms.hold(order)
        elif isinstance(order, EvictReplica):
            await self._evict(order)
        elif isinstance(order, StartReplica):
            await self._start(order)
        elif isinstance(order, SetWeight):
            await self._weigh(order)
        elif isinstance(order, PlaceJob):
            self._placer.order(order)
        else:
            await self._rooms.release(order)

    async def _weigh(self, order: SetWeight) -> None:
        pod = self._ledger.pod(order.replica, order.incarnation)
        if pod is not None and not pod.ended and not pod.deleting:
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

    # -- ending ----------------------------------------------------------------------------------

    async def _evict(self, order: EvictReplica) -> None:
        self._starting.pop(order.replica, None)
        pod = self._wanted_pod(order)
        if pod is None or (pod.ended and not pod.deleting):
            gone = ReplicaGone(replica=order.replica, incarnation=order.incarnation, reason="not there")
            self._say(gone)
            return
        if pod.deleting:
            return  # it is said when its object is gone
        owner = self._ledger.owner_of(pod)
        assert pod.detail is not None
        creator = pod.detail.owner
        bare = creator is None
        if owner is None and creator is not None:
            why = f"its owner, {creator.kind} {creator.name}, is not there"
            self._say(EvictionRefused(replica=order.replica, incarnation=pod.uid, reason=why))
            return
        if bare:
            self._ledger.await_return(order.replica, awaited=True)
        grace = math.ceil(max(order.grace_seconds, pod.detail.grace_seconds))
        leaving = Leaving(
            replica=order.replica, pod=pod, owner=owner, grace_seconds=grace, move=self._name(order.replica)
        )
        try:
            await self._let_go(leaving)
        except (BlockedError, RefusedError) as error:
            if bare:
                self._ledger.await_return(order.replica, awaited=False)
            refused = EvictionRefused(replica=order.replica, incarnation=pod.uid, reason=str(error))
            self._say(refused)

    def _wanted_pod(self, order: EvictReplica) -> PodInfo | None:
        if order.incarnation is None:
            return self._ledger.live(order.replica)
        return self._ledger.pod(order.replica, order.incarnation)

    async def _let_go(self, leaving: Leaving) -> None:
        """Let the pod go, again and again while something stands against it, as long as patience lasts."""
        way = self._way(leaving.owner)
        until = self._monotonic() + self._settings.eviction_patience
        pause = _FIRST_PAUSE
        while True:
            try:
                await way.let_go(self._hands, leaving)
            except (BlockedError, ApiUnavailableError):
                if self._monotonic() + pause > until:
                    raise
            else:
                return
            await self._sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    # -- starting --------------------------------------------------------------------------------

    async def _start(self, order: StartReplica) -> None:
        self._starting.pop(order.replica, None)
        node = None if order.node is None else self._watch.nodes.node(order.node)
        if order.node is not None and node is None:
            self._refuse(order, f"there is no node {order.node}")
            return
        try:
            pod = self._ledger.live(order.replica)
            if pod is not None and self._waits_elsewhere(pod, None if node is None else node.hostname):
                await self._send_away(order.replica, pod)
            await self._send_uninjected_away(order.replica)
            owner = self._owner(order.replica)
            coming = Coming(replica=order.replica, owner=owner, node=node)
            if owner is None and self._hands.keeper.kept_manifest(order.replica) is None:
                raise RefusedError("nobody creates its pod again: its owner is gone")  # noqa: TRY301
            await self._bring_back(self._way(owner), coming)
        except (RefusedError, BlockedError) as error:
            if self._hands.keeper.kept_manifest(order.replica) is None:
                self._ledger.await_return(order.replica, awaited=False)
                self._watch.wake()
            self._refuse(order, str(error))
            return
        hostname = None if node is None else node.hostname
        self._starting[order.replica] = _Starting(order=order, hostname=hostname)
        self._look(order.replica)

    async def _bring_back(self, way: Way, coming: Coming) -> None:
        """Have the next pod come; where nobody knows whether it does, once more: that costs no attempt."""
        until = self._monotonic() + _UNSURE_SECONDS
        pause = _FIRST_PAUSE
        while True:
            try:
                await way.bring_back(self._hands, coming)
            except (ApiError, ApiUnavailableError) as error:
                passing = isinstance(error, ApiUnavailableError) or error.throttled
                if not passing or self._monotonic() + pause > until:
                    raise
            else:
                return
            await self._sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _start_again(self, starting: _Starting) -> None:
        """Carry an order out once more, a moment later, unless another one came since."""
        await self._sleep(_FIRST_PAUSE)
        if self._starting.get(starting.order.replica) is not starting:
            return
        try:
            await self._start(starting.order)
        except (ApiError, ApiUnavailableError) as error:
            self._refuse(starting.order, str(error))

    def _waits_elsewhere(self, pod: PodInfo, hostname: str | None) -> bool:
        """Whether the pod has no node yet and waits for another one than is wanted now, because of us."""
        assert pod.detail is not None
        if pod.node or pod.deleting or pod.ended or not pod.detail.pinned:
            return False
        return pod.detail.pinned != hostname

    async def _send_away(self, replica: str, pod: PodInfo) -> None:
        """Have a pod that waits for the wrong node go, in the way of its owner; it never ran."""
        leaving = Leaving(
            replica=replica,
            pod=pod,
            owner=self._ledger.owner_of(pod),
            grace_seconds=0,
            move=self._name(replica),
        )
        went = self._went.setdefault(pod.uid, asyncio.Event())
        try:
            await self._let_go(leaving)
            async with asyncio.timeout(_GONE_SECONDS):
                await went.wait()
        except TimeoutError:
            raise RefusedError(f"pod {pod.name}, which waits for another node, does not go") from None
        finally:
            self._went.pop(pod.uid, None)

    async def _send_uninjected_away(self, replica: str) -> None:
        """Have a pod go that was created while no webhook answered: nobody hears of it."""
        pod, owner = self._watch.without_sidecar(replica), self._owner(replica)
        if pod is None or owner is None:
            return
        leaving = Leaving(
            replica=replica, pod=pod, owner=owner, grace_seconds=_UNHEARD_GRACE, move=self._name(replica)
        )
        await self._let_go(leaving)
        until = self._monotonic() + _UNHEARD_GRACE + _GONE_SECONDS
        while self._watch.without_sidecar(replica) is not None:
            if self._monotonic() > until:
                raise RefusedError(f"pod {pod.name}, which has no sidecar, does not go")
            await self._sleep(_TICK)

    def _refuse(self, order: StartReplica, reason: str) -> None:
        self._starting.pop(order.replica, None)
        self._say(StartRefused(replica=order.replica, start=order.start, reason=reason))

    def _look(self, replica: str) -> None:
        """See what became of an ordered start."""
        starting = self._starting.get(replica)
        pod = self._ledger.live(replica)
        if starting is not None and pod is None:
            self._look_for_uninjected(starting.order)
        if starting is None or pod is None or pod.deleting or pod.detail is None:
            return
        if not starting.room_given_back:
            starting.room_given_back = True
            self._spawn(self._rooms.give_back(self._moves.get(replica, ""), replica))
        if pod.node and pod.detail.trains:
            del self._starting[replica]
            # It may have been told before the order was given; twice does no harm.
            self._say(ReplicaStarted(replica=replica, incarnation=pod.uid, node=pod.node))
            return
        if self._waits_elsewhere(pod, starting.hostname):
            # The webhook that let it be created had not heard of the new destination yet.
            if not starting.again:
                starting.again = True
                self._spawn(self._start_again(starting))
            return
        trouble = "" if pod.node or starting.order.node is None else pod.detail.unschedulable
        if not trouble:
            starting.trouble_since = None
        elif starting.trouble_since is None:
            starting.trouble_since = self._monotonic()
        elif self._monotonic() - starting.trouble_since >= self._settings.unschedulable_seconds:
            self._refuse(starting.order, trouble)

    def _look_for_uninjected(self, order: StartReplica) -> None:
        unheard = None if order.node is None else self._watch.without_sidecar(order.replica)
        if unheard is not None:
            why = f"its pod {unheard.name} was created without a sidecar: the webhook did not answer"
            self._refuse(order, why)

    # -- watching --------------------------------------------------------------------------------

    def _noticed(self, before: PodInfo | None, after: PodInfo | None) -> None:
        if after is None and before is not None and before.uid in self._went:
            self._went[before.uid].set()
        self._placer.noticed(before, after)
        pod = after if after is not None else before
        assert pod is not None
        if pod.detail is None:
            return
        if pod.detail.placeholder:
            self._rooms.look(pod.detail.move)
        elif pod.detail.identity is not None:
            self._look(pod.detail.identity.replica)

    async def _tick(self) -> None:
        while True:
            await self._sleep(_TICK)
            for replica in list(self._starting):
                self._look(replica)
            keeper = self._hands.keeper
            for replica in self._ledger.awaited:
                # Until its move is over: the new pod too may get lost, and nobody else creates it again.
                if keeper.reference(replica) is None and keeper.kept_manifest(replica) is None:
                    self._ledger.await_return(replica, awaited=False)
                    self._watch.wake()
            self._rooms.look_at_all()

    async def _settle(self) -> None:
        """Resume what carries our mark though nothing of it is in flight and no queue holds it.

        The order to resume it may have been lost, or its job is not to be held any more.
        """
        settled = False
        while True:
            marked = {owner.key: owner for owner in self._ledger.suspended()}
            idle = {key for key, owner in marked.items() if not self._in_flight(owner)}
            # Later on, a mark may be younger than what is known of its move: it counts the second time.
            for key in idle & self._idle if settled else idle:
                owner = marked[key]
                _log.warning("%s in %s is suspended for nothing: resumed", owner, owner.namespace)
                try:
                    await resumed(self._hands, owner)
                except (RefusedError, ApiError, ApiUnavailableError) as error:
                    _log.warning("%s in %s could not be resumed: %s", owner, owner.namespace, error)
            self._idle, settled = idle, True
            await self._sleep(_SETTLE)

    def _in_flight(self, owner: OwnerInfo) -> bool:
        replicas = self._ledger.replicas_of(owner)
        jobs = {job_of(replica) for replica in replicas} | {owner.job_name}
        return self._book.keeps(owner, sorted(jobs)) or any(
            replica in self._starting or self._hands.keeper.reference(replica) is not None
            for replica in replicas
        )

    # -- small parts -----------------------------------------------------------------------------

    def _owner(self, replica: str) -> OwnerInfo | None:
        return self._ledger.owner_of_job(replica.rpartition("/")[0].rpartition("/")[0])

    def _way(self, owner: OwnerInfo | None) -> Way:
        if owner is None:
            return self._ways["bare"]
        return self._ways["suspend" if suspends(owner) else "evict"]

    def _name(self, replica: str) -> str:
        """Return the name of the migration of a replica."""
        return self._rooms.migration(self._moves.get(replica, ""), replica)

    def _fixed(self, owner: OwnerInfo) -> None:
        self._ledger.fix(owner)
        self._watch.wake()

    def _fence(self) -> None:
        if not self._holds():
            raise NotLeadingError("this manager does not hold the lease any more: nothing is done")

    def _say(self, event: Event) -> None:
        self._book.heard(event)
        if isinstance(event, JobGone):
            self._placer.forget(event.job)
        self._emit(event)

    def _spawn(self, work: Coroutine[Any, Any, None], *, endless: bool = False) -> None:
        self._background.start(work, endless=endless)


def _before_begin(event: Event) -> NoReturn:
    raise RuntimeError(f"{event} before the backend was begun")
