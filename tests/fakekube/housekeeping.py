"""Controllers that nobody orders: garbage, lost pods, namespaces, accounts, disruption budgets."""

import math
from collections.abc import Iterable

from fakekube import owned, selectors
from fakekube.kinds import NAMESPACES, NODES, PDBS, PODS, SERVICE_ACCOUNTS, Kind, Object
from fakekube.machinery import Machinery
from fakekube.store import Entry, clone, key_of


class Garbage:
    """Removes what belonged to an owner that is gone, and what is in a namespace that ends."""

    def __init__(self, machinery: Machinery, kinds: Iterable[Kind]) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self._kinds = tuple(kinds)
        self._changed = True
        self._store.written.append(self._written)

    def _written(self, kind: Kind, entry: Entry) -> None:
        """Take note of what may leave something to do: a beginning, an end, or a step towards one."""
        if entry.before is None or entry.after is None:
            self._changed = True
            return
        before, after = entry.before["metadata"], entry.after["metadata"]
        disowned = before.get("ownerReferences") != after.get("ownerReferences")
        self._changed = self._changed or disowned or bool(after.get("deletionTimestamp"))

    async def act(self) -> None:
        if not self._changed:
            return
        self._changed = False
        try:
            await self._collect()
        except BaseException:
            self._changed = True
            raise

    async def _collect(self) -> None:
        everything = [(kind, value) for kind in self._kinds for value in self._store.all(kind)]
        uids = {value["metadata"]["uid"] for _, value in everything if "uid" in value["metadata"]}
        for kind, value in everything:
            owners = value["metadata"].get("ownerReferences") or []
            if owners and not any(owner["uid"] in uids for owner in owners):
                await self._remove(kind, value)
            elif value["metadata"].get("deletionTimestamp"):
                await self._finalize(kind, value, everything)
        for namespace in self._store.all(NAMESPACES):
            await self._end_namespace(namespace)

    async def _remove(self, kind: Kind, value: Object) -> None:
        if (
            not value["metadata"].get("deletionTimestamp")
            and self._store.get(kind, key_of(value)) is not None
        ):
            await self._machinery.delete(kind, key_of(value))

    async def _finalize(self, kind: Kind, value: Object, everything: list[tuple[Kind, Object]]) -> None:
        """Do what the propagation policies Foreground and Orphan ask for, then let the owner go."""
        finalizers = value["metadata"].get("finalizers") or []
        todo = {"foregroundDeletion", "orphan"} & set(finalizers)
        if not todo:
            return
        uid = value["metadata"]["uid"]
        below = [
            (other_kind, other)
            for other_kind, other in everything
            if any(owner["uid"] == uid for owner in other["metadata"].get("ownerReferences") or [])
            and self._store.get(other_kind, key_of(other)) is not None
        ]
        for other_kind, other in below:
            if "orphan" in todo:
                body = {"metadata": {"ownerReferences": None}}
                await self._machinery.patch(other_kind, key_of(other), "merge", body)
            else:
                await self._remove(other_kind, other)
        if "orphan" in todo or not below:
            kept = [entry for entry in finalizers if entry not in todo]
            await self._machinery.patch(
                kind, key_of(value), "merge", {"metadata": {"finalizers": kept or None}}
            )

    async def _end_namespace(self, namespace: Object) -> None:
        if not namespace["metadata"].get("deletionTimestamp"):
            return
        name = namespace["metadata"]["name"]
        await self._machinery.set_status(NAMESPACES, namespace, phase="Terminating")
        inside = [
            (kind, value) for kind in self._kinds if kind.namespaced for value in self._store.all(kind, name)
        ]
        for kind, value in inside:
            await self._remove(kind, value)
        if not any(self._store.all(kind, name) for kind in self._kinds if kind.namespaced):
            last = clone(self._machinery.read(NAMESPACES, "", name))
            last["spec"].pop("finalizers", None)
            self._store.put(NAMESPACES, last)
            await self._machinery.delete(NAMESPACES, ("", name))


class PodGarbage:
    """Removes pods that no kubelet ends: their node is gone, or they were told to end and never had one."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for pod in self._store.all(PODS):
            node = pod["spec"].get("nodeName")
            lost = bool(node) and self._store.get(NODES, ("", node)) is None
            unplaced = not node and owned.ends(pod)
            if not (lost or unplaced):
                continue
            if owned.phase(pod) not in owned.TERMINAL:
                await self._machinery.set_status(PODS, pod, phase="Failed")
            uid = pod["metadata"]["uid"]
            if self._store.get(PODS, key_of(pod)) is not None:
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                await self._machinery.delete(PODS, key_of(pod), options)


class Accounts:
    """Gives every namespace its default service account."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for namespace in self._store.all(NAMESPACES):
            name = namespace["metadata"]["name"]
            ends = namespace["metadata"].get("deletionTimestamp")
            if not ends and self._store.get(SERVICE_ACCOUNTS, (name, "default")) is None:
                await self._machinery.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})


class Budgets:
    """Keeps the status of disruption budgets."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for budget in self._store.all(PDBS):
            await self._reconcile(budget)

    async def _reconcile(self, budget: Object) -> None:
        match = selectors.by_object(budget["spec"].get("selector"))
        pods = [
            pod
            for pod in self._store.all(PODS, budget["metadata"]["namespace"])
            if match(pod["metadata"].get("labels") or {}) and owned.phase(pod) not in owned.TERMINAL
        ]
        healthy = sum(1 for pod in pods if owned.phase(pod) == "Running" and not owned.ends(pod))
        wanted = _desired(budget["spec"], len(pods))
        await self._machinery.set_status(
            PDBS,
            budget,
            expectedPods=len(pods),
            currentHealthy=healthy,
            desiredHealthy=wanted,
            disruptionsAllowed=max(0, healthy - wanted),
            disruptedPods=None,
            observedGeneration=budget["metadata"].get("generation", 1),
        )


def _desired(spec: Object, expected: int) -> int:
    if spec.get("minAvailable") is not None:
        return _share(spec["minAvailable"], expected)
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return 1


def _share(value: int | str, expected: int) -> int:
    return math.ceil(expected * int(value[:-1]) / 100) if isinstance(value, str) else value
