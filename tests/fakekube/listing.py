"""Lists in pages, and watches."""

import asyncio
import base64
import binascii
import contextlib
import dataclasses

import msgspec
from aiohttp import web

from fakekube import failures, selectors
from fakekube.faults import Faults
from fakekube.kinds import Kind, Object
from fakekube.store import Entry, Store, key_of

_LONGEST = 3600.0


@dataclasses.dataclass(frozen=True)
class Query:
    """What a GET of a collection asks for."""

    namespace: str
    match: selectors.Match
    limit: int
    token: str
    revision: str
    initial: bool
    bookmarks: bool
    seconds: float


def query_of(kind: Kind, namespace: str, asked: "web.BaseRequest") -> Query:
    """Read the parameters of a URL; raises a 400 or 422 for a bad one."""
    words = asked.query
    initial = words.get("sendInitialEvents") == "true"
    if initial and words.get("resourceVersionMatch") != "NotOlderThan":
        cause = (
            "FieldValueForbidden",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            "resourceVersionMatch",
        )
        message = f'ListOptions.meta.k8s.io "" is invalid: {cause[2]}: {cause[1]}'
        raise failures.FailureError(422, "Invalid", message, causes=[cause])
    try:
        limit = int(words.get("limit") or 0)
        seconds = float(words.get("timeoutSeconds") or _LONGEST)
    except ValueError as error:
        raise failures.bad_request(f"strconv.ParseInt: {error}") from error
    revision = words.get("resourceVersion", "")
    if revision and not revision.isdigit():
        cause = (
            "FieldValueInvalid",
            f'Invalid value: "{revision}": strconv.ParseUint: invalid syntax',
            "resourceVersion",
        )
        raise failures.bad_request(cause[1])
    return Query(
        namespace=namespace,
        match=selectors.by_text(kind, words.get("labelSelector", ""), words.get("fieldSelector", "")),
        limit=limit,
        token=words.get("continue", ""),
        revision=revision,
        initial=initial,
        bookmarks=words.get("allowWatchBookmarks") in {"true", "1"},
        seconds=min(seconds, _LONGEST),
    )


def page(store: Store, kind: Kind, query: Query) -> Object:
    """Return one page of a list; all pages of one list show the state at its first page."""
    revision, start = store.revision, ("", "")
    if query.token:
        revision, start = _read_token(query.token)
        try:
            objects = store.as_of(kind, revision)
        except failures.FailureError as error:
            told = (
                "The provided continue parameter is too old to display a consistent list result. You can "
                "start a new list without the continue parameter, or use the continue token in this "
                "response to retrieve the remainder of the results."
            )
            raise failures.expired(told) from error
    else:
        objects = store.all(kind)
    found = [
        value
        for value in objects
        if key_of(value) > start and _within(value, query.namespace) and query.match(value)
    ]
    metadata: Object = {"resourceVersion": str(revision)}
    shown = found[: query.limit] if query.limit else found
    if len(shown) < len(found):
        token = msgspec.json.encode({"rv": revision, "start": key_of(shown[-1])})
        metadata["continue"] = base64.urlsafe_b64encode(token).decode()
        metadata["remainingItemCount"] = len(found) - len(shown)
    items = [
        {field: part for field, part in value.items() if field not in {"kind", "apiVersion"}}
        for value in shown
    ]
    return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        read = msgspec.json.decode(base64.urlsafe_b64decode(token))
        namespace, name = read["start"]
        return int(read["rv"]), (namespace, name)
    except (binascii.Error, msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
        raise failures.bad_request("continue key is not valid") from error


def _within(value: Object, namespace: str) -> bool:
    return not namespace or value["metadata"].get("namespace") == namespace


class Watch:
    """One open watch."""

    def __init__(self, store: Store, faults: Faults, kind: Kind, query: Query) -> None:
        self._store = store
        self._faults = faults
        self._kind = kind
        self._query = query
        self._revision = int(query.revision or 0)
        self._woken = asyncio.Event()
        self._marked = self._cut = False

    async def run(self, request: web.Request) -> web.StreamResponse:
        """Stream until the time is over, the history is gone, or the connection is cut."""
        begin = self._begin()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._woken = self._store.waker(self._kind)
        self._faults.watches.add(self)
        try:
            await self._stream(request, response, begin)
        finally:
            self._store.forget(self._woken)
            self._faults.watches.discard(self)
        return response

    def mark(self) -> None:
        """Send a bookmark soon, where they are taken."""
        self._marked = True
        self.look()

    def cut(self) -> None:
        """End the connection."""
        self._cut = True
        self.look()

    def look(self) -> None:
        """Look for news."""
        self._woken.set()

    async def _stream(self, request: web.Request, response: web.StreamResponse, begin: list[Object]) -> None:
        ends = asyncio.get_running_loop().time() + self._query.seconds
        await response.write(b"".join(map(_line, begin)))
        if begin and begin[-1]["type"] == "ERROR":
            return
        while True:
            self._woken.clear()
            events = [] if self._faults.frozen else self._news()
            if events:
                await response.write(b"".join(map(_line, events)))
                if events[-1]["type"] == "ERROR":
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ends):
                    await self._woken.wait()
            if self._cut:
                if request.transport is not None:
                    request.transport.abort()
                return
            if not self._woken.is_set():
                if not self._faults.frozen:
                    await response.write(b"".join(map(_line, self._next() + self._bookmark())))
                return

    def _news(self) -> list[Object]:
        """Return what has changed, and the bookmark that is due."""
        events = self._next()
        if self._marked:
            self._marked = False
            events += self._bookmark()
        return events

    def _begin(self) -> list[Object]:
        """Return what a watch says first; raises a 410 where it is to come as one."""
        if self._query.initial or self._query.revision in {"", "0"}:
            self._revision = self._store.revision
            found = [value for value in self._store.all(self._kind) if self._sees(value)]
            events = [{"type": "ADDED", "object": value} for value in found]
            return events + (self._bookmark(initial=True) if self._query.initial else [])
        try:
            self._store.since(self._kind, self._revision)
        except failures.FailureError as error:
            if self._faults.gone_by_status:
                raise
            return [{"type": "ERROR", "object": error.status()}]
        return []

    def _next(self) -> list[Object]:
        try:
            entries = self._store.since(self._kind, self._revision)
        except failures.FailureError as error:
            return [{"type": "ERROR", "object": error.status()}]
        events = [event for entry in entries if (event := self._event(entry)) is not None]
        if entries:
            self._revision = entries[-1].revision
        return events

    def _event(self, entry: Entry) -> Object | None:
        """Return what an entry is to somebody who sees only what the selectors let through."""
        saw = entry.before is not None and self._sees(entry.before)
        sees = entry.after is not None and self._sees(entry.after)
        if sees:
            return {"type": "MODIFIED" if saw else "ADDED", "object": entry.after}
        if not saw:
            return None
        assert entry.before is not None
        last = entry.after or entry.before
        metadata = {**entry.before["metadata"], "resourceVersion": last["metadata"]["resourceVersion"]}
        return {"type": "DELETED", "object": {**entry.before, "metadata": metadata}}

    def _sees(self, value: Object) -> bool:
        return _within(value, self._query.namespace) and self._query.match(value)

    def _bookmark(self, *, initial: bool = False) -> list[Object]:
        if not self._query.bookmarks:
            return []
        # Up to here nothing of this resource has been left out: the newest revision of the store is reached.
        metadata: Object = {
            "resourceVersion": str(max(self._revision, self._store.revision)),
            "creationTimestamp": None,
        }
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        value = {"kind": self._kind.name, "apiVersion": self._kind.api_version, "metadata": metadata}
        return [{"type": "BOOKMARK", "object": value}]


def _line(event: Object) -> bytes:
    return msgspec.json.encode(event) + b"\n"
