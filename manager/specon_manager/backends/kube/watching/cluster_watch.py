"""Follows pods, nodes, owners and volumes, and tells the core what changes; the I/O of the translation."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.base import Emit
from specon_manager.backends.kube.background import Background
from specon_manager.backends.kube.kueue.standing import KueueMoveSettings
from specon_manager.backends.kube.kueue.standings import Standings
from specon_manager.backends.kube.objects.annotation_keys import INJECT
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, OwnerInfo
from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo, slim_node, slim_pod
from specon_manager.backends.kube.objects.quantities import amounts_of, resources_of
from specon_manager.backends.kube.objects.volumes import (
    Movability,
    Volume,
    VolumeClaim,
    judge_volumes,
    slim_claim,
    slim_volume,
)
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import (
    KUEUE_WORKLOADS,
    NODE_METRICS,
    NODES,
    PODS,
    PVCS,
    PVS,
    Object,
)
from specon_manager.backends.kube.watching.device_book import Holder
from specon_manager.backends.kube.watching.device_watch import DeviceWatch
from specon_manager.backends.kube.watching.ledger import Ledger, Remarks
from specon_manager.backends.kube.watching.nodes import NodeBook
from specon_manager.backends.kube.watching.translate import options_of
from specon_manager.core.state import State
from specon_manager.model.resources import Resources

_log = logging.getLogger(__name__)
_TURN_SECONDS: Final = 0.02  # that changes are applied between two turns of the loop
_ALWAYS_SERVED: Final = frozenset({"Job", "StatefulSet"})
_KUEUE_SECONDS: Final = 30.0  # that a manager which takes over waits for Kueue's objects
_VOLUME_PAUSE: Final = 5.0  # seconds before volumes are asked for again that could not be read


class WatchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The watched resources, and how often those that cannot be watched are read."""

    namespaces: tuple[str, ...] = ()
    """Where pods are managed; none: everywhere. Pods elsewhere count as what they request."""
    metrics_seconds: float = 30.0
    """Between two readings of metrics.k8s.io, where it is served."""
    kueue_moves: KueueMoveSettings = KueueMoveSettings()
    """Whether Kueue's Workloads are followed, by which jobs in its queues are moved."""
    device_taints: bool = False
    """Whether claims of devices are followed, for the taints of these."""
    selected: Mapping[str, Any] | None = None
    """A LabelSelector: pods that it means are observed though they have no sidecar; None: no such pods."""


class ClusterWatch:
    """Keeps the ledger and the node book up to date."""

    def __init__(
        self,
        api: Api,
        settings: WatchSettings,
        *,
        remark: Remarks,
        noticed: Callable[[PodInfo | None, PodInfo | None], None],
        background: Background | None = None,
    ) -> None:
        """`noticed` hears of each change of a pod that matters by itself, after the ledger has.

        The tasks that follow the cluster are some of `background`.
        """
        self._api, self._settings = api, settings
        self._background = background or Background()
        self._remark, self._noticed = remark, noticed
        self._namespaces = frozenset(settings.namespaces)
        self.ledger = Ledger(remark=remark, reading=api.reading)
        self.nodes = NodeBook()
        self._devices = DeviceWatch(api, self.wake) if settings.device_taints else None
        self._changes: deque[tuple[Callable[[Any, Any], None], Any, Any]] = deque()
        self._woken = asyncio.Event()
        self._emit: Emit | None = None
        self._unjudged: dict[str, PodInfo] = {}
        self._judging = asyncio.Event()
        self._not_injected: dict[str, PodInfo] = {}
        self._foreign: set[str] = set()
        self.pods: Reflector[PodInfo] | None = None

    @property
    def not_injected(self) -> int:
        """How many pods are annotated, but have no sidecar."""
        return len(self._not_injected)

    def pod_without_sidecar(self, replica: str) -> PodInfo | None:
        """Return a pod that is the replica and was created without a sidecar, where there is one."""
        return next((pod for pod in self._not_injected.values() if pod.would_be == replica), None)

    async def begin(self, state: State, emit: Emit) -> None:
        """Read everything, tell what differs from what `state` knows, and follow from then on."""
        self.pods = Reflector(
            self._api,
            PODS,
            slim=lambda pod: slim_pod(pod, self._namespaces, self._settings.selected),
            changed=lambda change: self._queue(self._pod_changed, change),
        )
        nodes: Reflector[NodeInfo] = Reflector(
            self._api,
            NODES,
            slim=slim_node,
            changed=lambda change: self._queue(self.nodes.node_changed, change),
        )
        reflectors: list[Reflector[Any]] = [nodes, self.pods]
        self.ledger.server = await self._version()
        standings = await self._follow_kueue()
        for kind, (resource, slim) in OWNER_RESOURCES.items():
            if kind in _ALWAYS_SERVED or await self._is_served(resource):
                owners: Reflector[OwnerInfo] = Reflector(
                    self._api,
                    resource,
                    slim=slim,
                    changed=self._queue_owner,
                )
                reflectors.append(owners)
        for reflector in reflectors:
            self._background.start(reflector.run(), f"following {reflector.plural}", endless=True)
        for reflector in reflectors:
            await reflector.synced.wait()
        if standings is not None:
            await self._learn(standings)
        await self._apply()
        self.nodes.note_known(state.nodes)
        self.ledger.remember(state)
        self._emit = emit
        self._tell()
        self._background.start(self._follow(), "applying what changed", endless=True)
        self._background.start(self._judge_volumes(), "judging volumes", endless=True)
        self._background.start(self._measure(), "measuring nodes", endless=True)
        if self._devices is not None:
            self._background.start(self._devices.run(), "following devices", endless=True)

    async def end(self) -> None:
        """Stop."""
        await self._background.end()

    def wake(self) -> None:
        """Have what changed in the ledger told soon."""
        self._woken.set()

    async def verdict(self, pod: PodInfo) -> Movability:
        """Return what the volumes of the pod mean for its moves, as they are now.

        Raises ApiError and ApiUnavailableError where they cannot be read.
        """
        detail = pod.detail
        assert detail is not None
        claims: dict[str, VolumeClaim] = {}
        volumes: dict[str, Volume] = {}
        for name in set(detail.claims):
            try:
                found = await self._api.get(PVCS, name, pod.namespace)
                with self._api.reading.of(PVCS.kind, f"{pod.namespace}/{name}"):
                    claims[name] = slim_claim(found)
                bound = claims[name].volume if name in claims else ""
                if bound:
                    found = await self._api.get(PVS, bound)
                    with self._api.reading.of(PVS.kind, bound):
                        volumes[bound] = slim_volume(found)
            except ApiError as error:
                if not error.not_found:
                    raise
        return judge_volumes(detail, options_of(detail), claims, volumes)

    async def _is_served(self, resource: Any) -> bool:
        try:
            return await self._api.serves(resource)
        except (ApiError, ApiUnavailableError) as error:
            _log.warning("whether %s are served is not known, they are left out: %s", resource.plural, error)
            return False

    async def _follow_kueue(self) -> Standings | None:
        if not self._settings.kueue_moves.enabled:
            return None
        if not await self._is_served(KUEUE_WORKLOADS):
            _log.warning("kueue_moves: there is no %s here", KUEUE_WORKLOADS.api_version)
            return None
        standings = Standings(self._api, self._settings.kueue_moves, self._queue_workloads)
        self.ledger.follow_workloads(standings.of)
        self._background.start(standings.run(), "following Kueue", endless=True)
        return standings

    async def _learn(self, standings: Standings) -> None:
        try:
            async with asyncio.timeout(_KUEUE_SECONDS):
                await standings.wait_until_synced()
        except TimeoutError:
            _log.warning("kueue_moves: Kueue's objects cannot be read, so none of its jobs is moved")

    async def _version(self) -> tuple[int, int]:
        try:
            return await self._api.version()
        except (ApiError, ApiUnavailableError, ValueError) as error:
            _log.warning("the version of the API server is not known: %s", error)
            return 0, 0

    def _queue(self, apply: Callable[[Any, Any], None], change: ObjectChange[Any]) -> None:
        self._changes.append((apply, change.before, change.after))
        self._woken.set()

    def _queue_owner(self, change: ObjectChange[OwnerInfo]) -> None:
        # A job elsewhere that is suspended for a move is another manager's to resume.
        if not self._namespaces or change.key[0] in self._namespaces:
            self._queue(self.ledger.owner_changed, change)

    def _queue_workloads(self, owners: Collection[str]) -> None:
        self._changes.extend((self.ledger.workload_changed, None, uid) for uid in owners)
        self._woken.set()

    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._apply()

    async def _apply(self) -> None:
        """Apply what came in, a part at a time: thousands of pods may come at once."""
        while True:
            ends = time.perf_counter() + _TURN_SECONDS
            while self._changes and time.perf_counter() < ends:
                apply, before, after = self._changes.popleft()
                kind, name = _name(before if after is None else after)
                with self._api.reading.of(kind, name):
                    apply(before, after)
            if self._emit is not None:
                self._tell()
            if not self._changes:
                return
            await asyncio.sleep(0)

    def _tell(self) -> None:
        assert self._emit is not None
        jobs = self.ledger.take_events()
        self._count_foreign()
        for event in (*self.nodes.events(), *jobs):
            self._emit(event)
        for warning in () if self._devices is None else self._devices.events(self._replica_of):
            self._emit(warning)

    def _replica_of(self, holder: Holder) -> str | None:
        """Return the replica that the core knows to run in this pod."""
        pod = None if self.pods is None else self.pods.items.get((holder.namespace, holder.name))
        if pod is None or pod.uid != holder.uid or pod.detail is None or pod.detail.identity is None:
            return None
        replica = pod.detail.identity.replica
        return replica if self.ledger.believed_incarnation(replica) == holder.uid else None

    def _count_foreign(self) -> None:
        if self.pods is None or self.ledger.foreign == self._foreign:
            return
        changed, self._foreign = self.ledger.foreign ^ self._foreign, set(self.ledger.foreign)
        for pod in self.pods.items.values():
            if pod.uid in changed and pod.node and not pod.ended:
                if pod.uid in self._foreign:
                    self.nodes.count_as_foreign(pod)
                else:
                    self.nodes.pod_changed(pod, pod)

    def _pod_changed(self, before: PodInfo | None, after: PodInfo | None) -> None:
        self.nodes.pod_changed(before, after)
        if after is not None and after.uid in self._foreign:
            self.nodes.count_as_foreign(after)
        self._note_injection(before, after)
        details = [pod for pod in (before, after) if pod is not None and pod.detail is not None]
        if not details:
            return
        self.ledger.pod_changed(before, after)
        if after is not None and after.detail is not None and after.detail.identity is not None:
            was_bound = before is not None and bool(before.node)
            if not after.detail.claims and before is None:
                verdict = judge_volumes(after.detail, options_of(after.detail), {}, {})
                self.ledger.judge(after.uid, after, verdict)
            elif after.detail.claims and after.node and not was_bound and not after.ended:
                # A claim may be bound only once its pod has a node.
                self._unjudged[after.uid] = after
                self._judging.set()
        self._noticed(before, after)

    def _note_injection(self, before: PodInfo | None, after: PodInfo | None) -> None:
        if before is not None and (after is None or not after.wants_sidecar or after.ended):
            self._not_injected.pop(before.uid, None)
        if after is None or not after.wants_sidecar or after.ended or after.uid in self._not_injected:
            return
        self._not_injected[after.uid] = after
        why = f"annotated with {INJECT}, but created without a sidecar: the admission webhook did not see it"
        self._remark(after.namespace, after.name, "NotInjected", why)

    async def _judge_volumes(self) -> None:
        while True:
            await self._judging.wait()
            self._judging.clear()
            pending, self._unjudged = self._unjudged, {}
            for uid, pod in pending.items():
                try:
                    self.ledger.judge(uid, pod, await self.verdict(pod))
                except (ApiError, ApiUnavailableError) as error:
                    _log.debug("volumes of %s/%s: %s", pod.namespace, pod.name, error)
                    self._unjudged.setdefault(uid, pod)
                self._woken.set()
            if self._unjudged:
                await asyncio.sleep(_VOLUME_PAUSE)
                self._judging.set()

    async def _measure(self) -> None:
        """Read what nodes really use, where something measures it; its absence is normal."""
        trouble = False
        while True:
            try:
                if await self._api.serves(NODE_METRICS):
                    listed, _ = await self._api.list(NODE_METRICS)
                    with self._api.reading.of(NODE_METRICS.kind, "of some node"):
                        self.nodes.note_usage(dict(map(_usage, listed)))
                    self._woken.set()
                    trouble = False
            except (ApiError, ApiUnavailableError) as error:
                if not trouble:
                    _log.warning("the use of nodes cannot be read, their requests count instead: %s", error)
                trouble = True
                self.nodes.note_usage({})
                self._woken.set()
            await asyncio.sleep(self._settings.metrics_seconds)


def _name(found: PodInfo | NodeInfo | OwnerInfo | str) -> tuple[str, str]:
    """Return kind and name of an object, for words about it; a text is the UID of what Kueue manages."""
    if isinstance(found, str):
        return KUEUE_WORKLOADS.kind, f"of {found}"
    if isinstance(found, NodeInfo):
        return NODES.kind, found.name
    return found.kind if isinstance(found, OwnerInfo) else PODS.kind, f"{found.namespace}/{found.name}"


def _usage(measured: Object) -> tuple[str, Resources]:
    """Return a node's name, and what it uses."""
    return str(mapping(measured.get("metadata")).get("name", "")), resources_of(
        amounts_of(measured.get("usage"))
    )
