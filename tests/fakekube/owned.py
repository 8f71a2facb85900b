"""What the controllers share: finding and making the objects that belong to an owner."""

from fakekube.kinds import PODS, Kind, Object
from fakekube.machinery import Machinery
from fakekube.store import Store, clone, key_of

TERMINAL = frozenset({"Succeeded", "Failed"})


def of(store: Store, kind: Kind, owner: Object) -> list[Object]:
    """Return the objects that an owner controls, by uid."""
    namespace = owner["metadata"]["namespace"]
    found = store.controlled(kind, owner["metadata"]["uid"])
    return [value for value in found if value["metadata"].get("namespace") == namespace]


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def ends(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def lives(pod: Object) -> bool:
    return phase(pod) not in TERMINAL and not ends(pod)


def disrupted(pod: Object) -> bool:
    """Return whether a pod carries the condition DisruptionTarget."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(entry["type"] == "DisruptionTarget" and entry["status"] == "True" for entry in conditions)


def child(kind: Kind, owner: Object, template: Object, metadata: Object) -> Object:
    """Return a manifest made from a template, with a reference to its owner."""
    made = clone(template)
    own = made.setdefault("metadata", {})
    for field, words in metadata.items():
        own[field] = {**(own.get(field) or {}), **words} if isinstance(words, dict) else words
    own["ownerReferences"] = [
        {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return made


async def remove(machinery: Machinery, pods: list[Object]) -> None:
    """Begin to delete pods that are not being deleted yet."""
    for pod in pods:
        if not ends(pod):
            await machinery.delete(PODS, key_of(pod), {"preconditions": {"uid": pod["metadata"]["uid"]}})


async def release(machinery: Machinery, pod: Object, finalizer: str) -> None:
    """Take a finalizer off a pod, which may be the end of it."""
    current = machinery.store.get(PODS, key_of(pod))
    kept = [] if current is None else current["metadata"].get("finalizers") or []
    if finalizer in kept:
        body = {"metadata": {"finalizers": [entry for entry in kept if entry != finalizer] or None}}
        await machinery.patch(PODS, key_of(pod), "merge", body)
