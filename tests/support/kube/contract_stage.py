"""The Kubernetes backend under contract: owners start pods, kubelets run them, a webhook pins them."""

import abc
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fakekube.cluster import FakeCluster
from specon_manager.backends.base import Order
from specon_manager.backends.kube.backend import KubeBackend, KubeSettings
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import JOBS, PODS, STATEFUL_SETS, Resource
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec
from support.kube.backend_contract import Stage
from support.kube.manifests import IGNORE_DISRUPTIONS
from support.kube.stage import Keeper, make_job, make_pod, make_stateful_set

Object = dict[str, Any]
_PLACEHOLDER: Final = "specon.io/placeholder"
MOVE: Final = "move-1"


async def _make_indexed_job(api: Api, name: str, namespace: str) -> Object:
    return await make_job(
        api,
        name,
        namespace,
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        podFailurePolicy=IGNORE_DISRUPTIONS,
    )


@dataclasses.dataclass(frozen=True)
class Owner:
    """What creates the pods of a job."""

    make: Callable[[Api, str, str], Awaitable[Object]]
    replica: str = "worker/0"
    """Which of its replicas is moved."""
    ends_by_itself: bool = True
    stop: tuple[Resource, Object] | None = None
    """How its user lets none of its pods run; None: by deleting it only."""


OWNERS: Final[Mapping[str, Owner]] = {
    "job": Owner(make_job, stop=(JOBS, {"suspend": True})),
    "indexed-job": Owner(_make_indexed_job, replica="worker/1", stop=(JOBS, {"suspend": True})),
    "stateful-set": Owner(make_stateful_set, ends_by_itself=False, stop=(STATEFUL_SETS, {"replicas": 0})),
    "bare-pod": Owner(make_pod),
}


class KubeStage(Stage):
    """A job by the name of `a`, created and placed by its owner.

    Differences to a backend that places replicas itself: the first incarnation is its owner's doing, so that
    a start is ordered only after an eviction, and where the next pod goes is known before the eviction, for
    some owners create it at once.
    """

    def __init__(self, api: Api, owner: Owner, *, namespace: str = "default") -> None:
        self.api, self.owner, self.namespace = api, owner, namespace
        self.replica = f"{namespace}/a/{owner.replica}"
        self.ends_by_itself = owner.ends_by_itself
        self.destination: str | None = None
        """What the status of the open Migration says to the webhook."""
        self.keeper = Keeper()  # what is kept in Migrations outlives managers
        self._spec: JobSpec | None = None
        super().__init__()

    def make(self) -> KubeBackend:
        return KubeBackend(
            self.api,
            KubeSettings(
                watch=WatchSettings(namespaces=(self.namespace,)),
                rooms=RoomSettings(patience=5.0),
                eviction_patience=2.0,
                unschedulable_seconds=5.0,
            ),
            keeper=self.keeper,
            holds=lambda: True,
        )

    def hear(self, event: ev.Event) -> None:
        if isinstance(event, ev.JobObserved):
            self._spec = event.spec
        super().hear(event)

    def spec(self) -> JobSpec:
        assert self._spec is not None, "the job was not described"
        return self._spec

    async def running(self, *, slow_to_end: bool = False) -> ev.ReplicaStarted:
        await self.slow_to_end(slow=slow_to_end)
        await self.owner.make(self.api, "a", self.namespace)
        (started,) = await self.hears(ev.ReplicaStarted)
        # An owner may be seen later than its pods; until then the job is told as immovable, and the core
        # orders no eviction of it.
        await self.comes(lambda: not self.spec().immovable)
        assert isinstance(started, ev.ReplicaStarted)
        return started

    async def startable(self, node: str) -> None:
        started = await self.running()
        await self.bound_for(node)
        await self.backend.carry_out(self.eviction(started.incarnation))
        await self.hears(ev.ReplicaGone)
        self.events.clear()

    async def nothing_runs(self) -> None:
        started = await self.running()
        if self.owner.stop is None:
            await self.backend.carry_out(self.eviction(started.incarnation))
        else:
            resource, spec = self.owner.stop
            await self.api.patch(resource, "a", self.namespace, {"spec": spec}, form="merge")
        await self.hears(ev.ReplicaGone)
        self.events.clear()

    def start(self, node: str, *, start: int = 1) -> Order:
        del start
        return self._placed({self.replica: node})

    def eviction(self, incarnation: str | None, *, grace_seconds: float = 5.0) -> Order:
        return self._placed({}, ending={self.replica: incarnation or ""}, grace_seconds=grace_seconds)

    def order_name(self, start: int) -> object:
        del start
        return self.job, MOVE

    def named(self, refused: ev.Event) -> object:
        return (refused.job, refused.transaction) if isinstance(refused, ev.JobRefused) else None

    def _placed(self, placement: Mapping[str, str], **fields: Any) -> PlaceJob:
        """Return the order for the owner; what it has besides runs on. Every move begins with its room."""
        self.backend._book.moving(self.hold(MOVE, placement.get(self.replica, "")))
        others = dict.fromkeys(set(self.spec().replicas) - {self.replica}) if self._spec else {}
        given = {"grace_seconds": 5.0, **fields}
        whole = {**others, **placement}
        return PlaceJob(job=self.job, transaction=MOVE, placement=whole, reason="test", **given)

    async def bound_for(self, node: str) -> None:
        self.destination = node

    async def ended_by_others(self) -> None:
        (pod,) = await self._pods()
        await self.api.delete(PODS, pod["metadata"]["name"], self.namespace)

    async def left(self, incarnation: str) -> list[str]:
        return [
            f"pod {pod['metadata']['name']}: {pod['status'].get('phase')}"
            for pod in await self._pods()
            if pod["metadata"]["uid"] == incarnation
        ]

    async def rooms(self) -> list[str]:
        pods, _ = await self.api.list(PODS, self.namespace, label_selector=_PLACEHOLDER)
        return sorted(
            next(iter((pod["spec"].get("nodeSelector") or {}).values()), "")
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
        )

    @abc.abstractmethod
    async def slow_to_end(self, *, slow: bool) -> None:
        """Let trainers take a while to end, or not."""

    async def _pods(self) -> list[Object]:
        """Return the pods that are the replica: one, two while the former one goes."""
        pods, _ = await self.api.list(PODS, self.namespace, label_selector="specon.io/sidecar")
        return [
            pod
            for pod in pods
            if (identity := identity_of(pod)) is not None and identity.replica == self.replica
        ]


class FakeStage(KubeStage):
    """On a whole cluster in this process; its admission pins as our webhook does."""

    def __init__(self, cluster: FakeCluster, api: Api, owner: Owner) -> None:
        self._cluster = cluster
        self._admit = cluster.machinery.admission
        cluster.machinery.admission = self._admission
        super().__init__(api, owner)

    async def _admission(self, kind: Any, value: Object, operation: str) -> Object:
        value = await self._admit(kind, value, operation)
        metadata = value["metadata"]
        injected = "specon.io/sidecar" in (metadata.get("labels") or {})
        if not (kind.plural == "pods" and operation == "CREATE" and injected and self.destination):
            return value
        identity = identity_of(value)
        # The webhook knows a pod of an Indexed Job by its completion index; its name is made later.
        if identity is not None and identity.replica == self.replica:
            value["spec"].setdefault("nodeSelector", {})["kubernetes.io/hostname"] = self.destination
            metadata.setdefault("annotations", {})["specon.io/pinned"] = self.destination
        return value

    async def ends(self, code: int) -> None:
        (pod,) = await self._pods()
        await self._cluster.kubelet.complete(pod, code)

    async def slow_to_end(self, *, slow: bool) -> None:
        self._cluster.kubelet.stop_seconds = 0.5 if slow else 0.0


class ClusterStage(KubeStage):
    """On a real API server with its controllers and simulated kubelets, without our webhook."""

    seconds = 60.0  # the Job controller waits about 10 s before it replaces a pod

    def __init__(self, api: Api, owner: Owner, namespace: str, nodes: tuple[str, str]) -> None:
        self.nodes = nodes
        # No API server far away could call a webhook in this process: only what we create is pinned.
        self.pins = owner is OWNERS["bare-pod"]
        super().__init__(api, owner, namespace=namespace)

    async def ends(self, code: int) -> None:
        """Say what a kubelet would: the simulated ones have nothing that ends."""
        (pod,) = await self._pods()
        ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
        statuses = [
            {**status, "ready": False, "state": {"terminated": ended}}
            for status in pod["status"]["containerStatuses"]
        ]
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}
        name = pod["metadata"]["name"]
        await self.api.patch(
            PODS, name, self.namespace, {"status": status}, form="merge", subresource="status"
        )

    async def slow_to_end(self, *, slow: bool) -> None:
        del slow  # they take a while anyway
