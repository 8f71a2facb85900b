"""TrainingProgress objects kept up to date in the background: few writes, merged, and bounded."""

import asyncio
import heapq
import logging
import random
from collections.abc import Callable, Mapping
from typing import Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.records.names import namespace_of, slug
from specon_manager.backends.kube.records.progress_record import patch_of, progress_object, progress_status
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import TRAINING_PROGRESSES
from specon_manager.model.cluster import Phase, Replica

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 8
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_AHEAD: Final = 1e6  # what goes before everything else that waits is due so long ago


class ProgressWriter:
    """Writes what is known of each replica: news at once, mere steps and losses now and then.

    What changes again before it is written is written once. A write that fails is tried again, ever later.
    """

    def __init__(
        self,
        api: Api,
        *,
        holds: Callable[[], bool],
        pod_of: Callable[[str], str | None],
        seconds: float = 60.0,
        rate: Rate,
        rng: random.Random | None = None,
    ) -> None:
        """Write while `holds` says that this manager leads; mere steps every so many `seconds`.

        `rate` bounds the writes; `pod_of` names the pod of a replica.
        """
        self._api, self._holds, self._pod_of = api, holds, pod_of
        self._seconds = seconds
        self._rate = rate
        self._rng = rng or random.Random()  # noqa: S311  (jitter, not cryptography)
        self._replicas: Mapping[str, Replica] = {}
        self._seen: dict[str, Replica] = {}
        self._due: dict[str, float] = {}
        """When each is to be written, on the loop's clock; those that are not in it have nothing new."""
        self._queue: list[tuple[float, str]] = []
        self._written: dict[str, tuple[float, Replica]] = {}
        self._existing: set[str] = set()
        self._failures: dict[str, int] = {}
        self._checkpoints: dict[str, tuple[int, str, float]] = {}
        """Step and path of the newest, and since when it is known."""
        self._busy: set[str] = set()
        self._woken = asyncio.Event()
        self._now = 0.0

    def known(self, replica: Replica, *, checkpoint_at: float | None) -> None:
        """Take note that an object tells of the replica already, from an earlier manager."""
        self._existing.add(replica.name)
        # Not written again until something changes: of ten thousand each change would wait for all of them.
        self._written[replica.name] = (asyncio.get_running_loop().time(), replica)
        saved = replica.progress.checkpoint
        if saved is not None and checkpoint_at is not None:
            self._checkpoints[replica.name] = (saved.step, saved.path, checkpoint_at)

    def update(self, replicas: Mapping[str, Replica], now: float) -> None:
        """Take in what is known now, of all replicas; `now` is seconds on the manager's clock."""
        self._replicas, self._now = replicas, now
        seen = self._seen
        for name, replica in replicas.items():
            if seen.get(name) is not replica:
                self._changed(replica)
        if len(seen) > len(replicas) or self._existing - seen.keys():
            for name in (seen.keys() | self._existing) - replicas.keys():
                self._gone(name)

    def touch(self, name: str, replica: Replica, now: float) -> None:
        """Take in what is known now of one replica."""
        self._now = now
        if self._seen.get(name) is not replica:
            self._changed(replica)

    def _changed(self, replica: Replica) -> None:
        name, now = replica.name, asyncio.get_running_loop().time()
        self._seen[name] = replica
        if name not in self._existing and _never_seen(replica):
            return  # of a thousand jobs that wait there is nothing to tell; TrainingJobs name them
        saved, held = replica.progress.checkpoint, self._checkpoints.get(name)
        if saved is not None and (held is None or held[:2] != (saved.step, saved.path)):
            self._checkpoints[name] = (saved.step, saved.path, self._now)
        last = self._written.get(name)
        if last is None or _headline(last[1]) != _headline(replica):
            self._schedule(name, now - _AHEAD)
        elif _news(last[1]) != _news(replica):
            self._schedule(name, now)
        else:
            self._schedule(name, max(now, last[0] + self._seconds))

    def _gone(self, name: str) -> None:
        self._seen.pop(name, None)
        self._checkpoints.pop(name, None)
        self._schedule(name, asyncio.get_running_loop().time())

    def _schedule(self, name: str, due: float) -> None:
        if self._failures.get(name) and name in self._due:
            return  # it waits for its next try, and will write what is known then
        if due >= self._due.get(name, float("inf")):
            return
        self._due[name] = due
        heapq.heappush(self._queue, (due, name))
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                name = self._next(loop.time()) if len(self._busy) < _AT_ONCE else None
                if name is None:
                    await self._rest(loop.time())
                    continue
                await self._rate.wait()
                if name not in self._existing and name in self._seen:
                    await self._rate.wait()  # the object is created first: that is a write too
                self._busy.add(name)
                group.create_task(self._write(name))

    def _next(self, now: float) -> str | None:
        while self._queue and self._queue[0][0] <= now:
            due, name = heapq.heappop(self._queue)
            if self._due.get(name) != due:
                continue  # it was scheduled anew since
            if name in self._busy:
                # Never two writes of one object at once: the older could come last.
                self._due[name] = now + _FIRST_PAUSE
                heapq.heappush(self._queue, (self._due[name], name))
                continue
            del self._due[name]
            return name
        return None

    async def _rest(self, now: float) -> None:
        self._woken.clear()
        if len(self._busy) >= _AT_ONCE or not self._queue:
            await self._woken.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, self._queue[0][0] - now)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _write(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        replica = self._seen.get(name)
        try:
            await (self._delete(name) if replica is None else self._put(replica))
        except (ApiError, ApiUnavailableError, NotLeadingError) as error:
            count = self._failures[name] = self._failures.get(name, 0) + 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (count - 1)) * self._rng.uniform(0.5, 1.0)
            if isinstance(error, ApiError) and error.retry_after is not None:
                pause = max(pause, error.retry_after)
            _log.warning("TrainingProgress of %s is not written, next try in %.0f s: %s", name, pause, error)
            due = self._due[name] = loop.time() + pause
            heapq.heappush(self._queue, (due, name))
        else:
            self._failures.pop(name, None)
            if replica is None:
                self._written.pop(name, None)
                self._existing.discard(name)
            else:
                self._written[name] = (loop.time(), replica)
                if self._seen.get(name) is None or _news(self._seen[name]) != _news(replica):
                    self._schedule(name, loop.time())
        finally:
            self._busy.discard(name)
            self._woken.set()

    def _fence(self) -> None:
        if not self._holds():
            raise NotLeadingError("another manager may lead")

    async def _put(self, replica: Replica) -> None:
        self._fence()
        name, namespace = slug(replica.name), namespace_of(replica.name)
        held = self._checkpoints.get(replica.name)
        status = progress_status(
            replica,
            now=self._now,
            pod=self._pod_of(replica.name) if replica.incarnation is not None else None,
            checkpoint_at=None if held is None else held[2],
        )
        for existing in (replica.name in self._existing, False):
            if not existing and not await self._create(replica, namespace):
                return
            try:
                await self._api.patch(
                    TRAINING_PROGRESSES,
                    name,
                    namespace,
                    {"status": patch_of(status)},
                    form="merge",
                    subresource="status",
                )
            except ApiError as error:
                if not error.not_found or not existing:
                    raise
                self._existing.discard(replica.name)
            else:
                return

    async def _create(self, replica: Replica, namespace: str) -> bool:
        """Make the object; whether there is one now. There is none in a namespace that is going or gone."""
        try:
            await self._api.create(TRAINING_PROGRESSES, progress_object(replica.name), namespace)
        except ApiError as error:
            if error.not_found or "NamespaceTerminating" in error.causes:
                return False
            if not error.already_exists:
                raise
        self._existing.add(replica.name)
        return True

    async def _delete(self, name: str) -> None:
        self._fence()
        try:
            await self._api.delete(TRAINING_PROGRESSES, slug(name), namespace_of(name))
        except ApiError as error:
            if not error.not_found:
                raise


def _never_seen(replica: Replica) -> bool:
    """Whether the replica waits for the first time, or is one that its job does not have at present."""
    idle = replica.phase is Phase.PENDING or replica.phase is Phase.ABSENT
    return idle and replica.former is None and not (replica.starts or replica.crashes or replica.moves)


def _headline(replica: Replica) -> tuple[object, ...]:
    """Return what is written at once when it changes, before everything else."""
    return (
        replica.phase,
        replica.node,
        replica.incarnation,
        replica.starts,
        replica.crashes,
        replica.moves,
        replica.attempts,
        replica.moved_for,
        replica.progress.category,
    )


def _news(replica: Replica) -> tuple[object, ...]:
    """Return what is written at once when it changes: these too, but trainers may save every second."""
    saved = replica.progress.checkpoint
    known = None if saved is None else (saved.step, saved.path, saved.verified)
    # Why nothing is known of a replica; of one of which something is, the words change with each report.
    unheard = replica.progress.reason if replica.progress.value is None else ""
    return (*_headline(replica), replica.note, known, unheard)
