"""What happens to an object between a request and the store: the same for every resource.

Creation, change and removal: names, uids, generations, finalizers, preconditions, admission, validation.
The HTTP server and the simulators both go through here.
"""

import secrets
import string
import uuid
from collections.abc import Awaitable, Callable

from fakekube import defaults, failures, patches, validation
from fakekube.clock import Clock
from fakekube.kinds import (
    CORE_EVENTS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    Kind,
    Object,
)
from fakekube.store import Key, Store, clone, key_of

Admission = Callable[[Kind, Object, str], Awaitable[Object]]
"""Changes an object before it is stored; the word is the operation, CREATE or UPDATE."""

_SYSTEM = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp", "selfLink")
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class Machinery:
    """The writing half of the server."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.admission: Admission | None = None
        self.schemas: dict[Kind, validation.Schema] = {}

    # -- reading ---------------------------------------------------------------------------------

    def read(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self.store.get(kind, (namespace, name))
        if found is None:
            raise failures.not_found(kind, name)
        return found

    # -- creation --------------------------------------------------------------------------------

    async def create(self, kind: Kind, namespace: str, body: Object, *, dry_run: bool = False) -> Object:
        value = clone(body)
        metadata = self._named(kind, namespace, value)
        for field in _SYSTEM:
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.clock.text()
        if kind.status and kind.name not in {"Node", "PersistentVolume", "Namespace"}:
            value.pop("status", None)
        if kind.counted:
            metadata["generation"] = 1
        self._check_namespace(kind, namespace)
        defaults.fill(kind, value, self.store.all(PRIORITY_CLASSES))
        if self.admission is not None:
            value = await self.admission(kind, value, "CREATE")
            defaults.fill(kind, value, self.store.all(PRIORITY_CLASSES))
        defaults.finish(kind, value, self.clock.text())
        value = self._checked(kind, None, value)
        if self.store.get(kind, key_of(value)) is not None:
            raise failures.already_exists(kind, metadata["name"])
        return value if dry_run else self.store.put(kind, value)

    def _named(self, kind: Kind, namespace: str, value: Object) -> Object:
        metadata: Object = value.setdefault("metadata", {})
        value["kind"], value["apiVersion"] = kind.name, kind.api_version
        if kind.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                raise failures.bad_request(
                    f"the namespace of the provided object does not match the namespace sent on the request "
                    f"({metadata['namespace']!r}, {namespace!r})"
                )
        else:
            metadata.pop("namespace", None)
        if not metadata.get("name") and metadata.get("generateName"):
            letters = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))
            metadata["name"] = metadata["generateName"] + letters
        return metadata

    def _check_namespace(self, kind: Kind, namespace: str) -> None:
        if not kind.namespaced:
            return
        found = self.store.get(NAMESPACES, ("", namespace))
        if found is None:
            raise failures.not_found(NAMESPACES, namespace)
        if found["metadata"].get("deletionTimestamp") and kind is not CORE_EVENTS:
            told = f"unable to create new content in namespace {namespace} because it is being terminated"
            causes = [
                ("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            ]
            raise failures.FailureError(403, "Forbidden", told, causes=causes)

    # -- change ----------------------------------------------------------------------------------

    async def replace(
        self, kind: Kind, key: Key, body: Object, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        before = self.read(kind, *key)
        metadata = body.get("metadata") or {}
        if metadata.get("name") not in {None, key[1]}:
            raise failures.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({key[1]})"
            )
        if not metadata.get("resourceVersion") and not kind.unconditional:
            cause = (
                "FieldValueInvalid",
                "Invalid value: 0x0: must be specified for an update",
                "metadata.resourceVersion",
            )
            raise failures.invalid(kind, key[1], [cause])
        old = before["metadata"]["uid"]
        if metadata.get("uid") not in {None, "", old}:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {old}"
            raise failures.conflict(kind, key[1], why)
        return await self._update(kind, before, clone(body), subresource, dry_run=dry_run)

    async def patch(
        self, kind: Kind, key: Key, form: str, body: object, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        if form == "strategic" and kind.custom:
            message = (
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )
            raise failures.FailureError(415, "UnsupportedMediaType", message)
        before = self.read(kind, *key)
        after = patches.apply(form, before, body)
        if not isinstance(after, dict) or not isinstance(after.get("metadata"), dict):
            raise failures.bad_request("the patch leaves no object")
        return await self._update(kind, before, clone(after), subresource, dry_run=dry_run)

    async def _update(
        self, kind: Kind, before: Object, after: Object, subresource: str, *, dry_run: bool
    ) -> Object:
        old, metadata = before["metadata"], after.setdefault("metadata", {})
        name = old["name"]
        if metadata.get("uid") not in {None, "", old["uid"]}:
            cause = f'Invalid value: "{metadata["uid"]}": field is immutable'
            raise failures.invalid(kind, name, [("FieldValueInvalid", cause, "metadata.uid")])
        if metadata.get("resourceVersion") not in {None, "", old["resourceVersion"]}:
            raise failures.modified(kind, name)
        after = _merged(kind, before, after, subresource)
        defaults.fill(kind, after, self.store.all(PRIORITY_CLASSES))
        if self.admission is not None and not subresource:
            after = await self.admission(kind, after, "UPDATE")
        if kind.counted and after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = old.get("generation", 1) + 1
        after = self._checked(kind, before, after, subresource)
        newest = self.store.get(kind, key_of(before))
        if newest is None or newest["metadata"]["resourceVersion"] != old["resourceVersion"]:
            raise failures.modified(kind, name)
        if dry_run or after == before:
            return after
        if _finished(after):
            return self.store.remove(kind, key_of(after))
        return self.store.put(kind, after)

    def _checked(self, kind: Kind, before: Object | None, after: Object, subresource: str = "") -> Object:
        schema = self.schemas.get(kind)
        causes = []
        if schema is not None:
            after, causes = schema(before, after)
        causes += validation.check(kind, before, after, subresource)
        if causes:
            raise failures.invalid(kind, after["metadata"].get("name", ""), causes)
        return after

    # -- removal ---------------------------------------------------------------------------------

    async def delete(
        self, kind: Kind, key: Key, options: Object | None = None, *, dry_run: bool = False
    ) -> Object:
        """Remove an object, or begin to: a pod on a node is given its time, finalizers keep it."""
        options = options or {}
        before = self.read(kind, *key)
        metadata = before["metadata"]
        wanted = options.get("preconditions") or {}
        for field, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(field) not in {None, metadata[field]}:
                why = (
                    f"Precondition failed: {words} in precondition: {wanted[field]}, "
                    f"{words} in object meta: {metadata[field]}"
                )
                raise failures.conflict(kind, key[1], why)
        after = clone(before)
        grace = _grace(kind, before, options.get("gracePeriodSeconds"))
        policy = options.get("propagationPolicy")
        finalizers = list(metadata.get("finalizers") or [])
        if policy == "Foreground" and "foregroundDeletion" not in finalizers:
            finalizers.append("foregroundDeletion")
        if policy == "Orphan" and "orphan" not in finalizers:
            finalizers.append("orphan")
        if finalizers:
            after["metadata"]["finalizers"] = finalizers
        already = metadata.get("deletionTimestamp") is not None
        left = metadata.get("deletionGracePeriodSeconds") or 0
        if not already or grace < left:
            after["metadata"]["deletionTimestamp"] = self.clock.text(ahead=grace)
            after["metadata"]["deletionGracePeriodSeconds"] = grace
            if kind.counted:
                after["metadata"]["generation"] = metadata.get("generation", 1) + 1
        if dry_run:
            return after
        if _finished(after):
            return self.store.remove(kind, key)
        return self.store.put(kind, after) if after != before else before

    # -- simulators ------------------------------------------------------------------------------

    async def set_status(self, kind: Kind, value: Object, **changes: object) -> Object:
        """Change fields of the status of an object as it is now; nothing where it is gone or replaced."""
        current = self.store.get(kind, key_of(value))
        if current is None or current["metadata"]["uid"] != value["metadata"]["uid"]:
            return value
        after = clone(current)
        status = after.setdefault("status", {})
        for field, change in changes.items():
            if change is None:
                status.pop(field, None)
            else:
                status[field] = change
        return current if after == current else self.store.put(kind, after)

    async def set_condition(  # noqa: PLR0917  (type, status, reason, message: the order of every condition)
        self, kind: Kind, value: Object, condition: str, status: str, reason: str = "", message: str = ""
    ) -> Object:
        """Set one condition; its time changes only when its status does."""
        current = self.store.get(kind, key_of(value))
        if current is None:
            return value
        before = list(current.get("status", {}).get("conditions") or [])
        old = next((entry for entry in before if entry["type"] == condition), None)
        moment = old["lastTransitionTime"] if old and old["status"] == status else self.clock.text()
        new = {"type": condition, "status": status, "lastTransitionTime": moment}
        new |= ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
        if old is not None and all(old.get(field) == word for field, word in new.items()):
            return current
        kept = [entry for entry in before if entry["type"] != condition]
        return await self.set_status(kind, current, conditions=[*kept, new])


def _merged(kind: Kind, before: Object, after: Object, subresource: str) -> Object:
    """Return what a request to this URL may change: the status alone, or all but the status."""
    metadata = after["metadata"]
    if subresource == "status":
        kept = before["metadata"] if kind.custom else {**before["metadata"], **_words(metadata)}
        return {
            **before,
            "metadata": clone(kept),
            **({"status": after["status"]} if "status" in after else {}),
        }
    result = {**after, "kind": kind.name, "apiVersion": kind.api_version}
    if kind.status:
        result.pop("status", None)
        if "status" in before:
            result["status"] = before["status"]
    result["metadata"] = {
        **{field: word for field, word in metadata.items() if field not in {*_KEPT, "resourceVersion"}},
        **{field: before["metadata"][field] for field in _KEPT if field in before["metadata"]},
        "name": before["metadata"]["name"],
        "resourceVersion": before["metadata"]["resourceVersion"],
    }
    if kind.namespaced:
        result["metadata"]["namespace"] = before["metadata"]["namespace"]
    return result


def _words(metadata: Object) -> Object:
    return {field: metadata[field] for field in ("labels", "annotations") if field in metadata}


def _finished(value: Object) -> bool:
    metadata = value["metadata"]
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (value["kind"] == "Namespace" and (value.get("spec") or {}).get("finalizers"))
    )


def _grace(kind: Kind, value: Object, asked: int | None) -> int:
    """Return the seconds that an object is given to end: only pods that may be running are given any."""
    if kind is not PODS:
        return 0
    terminal = value.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    if not value["spec"].get("nodeName") or terminal:
        return 0
    if asked is None:
        return int(value["spec"].get("terminationGracePeriodSeconds", 30))
    return max(asked, 0)
