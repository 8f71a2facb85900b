"""What every manager, the leading one and those that stand by, watches to answer evictions at once."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from specon_manager.backends.kube.interception.facts import PodFacts, budget_facts, node_facts, pod_facts
from specon_manager.backends.kube.objects.annotation_keys import INJECTED, SIDECAR_LABEL
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import NODES, PDBS, PODS


class EvictionCache:
    """Pods with a sidecar, nodes, and disruption budgets."""

    def __init__(self, api: Api, *, namespaces: Collection[str] = ()) -> None:
        """Look at pods and budgets of these namespaces or (none given) of all."""
        self._namespaces = frozenset(namespaces)
        self._by_node: dict[str, set[tuple[str, str]]] = {}
        self._pods = Reflector(
            api,
            PODS,
            slim=pod_facts,
            changed=self._pod_changed,
            label_selector=f"{SIDECAR_LABEL}={INJECTED}",
        )
        self._nodes = Reflector(api, NODES, slim=node_facts, changed=_nothing)
        self._budgets = [
            Reflector(api, PDBS, slim=budget_facts, changed=_nothing, namespace=namespace)
            for namespace in (sorted(self._namespaces) or (None,))
        ]

    @property
    def synced(self) -> bool:
        """Whether all of it was seen."""
        return all(each.synced.is_set() for each in (self._pods, self._nodes, *self._budgets))

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in (self._pods, self._nodes, *self._budgets):
                group.create_task(each.run())

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return a pod with a sidecar in a namespace that we look after."""
        if self._namespaces and namespace not in self._namespaces:
            return None
        return self._pods.items.get((namespace, name))

    def pods(self) -> list[PodFacts]:
        """Return all of them."""
        return [
            each
            for each in self._pods.items.values()
            if not self._namespaces or each.namespace in self._namespaces
        ]

    def on_node(self, node: str) -> list[PodFacts]:
        """Return the pods of a node."""
        found = (self.pod(*key) for key in sorted(self._by_node.get(node, ())))
        return [each for each in found if each is not None]

    def is_driven_out(self, pod: PodFacts) -> bool:
        """Whether its node is cordoned, about to be removed, or has a taint that it does not tolerate."""
        found = self._nodes.items.get(("", pod.node))
        return found is not None and found.drives_out(pod)

    def budgets(self, namespace: str) -> list[Mapping[str, Any]]:
        """Return the disruption budgets of a namespace."""
        return [
            found.budget
            for each in self._budgets
            for found in each.items.values()
            if found.namespace == namespace
        ]

    def _pod_changed(self, change: ObjectChange[PodFacts]) -> None:
        if change.before is not None:
            self._by_node.get(change.before.node, set()).discard(change.key)
        if change.after is not None and change.after.node:
            self._by_node.setdefault(change.after.node, set()).add(change.key)


def _nothing(change: ObjectChange[Any]) -> None:
    del change
