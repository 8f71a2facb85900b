"""What the server remembers: objects, one global resource version, and per resource a log of what happened.

Objects in here are never changed in place: a write stores a new one.
"""

import asyncio
import bisect
import dataclasses
from typing import TYPE_CHECKING

import msgspec

from fakekube import failures
from fakekube.kinds import Kind, Object

if TYPE_CHECKING:
    from collections.abc import Callable

Key = tuple[str, str]
"""Namespace (empty where there is none) and name."""


def clone(value: Object) -> Object:
    """Return a deep copy that shares nothing."""
    copy: Object = msgspec.json.decode(msgspec.json.encode(value))
    return copy


def key_of(value: Object) -> Key:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing that happened: created (no `before`), changed, or removed (no `after`)."""

    revision: int
    before: Object | None
    after: Object | None


class Store:
    """Objects by resource, with the history that watches are served from."""

    def __init__(self) -> None:
        self.revision = 1
        self._objects: dict[Kind, dict[Key, Object]] = {}
        self._ordered: dict[Kind, list[Key]] = {}
        """The keys of a resource in their order; none of one that was added to, or removed from, since."""
        self._controlled: dict[tuple[Kind, str], set[Key]] = {}
        """What each owner controls."""
        self._logs: dict[Kind, list[Entry]] = {}
        self._compacted: dict[Kind, int] = {}
        self._waiting: dict[asyncio.Event, Kind | None] = {}
        self.written: list[Callable[[Kind, Entry], None]] = []

    def get(self, kind: Kind, key: Key) -> Object | None:
        return self._objects.get(kind, {}).get(key)

    def all(self, kind: Kind, namespace: str = "") -> list[Object]:
        """Return the objects of a resource, in the order of namespace and name."""
        found = self._objects.get(kind, {})
        if kind not in self._ordered:
            self._ordered[kind] = sorted(found)
        return [found[key] for key in self._ordered[kind] if not namespace or key[0] == namespace]

    def controlled(self, kind: Kind, owner: str) -> list[Object]:
        """Return the objects of a resource that the owner with this uid controls, in the same order."""
        found = self._objects.get(kind, {})
        return [found[key] for key in sorted(self._controlled.get((kind, owner), ()))]

    def put(self, kind: Kind, value: Object) -> Object:
        """Store an object as it is, with the next resource version; return what was stored."""
        self.revision += 1
        kept = clone(value)
        kept["metadata"]["resourceVersion"] = str(self.revision)
        objects = self._objects.setdefault(kind, {})
        before = objects.get(key_of(kept))
        if before is None:
            self._ordered.pop(kind, None)
        self._index(kind, before, kept)
        objects[key_of(kept)] = kept
        self._append(kind, Entry(self.revision, before, kept))
        return kept

    def remove(self, kind: Kind, key: Key) -> Object:
        self.revision += 1
        before = self._objects[kind].pop(key)
        self._ordered.pop(kind, None)
        self._index(kind, before, None)
        last = clone(before)
        last["metadata"]["resourceVersion"] = str(self.revision)
        self._append(kind, Entry(self.revision, last, None))
        return last

    def _index(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Take note of who controls an object now."""
        for value, known in ((before, False), (after, True)):
            for reference in [] if value is None else value["metadata"].get("ownerReferences") or []:
                if reference.get("controller"):
                    assert value is not None
                    keys = self._controlled.setdefault((kind, reference["uid"]), set())
                    (keys.add if known else keys.discard)(key_of(value))

    # -- history ---------------------------------------------------------------------------------

    def since(self, kind: Kind, revision: int) -> list[Entry]:
        """Return what happened after a revision.

        Raises a 410 where that has been compacted away.
        """
        oldest = self._compacted.get(kind, 0)
        if revision < oldest:
            raise failures.expired(f"too old resource version: {revision} ({oldest})")
        log = self._logs.get(kind, [])
        return log[bisect.bisect_right(log, revision, key=lambda entry: entry.revision) :]

    def as_of(self, kind: Kind, revision: int) -> list[Object]:
        """Return the objects as they were at a revision; raises a 410 where that has been compacted away."""
        found = dict(self._objects.get(kind, {}))
        for entry in reversed(self.since(kind, revision)):
            last = entry.after or entry.before
            assert last is not None
            found.pop(key_of(last), None)
            if entry.before is not None:
                found[key_of(entry.before)] = entry.before
        return [found[key] for key in sorted(found)]

    def compact(self, *kinds: Kind) -> None:
        """Forget the history (of all resources, or some): older resource versions get a 410 from now on."""
        self.revision += 1  # so that a reader of the newest state is behind, as on a busy server
        for kind in kinds or tuple(self._logs):
            self._logs[kind] = []
            self._compacted[kind] = self.revision

    # -- waiting ---------------------------------------------------------------------------------

    def waker(self, kind: Kind | None = None) -> asyncio.Event:
        """Return an event that is set at each write (of one resource), until it is given to `forget`."""
        event = asyncio.Event()
        self._waiting[event] = kind
        return event

    def forget(self, waker: asyncio.Event) -> None:
        del self._waiting[waker]

    def _append(self, kind: Kind, entry: Entry) -> None:
        self._logs.setdefault(kind, []).append(entry)
        for event, about in self._waiting.items():
            if about is None or about is kind:
                event.set()
        for told in self.written:
            told(kind, entry)
