"""A whole installation that answers evictions, and those who evict: each does what its original does."""

import asyncio
from collections.abc import Mapping
from typing import Any, Self

import aiohttp

from fakekube.kinds import MIGRATIONS, NODES, PDBS, PODS, VALIDATING_WEBHOOKS
from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.interception.desk import InterceptionSettings
from specon_manager.backends.kube.interception.eviction import Eviction
from specon_manager.backends.kube.interception.webhook import eviction_webhook
from specon_manager.model.settings import Settings
from support.clocks.fair_time import fair_now
from support.kube.cluster_rules import FINAL
from support.kube.cluster_stage import DECISIONS, SYSTEM, ClusterStage
from support.kube.staged_manager import Manager

Object = dict[str, Any]
RETRY_SECONDS = 0.3
"""In place of the five seconds of `kubectl drain`, and of the ten of the cluster autoscaler."""


class EvictionStage(ClusterStage):
    """As the other one, with the webhook of evictions."""

    interception = InterceptionSettings(enabled=True, patience=60.0)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.http = aiohttp.ClientSession()
        about = WebhookSettings(name="specon", namespace=SYSTEM, service="specon-webhook")
        await self.cluster.machinery.create(VALIDATING_WEBHOOKS, "", eviction_webhook(about, None))
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.http.close()
        await super().__aexit__(*about)

    async def manage(self, name: str = "first", decisions: Settings = DECISIONS, **release: Any) -> Manager:
        release.setdefault("interception", self.interception)
        return await super().manage(name, decisions, **release)

    async def manage_and_lead(self, name: str = "first", decisions: Settings = DECISIONS) -> Manager:
        manager = await super().manage_and_lead(name, decisions)
        await self.until(self._evictions_are_answered, "evictions are answered")
        return manager

    def _evictions_are_answered(self) -> bool:
        (hook,) = self.cluster.store.get(VALIDATING_WEBHOOKS, ("", "specon"))["webhooks"]  # type: ignore[index]
        desks = [one.serves._desk for one in self.managers if one.alive]
        return bool(hook["clientConfig"].get("caBundle")) and all(desk and desk.ready for desk in desks)

    # -- those who evict -------------------------------------------------------------------------

    async def cordon(self, node: str, *, on: bool = True) -> None:
        await self.cluster.machinery.patch(NODES, ("", node), "merge", {"spec": {"unschedulable": on}})

    async def make_drained(self, name: str) -> str:
        """Make a StatefulSet that a drain has moved to another node, and return its replica."""
        replica = await self.make("StatefulSet", name)
        await self.trains(replica)
        await self.drain(self.node_of(replica))
        await self.wishes_ended()
        await self.trains(replica)
        return replica

    async def cordon_all_but(self, node: str) -> None:
        """Leave one node to whatever is to be placed."""
        for other in self.nodes:
            await self.cordon(other, on=other != node)

    async def place_manager(self, name: str, node: str) -> None:
        """Let the manager have a pod on a node."""
        spec = {"containers": [{"name": "manager", "image": "specon/manager:1"}], "nodeName": node}
        await self.cluster.machinery.create(PODS, SYSTEM, {"metadata": {"name": name}, "spec": spec})

    async def evict(
        self, pod: str, namespace: str = "training", *, query: str = "", **options: Any
    ) -> tuple[int, str, Mapping[str, str]]:
        """Evict a pod once, as somebody else than the manager; return status, message and headers."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        url = f"{self.cluster.url}/api/v1/namespaces/{namespace}/pods/{pod}/eviction{query}"
        async with self.http.post(url, json=body, headers={"Impersonate-User": "admin"}) as response:
            told = await response.json()
            return response.status, str(told.get("message", "")), dict(response.headers)

    async def drain(self, node: str, *, seconds: float = 60.0) -> float:
        """Do what `kubectl drain NODE` does from its list of pods on, and return how long it took.

        Source: `pkg/drain/drain.go` of k8s.io/kubectl: each pod is evicted by its name until that succeeds
        or there is none (404); 429 is tried again; what was evicted is awaited until it is gone, or has
        another UID.
        """
        await self.cordon(node)
        began = fair_now()
        pods = [pod for pod in self.cluster.store.all(PODS) if pod["spec"].get("nodeName") == node]
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for pod in pods:
                group.create_task(self._drained(pod))
        return fair_now() - began

    async def _drained(self, pod: Object) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        uid = pod["metadata"]["uid"]
        while True:
            status, message, _ = await self.evict(name, namespace)
            if status == 404:
                return
            if status == 201:
                break
            assert status == 429, message
            await asyncio.sleep(RETRY_SECONDS)
            uid = self._uid(namespace, name) or uid
        while self._uid(namespace, name) == uid:  # noqa: ASYNC110  (as it does)
            await asyncio.sleep(RETRY_SECONDS / 5)

    async def scale_down(self, node: str, *, seconds: float = 60.0) -> float:
        """Do what the cluster autoscaler does before it removes a node, and return how long it took.

        Source: `cluster-autoscaler/core/scaledown/actuation/drain.go`: a taint; each pod is evicted with a
        grace period until that succeeds or there is none; then none of its name may be on the node.
        """
        taint = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule", "value": "1"}
        await self.cluster.machinery.patch(NODES, ("", node), "merge", {"spec": {"taints": [taint]}})
        began = fair_now()
        pods = [pod["metadata"] for pod in self.on_node(node)]

        async def removed(name: str, namespace: str) -> None:
            while (await self.evict(name, namespace, gracePeriodSeconds=30))[0] not in {201, 404}:  # noqa: ASYNC110
                await asyncio.sleep(RETRY_SECONDS)
            while any(pod["metadata"]["name"] == name for pod in self.on_node(node)):  # noqa: ASYNC110
                await asyncio.sleep(RETRY_SECONDS / 5)

        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for each in pods:
                group.create_task(removed(each["name"], each["namespace"]))
        return fair_now() - began

    async def until_passes(self, pod: str, namespace: str = "training") -> None:
        """Evict a pod again and again until that passes."""
        async with asyncio.timeout(30):
            while (await self.evict(pod, namespace))[0] != 201:  # noqa: ASYNC110
                await asyncio.sleep(RETRY_SECONDS)

    def eviction_of(self, replica: str) -> Eviction:
        """Return what a manager is asked of when somebody evicts the replica's pod."""
        metadata = self.pod_of(replica)["metadata"]
        return Eviction(review="1", namespace=metadata["namespace"], name=metadata["name"], user="admin")

    async def patch_pod(self, pod: str, change: Object, namespace: str = "training") -> None:
        """Change a pod, and wait until the managers have seen it."""
        version = (await self.cluster.machinery.patch(PODS, (namespace, pod), "merge", change))["metadata"]
        assert version
        await asyncio.sleep(0.3)

    async def never_disrupt(self, labels: Mapping[str, str], namespace: str = "training") -> None:
        """Create a budget by which none of these pods may go, and wait until everybody knows it."""
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": dict(labels)}}
        await self.cluster.machinery.create(PDBS, namespace, {"metadata": {"name": "none"}, "spec": spec})

        def known() -> bool:
            desks = [one.serves._desk for one in self.managers if one.alive]
            found = [desk.cache.budgets(namespace) for desk in desks if desk is not None]
            return all(each and each[0].get("status", {}).get("expectedPods") for each in found)

        await self.until(known, "the budget is known")

    async def wishes_ended(self) -> None:
        """Wait until every wish has its answer written, and nothing is in flight."""

        def over() -> bool:
            ended = (each.get("status", {}).get("state") in {*FINAL, "Refused"} for each in self.wishes())
            return all(ended) and self._is_calm()

        await self.until(over, "all wishes have ended")

    async def no_moves_but(self, number: int) -> None:
        """Wait until so many moves have succeeded and none is in flight."""

        def over() -> bool:
            ended = [each.get("status", {}).get("state") for each in self.wishes()]
            return ended.count("Succeeded") == number and self._is_calm()

        await self.until(over, f"{number} have moved")

    # -- what is seen ----------------------------------------------------------------------------

    def on_node(self, node: str) -> list[Object]:
        """Return the pods of a node that have not ended."""
        return [
            pod
            for pod in self.cluster.store.all(PODS)
            if pod["spec"].get("nodeName") == node
            and pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
        ]

    def wishes(self) -> list[Object]:
        """Return the Migrations that evictions were turned into."""
        found = self.cluster.store.all(MIGRATIONS)
        return [each for each in found if each["metadata"]["name"].startswith("evict-")]

    def _uid(self, namespace: str, name: str) -> str | None:
        pod = self.cluster.store.get(PODS, (namespace, name))
        return None if pod is None else str(pod["metadata"]["uid"])
