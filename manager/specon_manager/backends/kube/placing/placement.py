"""One order to place a job, carried out step by step: each look does what is still missing, and no more."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.base import Emit
from specon_manager.backends.kube.owners.job_patch import SWITCHES, JobWish
from specon_manager.backends.kube.owners.patching import OwnerGoneError, patched
from specon_manager.backends.kube.owners.way import BlockedError, Hands, RefusedError
from specon_manager.backends.kube.placing.book import Book, InFlight, occupies, replica_of, waits_for_us
from specon_manager.backends.kube.placing.gates import release
from specon_manager.backends.kube.placing.wishes import Circumstances, EditedError, wish
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.backends.kube.watching.nodes import NodeBook
from specon_manager.backends.kube.watching.owner_info import OwnerInfo
from specon_manager.backends.kube.watching.slim import PodInfo
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import JobRefused, ReplicaGone

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 8
"""Pods that are released at the same time."""


class Tools(Struct, frozen=True, kw_only=True):
    """With what placements are carried out."""

    hands: Hands
    ledger: Ledger
    nodes: NodeBook
    book: Book
    say: Emit
    monotonic: Callable[[], float]
    eviction_patience: float
    unschedulable_seconds: float


class Placement:
    """The order that is in force for a job."""

    def __init__(self, order: PlaceJob, change: InFlight | None, tools: Tools) -> None:
        self.order = order
        self.done = False
        """Whether everything was seen to be as ordered."""
        self._change, self._tools = change, tools
        self._settled: OwnerInfo | None = None
        """The owner as it was seen when its object needed no change."""
        self._blocked_since: float | None = None
        self._trouble_since: dict[str, float] = {}
        self._said: set[str] = set()

    async def advance(self) -> None:
        """Do what is missing. May be repeated, also by another manager.

        Raises RefusedError where something cannot be, BlockedError where it must wait, ApiError and
        ApiUnavailableError.
        """
        spec = self._tools.book.specs.get(self.order.job)
        if spec is None:
            self.done = True  # nobody waits for it any more
            return
        owner = self._tools.ledger.owner_of_job(self.order.job)
        try:
            await self._write(spec, owner)
            await self._evict(owner)
        except (OwnerGoneError, EditedError) as error:
            # The core hears of both from the watch, and what its user wrote is not overwritten.
            _log.info("%s: %s", self.order.job, error)
            return
        self._blocked_since = None
        await self._release()
        if owner is None or self._settled == owner:
            self._tell_absent(spec)
        self._look_for_trouble()
        self.done = self._is_as_ordered(owner)

    def blocked(self, error: BlockedError) -> None:
        """Take note that a disruption budget stands against it; refuse it when that lasts too long."""
        now = self._tools.monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
        if now - self._blocked_since >= self._tools.eviction_patience:
            self.refuse(str(error))

    def refuse(self, why: str) -> None:
        """Tell the core that the order cannot be carried out, once for each reason."""
        if why in self._said:
            return
        self._said.add(why)
        _log.warning("%s cannot be placed as %s wants: %s", self.order.job, self.order.change or "said", why)
        if self.order.change:
            self._tools.say(JobRefused(job=self.order.job, change=self.order.change, reason=why))

    # -- the owner's object ----------------------------------------------------------------------

    async def _write(self, spec: JobSpec, owner: OwnerInfo | None) -> None:
        if owner is None or self._settled == owner:
            return
        change = self._change
        known = Circumstances(
            spec=spec,
            admitting=change is not None and change.admitting,
            ours=() if change is None else frozenset(change.ours),
            runs=any(pod.node for pod in self._pods()),
        )

        def decide(found: Mapping[str, Any]) -> JobWish | None:
            try:
                return wish(owner.kind, dict(found), self.order, known)
            except EditedError as error:
                if known.admitting:  # nothing of it runs: it is admitted again, with the new number
                    raise RefusedError(str(error)) from error
                raise

        # What was let go a moment ago, and never was whole, disrupts nothing when it is taken back.
        leaving = [] if known.admitting else [pod for pod in self._leaving() if pod.node]
        whole = not self.order.placement
        await patched(self._tools.hands, owner, decide, leaving=leaving, whole=whole)
        self._settled = owner

    # -- pods ------------------------------------------------------------------------------------

    def _pods(self) -> list[PodInfo]:
        return self._tools.book.pods(self.order.job, self._tools.ledger.foreign)

    def _leaving(self) -> list[PodInfo]:
        """Return the pods that are to go and were not told to yet."""
        if not self.order.change:
            return []
        return [
            pod
            for pod in self._pods()
            if occupies(pod) and not pod.deleting and replica_of(pod) not in self.order.placement
        ]

    async def _evict(self, owner: OwnerInfo | None) -> None:
        """Evict what is to go where no suspension makes it go; who is gated stays."""
        if self.order.placement or (owner is not None and owner.kind in SWITCHES):
            return
        for pod in self._leaving():
            if pod.detail is not None and pod.detail.owner is None:
                raise RefusedError(f"nobody creates pod {pod.name} again")
            self._tools.hands.fence()
            grace = self.order.grace_seconds
            try:
                await self._tools.hands.api.evict(
                    pod.name, pod.namespace, uid=pod.uid, grace_seconds=round(grace)
                )
            except ApiError as error:
                if error.blocked or error.throttled:
                    raise BlockedError(error.message) from error
                if not (error.not_found or error.conflict):
                    raise

    async def _release(self) -> None:
        """Let the gated pods of the placement go, each to its node."""
        waiting = [pod for pod in self._pods() if waits_for_us(pod)]
        if self.order.change:
            waiting = [pod for pod in waiting if replica_of(pod) in self.order.placement]
        elif self.order.job not in self._tools.book.admitted:
            return
        targets = [(pod, self._hostname(pod)) for pod in waiting]
        await released_all(self._tools.hands, targets)

    def _hostname(self, pod: PodInfo) -> str | None:
        name = self.order.placement.get(replica_of(pod) or "") if self.order.change else None
        if name is None:
            return None
        node = self._tools.nodes.node(name)
        if node is None:
            raise RefusedError(f"there is no node {name}")
        return node.hostname

    def _tell_absent(self, spec: JobSpec) -> None:
        """Say of each replica that is not to run, and of which no pod is there, that nothing of it is left.

        Of a pod that ran the watch tells by itself; of one that never did, nobody else would.
        """
        if not self.order.change:
            return
        there = {replica_of(pod) for pod in self._pods() if occupies(pod)}
        for replica in spec.replicas:
            if replica in self.order.placement or replica in there or replica in self._said:
                continue
            self._said.add(replica)
            gone = ReplicaGone(replica=replica, incarnation=None, evicted=True, reason="no pod of it runs")
            self._tools.say(gone)

    def _look_for_trouble(self) -> None:
        """Refuse the order when the scheduler finds no node for one of its pods for too long."""
        if not self.order.change:
            return
        now = self._tools.monotonic()
        found: dict[str, float] = {}
        for pod in self._pods():
            if pod.detail is None or not occupies(pod) or pod.node or not pod.detail.unschedulable:
                continue
            if replica_of(pod) in self.order.placement:
                found[pod.uid] = self._trouble_since.get(pod.uid, now)
                if now - found[pod.uid] >= self._tools.unschedulable_seconds:
                    self.refuse(f"{pod.name}: {pod.detail.unschedulable}")
        self._trouble_since = found

    def _is_as_ordered(self, owner: OwnerInfo | None) -> bool:
        pods = self._pods()
        if not self.order.change:
            return owner is None or not owner.suspended_for
        if any(occupies(pod) and replica_of(pod) not in self.order.placement for pod in pods):
            return False
        if not self.order.placement and owner is not None and owner.kind in SWITCHES:
            return owner.suspended
        run = {
            replica_of(pod)
            for pod in pods
            if pod.detail is not None and pod.detail.trains and not pod.deleting
        }
        return self.order.placement.keys() <= run


async def released_all(hands: Hands, targets: Sequence[tuple[PodInfo, str | None]]) -> None:
    """Release several pods, a few at a time; the first that fails is told when all were tried."""
    trouble: list[BaseException] = []
    for first in range(0, len(targets), _AT_ONCE):
        part = targets[first : first + _AT_ONCE]
        done = await asyncio.gather(
            *(release(hands, pod, hostname) for pod, hostname in part), return_exceptions=True
        )
        trouble += [each for each in done if isinstance(each, BaseException)]
    if trouble:
        raise trouble[0]
