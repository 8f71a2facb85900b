"""Writes events on objects, so that `kubectl describe` tells the decisions; never in anybody's way.

events.k8s.io/v1 rather than core/v1: it has a field of its own for the action, and refuses texts that are too
long instead of storing them. Repetitions are left out here instead of being counted in a `series`: nobody
reads how often a manager said the same, and each count would be one more write.
"""

import asyncio
import logging
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import EVENTS, Object, Resource

_log = logging.getLogger(__name__)
CONTROLLER: Final = "specon.io/manager"
MAX_NOTE_BYTES: Final = 1024
_MAX_WORD: Final = 128  # characters of a reason, an action, a reporting instance
_REMEMBERED: Final = 8192  # recent events
_LONGEST_PAUSE: Final = 30.0


def reference(resource: Resource, namespace: str | None, name: str, uid: str = "") -> Object:
    """Return what an event refers to an object by."""
    found = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": namespace or "",
        "name": name,
        "uid": uid,
    }
    return {field: value for field, value in found.items() if value}


class Recorder:
    """Queues events and writes them slowly; what does not fit is dropped and counted."""

    def __init__(
        self,
        api: Api,
        *,
        instance: str,
        per_second: float = 10.0,
        burst: int = 100,
        queue: int = 2000,
        repeat_seconds: float = 600.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Speak as `instance` of the manager; the same is not said again within `repeat_seconds`."""
        self._api = api
        self._instance = instance[:_MAX_WORD] or "manager"
        self._rate = Rate(per_second, burst, monotonic=monotonic, sleep=sleep)
        self._queue: deque[Object] = deque()
        self._longest = queue
        self._repeat_seconds = repeat_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._wall = wall
        self._said: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._woken = asyncio.Event()
        self.written = 0
        self.dropped = 0
        """Those that did not fit or that the server did not take."""

    def record(self, regarding: Object, note: Note) -> None:
        """Say it of the object that `regarding` refers to (see `reference`); never waits, never raises."""
        try:
            if not self._is_news(regarding, note):
                return
            event = event_of(regarding, note, instance=self._instance, at=self._wall())
        except Exception:  # noqa: BLE001  (what tells of a decision must not be able to stop it)
            _log.exception("no event of %s for %s", note.reason, note.replica)
            self.dropped += 1
            return
        if len(self._queue) >= self._longest:
            self._queue.popleft()  # the latest news is the one that somebody looks for
            self.dropped += 1
        self._queue.append(event)
        self._woken.set()

    async def run(self) -> None:
        """Write queued events until cancelled; an event that is not taken is not written again."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._queue:
                await self._rate.wait()
                await self._write(self._queue.popleft())

    async def _write(self, event: Object) -> None:
        try:
            await self._api.create(EVENTS, event, event["metadata"]["namespace"])
        except (ApiError, ApiUnavailableError) as error:
            self.dropped += 1
            _log.debug("event dropped: %s", error)
            pause = error.retry_after if isinstance(error, ApiError) else 1.0
            await self._sleep(min(pause or 0.0, _LONGEST_PAUSE))
        else:
            self.written += 1

    def _is_news(self, regarding: Object, note: Note) -> bool:
        subject = regarding.get("uid") or f"{regarding.get('namespace')}/{regarding.get('name')}"
        key = (str(regarding.get("kind")), subject, note.replica, note.reason, note.topic or note.text)
        now = self._monotonic()
        said = self._said.get(key)
        if said is not None and now - said < self._repeat_seconds:
            return False
        self._said[key] = now
        self._said.move_to_end(key)
        if len(self._said) > _REMEMBERED:
            self._said.popitem(last=False)
        return True


def event_of(regarding: Object, note: Note, *, instance: str, at: datetime) -> Object:
    """Return the event that says `note` of an object, in the object's namespace."""
    namespace = regarding.get("namespace") or "default"
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "namespace": namespace,
            # Names are up to 253 characters, and most objects' names may be as long.
            "name": f"{str(regarding['name'])[:200].rstrip('.-')}.{uuid.uuid4().hex[:16]}",
        },
        "eventTime": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "action": note.action[:_MAX_WORD],
        "reason": note.reason[:_MAX_WORD],
        "regarding": regarding,
        "type": "Warning" if note.warning else "Normal",
        "note": cut_to_bytes(note.text, MAX_NOTE_BYTES),
    }


def cut_to_bytes(text: str, limit: int) -> str:
    """Return the text, cut to at most `limit` bytes of UTF-8 with a sign that it was cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode(errors="ignore") + "…"
