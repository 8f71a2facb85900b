"""The Kubernetes backend on a stage: against a real or fake API server, with the events that it says."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from specon_manager.backends.kube.backend import KubeBackend, KubeSettings
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import JOBS, PODS, STATEFUL_SETS
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import HoldRoom, PlaceJob, ReleaseRoom
from specon_manager.model.cluster import job_of
from specon_manager.model.events import Event, JobObserved
from specon_manager.model.resources import NOTHING
from support.clocks.fair_time import fair_now

Object = dict[str, Any]
E = TypeVar("E")
INJECTED = {"specon.io/sidecar": "injected"}
HASTY = KubeSettings(eviction_patience=0.5, unschedulable_seconds=0.5)


class Keeper:
    """Memory of moves that lasts as long as the test."""

    def __init__(self) -> None:
        self.manifests: dict[str, Object] = {}
        self.references: dict[str, Object] = {}

    async def keep_manifest(self, replica: str, manifest: Object) -> None:
        self.manifests[replica] = manifest

    def read_manifest(self, replica: str) -> Object | None:
        return self.manifests.get(replica)

    def reference(self, replica: str) -> Object | None:
        return self.references.get(replica)


class Stage:
    """`async with Stage(api)`: a backend that has begun."""

    def __init__(
        self,
        api: Api,
        *,
        settings: KubeSettings | None = None,
        state: State | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.api, self.state = api, state or State()
        self.keeper = keeper or Keeper()
        self.events: list[Event] = []
        self.remarks: list[tuple[str, str, str, str]] = []
        self.leads = True
        self.now = 1000.0
        """The manager's clock."""
        self._heard = asyncio.Event()
        self.backend = KubeBackend(
            api,
            settings or KubeSettings(),
            keeper=self.keeper,
            holds=lambda: self.leads,
            now=lambda: self.now,
            remark=lambda *remark: self.remarks.append(remark),
        )

    async def __aenter__(self) -> Self:
        await self.backend.begin(self.state, self._hear)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.backend.end()

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._heard.set()

    def known(self) -> State:
        """Return what a manager knows by what was said so far."""
        state = State()
        for event in self.events:
            state, _ = step(state, event, self.now)
        return state

    def said(self, kind: type[E], **fields: object) -> list[E]:
        """Return the events of a kind with these values so far."""
        return [
            event
            for event in self.events
            if isinstance(event, kind) and all(getattr(event, key) == value for key, value in fields.items())
        ]

    async def hear(self, kind: type[E], *, seconds: float = 15.0, **fields: object) -> E:
        """Wait until such an event is said, or return the last one that was."""
        try:
            async with asyncio.timeout(seconds):
                while not (found := self.said(kind, **fields)):
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            raise AssertionError(f"no {kind.__name__} {fields} within {seconds} s: {self.events}") from None
        return found[-1]

    async def until(self, holds: Callable[[], object], *, seconds: float = 15.0) -> None:
        """Wait until something holds."""
        end = fair_now() + seconds
        while not holds():
            assert fair_now() < end, f"not within {seconds} s; said: {self.events}"
            await asyncio.sleep(0.02)

    async def hold(self, move: str, replica: str, node: str) -> None:
        """Order room once the owner of the pod is known: until then, the core does not move it."""
        await self.until(lambda: not self._owner_unknown(job_of(replica)))
        await self.backend.carry_out(_room(move, replica, node))

    def _owner_unknown(self, job: str) -> bool:
        told = [event.spec.immovable for event in self.said(JobObserved) if event.spec.name == job]
        return "nothing is known yet" in "".join(told[-1:])

    async def release(self, move: str, replica: str, node: str) -> None:
        await self.backend.carry_out(ReleaseRoom(transaction=move, replica=replica, node=node, reason="test"))

    async def leave(
        self,
        replica: str,
        incarnation: str | None,
        *,
        move: str = "m-1",
        others: Mapping[str, str | None] | None = None,
        **fields: Any,
    ) -> None:
        """Order that one replica goes, as the core does for a move; `others` run on."""
        ending = {replica: incarnation or ""}
        await self._order(move, replica, dict(others or {}), ending=ending, **fields)

    async def come(
        self,
        replica: str,
        node: str | None,
        *,
        move: str = "m-1",
        others: Mapping[str, str | None] | None = None,
        **fields: Any,
    ) -> None:
        """Order that it comes back on a node."""
        await self._order(move, replica, {**(others or {}), replica: node}, **fields)

    async def over(self, replica: str) -> None:
        """Order that its owner runs what it likes: nothing is in flight."""
        await self._order("", replica, {replica: None})

    async def _order(
        self, move: str, replica: str, placement: Mapping[str, str | None], **fields: Any
    ) -> None:
        if move and replica not in self.backend._book.moves:
            # The core asks for room before anything else; a test that is not about that does without it.
            self.backend._book.moving(_room(move, replica, "any"))
        given = {"grace_seconds": 30.0, **fields}
        order = PlaceJob(job=job_of(replica), transaction=move, placement=placement, reason="test", **given)
        await self.backend.carry_out(order)


def _room(move: str, replica: str, node: str) -> HoldRoom:
    return HoldRoom(transaction=move, replica=replica, node=node, requests=NOTHING, reason="test")


def template(
    annotations: dict[str, str] | None = None, *, labels: dict[str, str] | None = None, **spec: Any
) -> Object:
    """Return the template of a pod that trains and has, as far as anybody can tell, a sidecar."""
    container = {
        "name": "trainer",
        "image": "registry.example/train:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "nfs": {"server": "nas", "path": "/data"}}]
    known = {"specon.io/inject": "true", "specon.io/log-path": "/data/train.log"}
    return {
        "metadata": {
            "labels": {**INJECTED, "app": "training", **(labels or {})},
            "annotations": {**known, **(annotations or {})},
        },
        "spec": {"containers": [container], "volumes": volumes, "restartPolicy": "Never", **spec},
    }


async def make_job(api: Api, name: str, namespace: str = "default", **spec: Any) -> Object:
    """Create a Job whose pods train."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": template(), **spec},
    }
    return await api.create(JOBS, body, namespace)


async def make_stateful_set(api: Api, name: str, namespace: str = "default", replicas: int = 1) -> Object:
    """Create a StatefulSet whose pods train."""
    pods = template(labels={"set": name})
    pods["spec"]["restartPolicy"] = "Always"
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"set": name}},
            "template": pods,
        },
    }
    return await api.create(STATEFUL_SETS, body, namespace)


async def make_pod(
    api: Api, name: str, namespace: str = "default", annotations: dict[str, str] | None = None, **spec: Any
) -> Object:
    """Create a bare pod that trains and may be created again."""
    made = template({"specon.io/recreate": "true", **(annotations or {})}, **spec)
    made["metadata"] |= {"name": name, "namespace": namespace}
    return await api.create(PODS, {"apiVersion": "v1", "kind": "Pod", **made}, namespace)
