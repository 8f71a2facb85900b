"""Keeps a slimmed copy of a collection of the API, and says what changes in it."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from specon_manager.backends.kube.transport.api import PAGE_OBJECTS, Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.backoff import Backoff
from specon_manager.backends.kube.transport.resources import Object, Resource
from specon_manager.backends.kube.transport.turns import Turns

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.5  # seconds; doubled from failure to failure
_LONGEST_PAUSE: Final = 30.0
_SHORTEST_WATCH: Final = 1.0  # seconds; one that ends sooner, and empty, is a failure too
_WARN_FROM: Final = 3  # failures in a row; a connection may always break


class Tracked(Protocol):
    """What an object is slimmed to: at least its uid is left."""

    @property
    def uid(self) -> str:
        """The object's uid: one of the same name with another uid is another object."""


T = TypeVar("T", bound=Tracked)


class ObjectChange(Struct, Generic[T], frozen=True):
    """One change of one object."""

    key: tuple[str, str]
    """Namespace (empty for an object in none) and name."""
    before: T | None
    """None: it is new."""
    after: T | None
    """None: it is gone."""


class Reflector(Generic[T]):
    """Lists, then watches, and begins again where the server forgot what happened since.

    `changed` is called for each change of what `slim` leaves of an object, one after the other, removals
    before additions; an object that was replaced by one of the same name is removed, then added. It must not
    raise. An object that `slim` cannot read (it raised) is as if it were not there; see `ReadGuard`.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        *,
        slim: Callable[[Object], T],
        changed: Callable[[ObjectChange[T]], None],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resync_seconds: float = 600.0,
        watch_seconds: float = 300.0,
        silence_seconds: float = 180.0,
        page_size: int = PAGE_OBJECTS,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; seconds: between full comparisons, of one watch, and of silence before it is cut.

        A server sends a bookmark about each minute: three minutes of silence are a dead connection.
        """
        self._api = api
        self._resource = resource
        self._slim = slim
        self._changed = changed
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._resync_seconds = resync_seconds
        self._watch_seconds = watch_seconds
        self._silence_seconds = silence_seconds
        self._page_size = page_size
        jitter = rng or random.Random()  # noqa: S311  (not cryptography)
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, jitter)
        self._sleep = sleep
        self._monotonic = monotonic
        self._items: dict[tuple[str, str], T] = {}
        self._version: str | None = None
        self.synced = asyncio.Event()
        """Set once the whole collection was seen."""
        self.items: Mapping[tuple[str, str], T] = MappingProxyType(self._items)
        """All objects by namespace and name, as they are now."""

    @property
    def plural(self) -> str:
        """The followed resource, such as `pods`."""
        return self._resource.plural

    async def run(self) -> None:
        """Follow the collection until cancelled; whatever is wrong with the API is waited for."""
        resync_at = float("-inf")
        while True:
            try:
                if self._version is None or self._monotonic() >= resync_at:
                    await self._list()
                    resync_at = self._monotonic() + self._resync_seconds
                await self._watch(min(self._watch_seconds, resync_at - self._monotonic()))
            except (ApiError, ApiUnavailableError) as error:
                await self._recover(error)

    def learn(self, item: Object) -> None:
        """Take an object as this process has just written it, unless the known one may be newer.

        After a break the watch tells of it late, and somebody may ask before. The watch repeats it.
        """
        version = str((item.get("metadata") or {}).get("resourceVersion") or "")
        known = self._version or ""
        if version.isdecimal() and known.isdecimal() and int(version) > int(known):
            slim = self._slimmed(item)
            if slim is not None:
                self._put(_key(item), slim)

    async def _recover(self, error: ApiError | ApiUnavailableError) -> None:
        """Wait before the next attempt, longer after each failure; what the server forgot is listed now."""
        pause = self._backoff.next()
        if isinstance(error, ApiError):
            if error.expired:
                self._version = None
                pause = 0.0 if self._backoff.failures == 1 else pause
            pause = max(pause, min(error.retry_after or 0.0, _LONGEST_PAUSE))
        level = logging.WARNING if self._backoff.failures >= _WARN_FROM else logging.DEBUG
        _log.log(level, "following %s, failure %d: %s", self._resource.plural, self._backoff.failures, error)
        await self._sleep(pause)

    async def _list(self) -> None:
        """Read everything, page by page, and say in what it differs from the known objects."""
        listed: dict[tuple[str, str], T] = {}
        version = ""
        pages = self._api.pages(self._resource, self._namespace, limit=self._page_size, **self._selectors)
        turns = Turns()
        async for page, at in pages:
            for item in page:
                left = self._slimmed(item)
                if left is not None:
                    listed[_key(item)] = left
                await turns.give()
            version = at
        for key in [key for key in self._items if key not in listed]:
            self._put(key, None)
        for key, slim in listed.items():
            self._put(key, slim)
            await turns.give()
        self._version = version
        self.synced.set()

    async def _watch(self, seconds: float) -> None:
        """Follow what happens after the known version, until the server ends it."""
        assert self._version is not None
        began, heard = self._monotonic(), False
        events = self._api.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            seconds=max(1.0, seconds),
            silence_seconds=self._silence_seconds,
            **self._selectors,
        )
        turns = Turns()
        async with aclosing(events):
            async for kind, item in events:
                self._note_event(kind, item)
                heard = True
                self._backoff.succeed()
                await turns.give()
        if heard or self._monotonic() - began >= _SHORTEST_WATCH:
            self._backoff.succeed()
        else:
            raise ApiUnavailableError(f"the watch of {self._resource.plural} ended as soon as it began")

    def _note_event(self, kind: str, item: Object) -> None:
        if kind != "BOOKMARK":
            key, slim = _key(item), self._slimmed(item)
            # A DELETED shows the last state; what its watcher has not seen of it (an exit code) comes first.
            if kind != "DELETED" or (slim is not None and self._is_known(key, slim)):
                self._put(key, slim)
            if kind == "DELETED":
                self._put(key, None)
        with self._api.reading.of(self._resource.kind, "of a watch"):
            self._version = item["metadata"]["resourceVersion"]

    def _is_known(self, key: tuple[str, str], item: T) -> bool:
        known = self._items.get(key)
        return known is not None and known.uid == item.uid

    def _slimmed(self, item: Object) -> T | None:
        """Return the kept part of an object; None where it cannot be read."""
        with self._api.reading.of(self._resource.kind, "/".join(filter(None, _key(item)))):
            return self._slim(item)
        return None

    def _put(self, key: tuple[str, str], after: T | None) -> None:
        """Store the kept part of an object, and say so if it is a change."""
        before = self._items.get(key)
        if before == after:
            return
        if before is not None and after is not None and before.uid != after.uid:
            self._put(key, None)
            before = None
        if after is None:
            self._items.pop(key, None)
        else:
            self._items[key] = after
        self._changed(ObjectChange(key, before, after))


def _key(item: Object) -> tuple[str, str]:
    metadata = item.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return str(named.get("namespace") or ""), str(named.get("name") or "")
