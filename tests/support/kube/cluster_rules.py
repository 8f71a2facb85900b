"""What must hold at each moment on a cluster with managers, looked at whenever anything is written there."""

from typing import Any

from fakekube import owned
from fakekube.cluster import FakeCluster
from fakekube.kinds import (
    JOBS,
    LEADER_WORKER_SETS,
    MIGRATIONS,
    NODES,
    PODS,
    STATEFUL_SETS,
    TRAINING_JOBS,
    WORKLOADS,
    Kind,
)
from fakekube.kueue import QUEUE
from fakekube.leader_worker_sets import NAME as GROUP_NAME
from fakekube.quantities import add, amounts, requested
from fakekube.store import Entry
from specon_manager.backends.kube.objects.identity import identity_of
from support.kube.scripted_sidecar import Sidecars

Object = dict[str, Any]
INJECTED = ("specon.io/sidecar", "injected")
PLACEHOLDER = "specon.io/placeholder"
SUSPENDED_FOR = "specon.io/suspended-for"
FINAL = {"Succeeded", "RolledBack", "Failed", "Refused"}
_PINNING = {"Evicting", "Restoring", "Verifying"}
_CHANGING = {"Leaving", "Coming", "Verifying"}
_TERMINAL = {"Succeeded", "Failed"}


class Rules:
    """Collects every breach, in words."""

    def __init__(self, cluster: FakeCluster, sidecars: Sidecars) -> None:
        self._cluster, self._sidecars = cluster, sidecars
        self.breaches: list[str] = []
        self.at_once: dict[str, int] = {}
        """The most pods that lived at once, by replica."""
        self.may_overlap: set[str] = set()
        """Replicas whose owner itself begins the next pod while the former one ends."""
        self._restored: set[str] = set()
        """UIDs of the pods that were created for a move."""
        self._specs: dict[tuple[str, str, str], Object] = {}
        cluster.store.written.append(self._written)

    def close(self) -> None:
        if self._written in self._cluster.store.written:
            self._cluster.store.written.remove(self._written)

    def _written(self, kind: Kind, entry: Entry) -> None:
        if kind is PODS:
            self._pod(entry)
        elif kind in {JOBS, STATEFUL_SETS} and entry.after is not None:
            self._owner(kind, entry.after)

    def _pod(self, entry: Entry) -> None:
        pod = entry.after
        if pod is None:
            return
        if _is_injected(pod):
            identity = identity_of(pod)
            assert identity is not None
            if entry.before is None and self._moving(identity.replica):
                self._restored.add(pod["metadata"]["uid"])
            self._evicted(entry.before, pod, identity.replica)
            if _lives(pod):
                self._one_only(identity.replica)
        if _lives(pod):
            self._room(pod["spec"]["nodeName"])

    def _one_only(self, replica: str) -> None:
        pods = [pod for pod in self._cluster.store.all(PODS) if _is_injected(pod) and _lives(pod)]
        live = [pod for pod in pods if (found := identity_of(pod)) is not None and found.replica == replica]
        if replica in self.may_overlap:
            live = [pod for pod in live if not pod["metadata"].get("deletionTimestamp")]
        self.at_once[replica] = max(self.at_once.get(replica, 0), len(live))
        if len(live) > 1:
            names = [pod["metadata"]["name"] for pod in live]
            self.breaches.append(f"{replica} has {len(live)} live pods at once: {names}")

    def _evicted(self, before: Object | None, pod: Object, replica: str) -> None:
        """No pod that trained is told to end by us without a checkpoint that was asked for and verified."""
        metadata = pod["metadata"]
        if before is None or before["metadata"].get("deletionTimestamp"):
            return
        if not metadata.get("deletionTimestamp") or metadata["uid"] not in self._sidecars.first:
            return
        conditions = pod.get("status", {}).get("conditions") or []
        ours = any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions)
        of_group = (pod["metadata"].get("labels") or {}).get(GROUP_NAME, "")
        group = self._cluster.store.get(LEADER_WORKER_SETS, (metadata["namespace"], of_group))
        ours = ours or SUSPENDED_FOR in ((group or {}).get("metadata", {}).get("annotations") or {})
        for owner in metadata.get("ownerReferences") or []:
            job = self._cluster.store.get(JOBS, (metadata["namespace"], owner["name"]))
            told = [] if job is None else [job, *owned.of(self._cluster.store, WORKLOADS, job)]
            ours = ours or any(SUSPENDED_FOR in (each["metadata"].get("annotations") or {}) for each in told)
        if ours and metadata["uid"] not in self._sidecars.verified | self._restored:
            self.breaches.append(f"{replica}: {metadata['name']} was evicted without a verified checkpoint")

    def _room(self, name: str) -> None:
        node = self._cluster.store.get(NODES, ("", name))
        if node is None:
            return
        pods = [pod for pod in self._cluster.store.all(PODS) if _lives(pod)]
        taken = add(*(requested(pod) for pod in pods if pod["spec"]["nodeName"] == name))
        room = amounts(node["status"]["allocatable"])
        over = [each for each, number in taken.items() if number > room.get(each, 0.0) + 1e-9]
        if over:
            self.breaches.append(f"{name} is over its capacity of {over}")

    def _owner(self, kind: Kind, owner: Object) -> None:
        metadata = owner["metadata"]
        for each in (owner.get("status") or {}).get("conditions") or []:
            if kind is JOBS and each["type"] == "Failed" and each["status"] == "True":
                self.breaches.append(f"Job {metadata['name']} failed: {each.get('message')}")
        if QUEUE in (metadata.get("labels") or {}):
            return  # Kueue adds the labels of nodes that go with a flavor
        template = owner["spec"]["template"]
        first = self._specs.setdefault((kind.name, metadata["namespace"], metadata["name"]), template)
        if template != first:
            self.breaches.append(f"the template of {kind.name} {metadata['name']} was changed")

    def _moving(self, replica: str) -> bool:
        statuses = [each.get("status") or {} for each in self._cluster.store.all(MIGRATIONS)]
        alone = any(each.get("replica") == replica and each.get("state") in _PINNING for each in statuses)
        return alone or self._moving_whole(replica.rpartition("/")[0].rpartition("/")[0])

    def _moving_whole(self, job: str) -> bool:
        records = [each for each in self._cluster.store.all(TRAINING_JOBS) if each["spec"]["job"] == job]
        changes = [(each.get("status") or {}).get("change") or {} for each in records]
        return any(each.get("kind") == "move" and each.get("state") in _CHANGING for each in changes)

    def leftovers(self) -> list[str]:
        """Return what a move that is over must not leave behind, and moves that are not over."""
        store = self._cluster.store
        left = [
            f"placeholder {pod['metadata']['name']}"
            for pod in store.all(PODS)
            if PLACEHOLDER in (pod["metadata"].get("labels") or {})
        ]
        left += [
            f"{each['kind']} {each['metadata']['name']} carries {SUSPENDED_FOR}"
            for each in (*store.all(JOBS), *store.all(LEADER_WORKER_SETS), *store.all(WORKLOADS))
            if SUSPENDED_FOR in (each["metadata"].get("annotations") or {})
        ]
        return left + [
            f"Migration {each['metadata']['name']} is {(each.get('status') or {}).get('state')}"
            for each in store.all(MIGRATIONS)
            if (each.get("status") or {}).get("state") not in FINAL
        ]


def _is_injected(pod: Object) -> bool:
    key, word = INJECTED
    return (pod["metadata"].get("labels") or {}).get(key) == word


def _lives(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod.get("status", {}).get("phase") not in _TERMINAL
