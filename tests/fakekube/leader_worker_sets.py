"""A stand-in for the controllers and the pod webhook of LeaderWorkerSet, as their sources read at 060ab4d.

The StatefulSet of leaders has the set's name and its annotations. Each leader owns the StatefulSet of its
workers, which the garbage collector removes once the leader is gone. A pod that is deleted or restarts takes
its whole group along. Rolling updates are left out.
"""

from fakekube import owned
from fakekube.kinds import LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Kind, Object
from fakekube.machinery import Machinery
from fakekube.store import clone, key_of

PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME, GROUP, WORKER, SIZE = (f"{PREFIX}{word}" for word in ("name", "group-index", "worker-index", "size"))
_RECREATES = {"RecreateGroupOnPodRestart", "RecreateGroupAfterStart"}


class LeaderWorkerSetController:
    """Acts like both reconcilers, first that of the sets and then that of their pods."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self.away = False
        """Whether it is not running."""

    @staticmethod
    def defaulted(kind: Kind, pod: Object, operation: str) -> Object:
        """Return a pod of a set with the labels and variables that its webhook adds."""
        labels = (pod["metadata"].get("labels") or {}) if kind is PODS else {}
        if operation != "CREATE" or NAME not in labels:
            return pod
        made = clone(pod)
        ordinal = made["metadata"]["name"].rpartition("-")[2]
        added = {GROUP: ordinal} if labels.get(WORKER) == "0" else {WORKER: ordinal}
        made["metadata"]["labels"] = {**labels, **added}
        index = made["metadata"]["labels"][WORKER]
        for container in (*made["spec"].get("initContainers", []), *made["spec"]["containers"]):
            container["env"] = [{"name": "LWS_WORKER_INDEX", "value": index}, *container.get("env", [])]
        return made

    async def act(self) -> None:
        if self.away:
            return
        for value in self._store.all(LEADER_WORKER_SETS):
            if not value["metadata"].get("deletionTimestamp"):
                await self._lead(value)
        for pod in self._store.all(PODS):
            labels = pod["metadata"].get("labels") or {}
            key = (pod["metadata"]["namespace"], labels.get(NAME, ""))
            value = self._store.get(LEADER_WORKER_SETS, key) if WORKER in labels else None
            if value is not None:
                await self._look_after(value, pod)

    async def _lead(self, value: Object) -> None:
        metadata, group = value["metadata"], value["spec"]["leaderWorkerTemplate"]
        replicas = value["spec"]["replicas"]
        annotations = {**(metadata.get("annotations") or {}), f"{PREFIX}replicas": str(replicas)}
        found = self._store.get(STATEFUL_SETS, key_of(value))
        if found is not None:
            stale = {
                key: None for key in found["metadata"].get("annotations") or {} if key not in annotations
            }
            body = {"metadata": {"annotations": {**stale, **annotations}}, "spec": {"replicas": replicas}}
            await self._machinery.patch(STATEFUL_SETS, key_of(found), "merge", body)
            return
        labels = {NAME: metadata["name"], WORKER: "0"}
        template = _template(group.get("leaderTemplate") or group["workerTemplate"], labels, group["size"])
        spec = _spec(metadata["name"], replicas, template, labels)
        own = {"name": metadata["name"], "labels": labels, "annotations": annotations}
        made = owned.child(LEADER_WORKER_SETS, value, {"spec": spec}, own)
        await self._machinery.create(STATEFUL_SETS, metadata["namespace"], made)

    async def _look_after(self, value: Object, pod: Object) -> None:
        """Recreate the group of a pod that goes or restarted; give a leader its workers."""
        group = value["spec"]["leaderWorkerTemplate"]
        if group["restartPolicy"] in _RECREATES and (owned.ends(pod) or _restarted(pod)):
            leader = self._leader_of(pod)
            if leader is not None and not owned.ends(leader):
                await self._machinery.delete(PODS, key_of(leader), {"propagationPolicy": "Foreground"})
            return
        if pod["metadata"]["labels"][WORKER] != "0" or owned.ends(pod) or group["size"] == 1:
            return
        ready = owned.phase(pod) == "Running"
        if value["spec"]["startupPolicy"] == "LeaderReady" and not ready:
            return
        if self._store.get(STATEFUL_SETS, key_of(pod)) is not None:
            return
        labels = {NAME: value["metadata"]["name"], GROUP: pod["metadata"]["labels"][GROUP]}
        template = _template(group["workerTemplate"], labels, group["size"])
        spec = _spec(labels[NAME], group["size"] - 1, template, labels) | {"ordinals": {"start": 1}}
        annotations = value["metadata"].get("annotations") or {}
        own = {"name": pod["metadata"]["name"], "labels": labels, "annotations": annotations}
        made = owned.child(PODS, pod, {"spec": spec}, own)
        await self._machinery.create(STATEFUL_SETS, pod["metadata"]["namespace"], made)

    def _leader_of(self, pod: Object) -> Object | None:
        """Return the leader of a pod's group as it is now, itself if it is one; None for a former group's."""
        if pod["metadata"]["labels"][WORKER] == "0":
            return pod
        (above,) = pod["metadata"]["ownerReferences"]
        key = (pod["metadata"]["namespace"], above["name"])
        workers, leader = self._store.get(STATEFUL_SETS, key), self._store.get(PODS, key)
        if workers is None or leader is None or workers["metadata"]["uid"] != above["uid"]:
            return None
        (owner,) = workers["metadata"]["ownerReferences"]
        return leader if owner["uid"] == leader["metadata"]["uid"] else None


def _template(template: Object, labels: Object, size: int) -> Object:
    made = clone(template)
    own = made.setdefault("metadata", {})
    own["labels"] = {**(own.get("labels") or {}), **labels}
    own["annotations"] = {**(own.get("annotations") or {}), SIZE: str(size)}
    return made


def _spec(service: str, replicas: int, template: Object, labels: Object) -> Object:
    return {
        "serviceName": service,
        "replicas": replicas,
        "podManagementPolicy": "Parallel",
        "template": template,
        "selector": {"matchLabels": labels},
    }


def _restarted(pod: Object) -> bool:
    status = pod.get("status") or {}
    found = (*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or []))
    return status.get("phase") in {"Running", "Pending"} and any(each.get("restartCount") for each in found)
