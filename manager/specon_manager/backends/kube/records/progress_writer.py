"""TrainingProgress objects kept up to date in the background: few writes, merged, and bounded."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.objects.names import namespace_of, slug
from specon_manager.backends.kube.records.due_writes import DueWrites
from specon_manager.backends.kube.records.progress_record import patch_of, progress_object, progress_status
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import TRAINING_PROGRESSES
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.renewal import Differing

_AT_ONCE: Final = 8


class ProgressWriter:
    """Writes the progress of each replica: news at once, mere steps and losses now and then.

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
        rng: random.Random,
    ) -> None:
        """Write while `holds` says that this manager leads; mere steps every so many `seconds`.

        `rate` bounds the writes; `pod_of` names the pod of a replica.
        """
        self._api, self._holds, self._pod_of = api, holds, pod_of
        self._seconds = seconds
        self._replicas: Mapping[str, Replica] = {}
        self._seen: dict[str, Replica] = {}
        self._written: dict[str, tuple[float, Replica]] = {}
        self._differing = Differing[Replica]()
        self._existing: set[str] = set()
        self._strays = False
        """Whether there may be objects of replicas that are gone."""
        self._checkpoints: dict[str, tuple[int, str, float]] = {}
        """Step and path of the newest, and since when it is known."""
        self._now = 0.0
        self.due = DueWrites(
            self._write,
            kind=TRAINING_PROGRESSES.kind,
            holds=holds,
            rate=rate,
            rng=rng,
            calls=lambda name: 1 if name in self._existing or name not in self._seen else 2,
            at_once=_AT_ONCE,
        )

    def note_known(self, replica: Replica, *, checkpoint_at: float | None) -> None:
        """Take note that an object tells of the replica already, from an earlier manager."""
        self._existing.add(replica.name)
        self._strays = True
        # Not written again until something changes: of ten thousand each change would wait for all of them.
        self._written[replica.name] = (asyncio.get_running_loop().time(), replica)
        saved = replica.progress.checkpoint
        if saved is not None and checkpoint_at is not None:
            self._checkpoints[replica.name] = (saved.step, saved.path, checkpoint_at)

    def update(self, replicas: Mapping[str, Replica], now: float) -> None:
        """Take in the present state of all replicas; `now` is seconds on the manager's clock."""
        self._replicas, self._now = replicas, now
        seen = self._seen
        for name in self._differing(replicas):
            replica = replicas.get(name)
            if replica is None:
                self._note_gone(name)
            elif seen.get(name) is not replica:
                self._note_change(replica)
        if self._strays:
            self._strays = False
            for name in self._existing - replicas.keys():
                self._note_gone(name)

    def touch(self, name: str, replica: Replica, now: float) -> None:
        """Take in the present state of one replica."""
        self._now = now
        if self._seen.get(name) is not replica:
            self._note_change(replica)

    def _note_change(self, replica: Replica) -> None:
        name, now = replica.name, asyncio.get_running_loop().time()
        self._seen[name] = replica
        if name not in self._existing and _never_seen(replica):
            return  # of a thousand jobs that wait there is nothing to tell; TrainingJobs name them
        saved, held = replica.progress.checkpoint, self._checkpoints.get(name)
        if saved is not None and (held is None or held[:2] != (saved.step, saved.path)):
            self._checkpoints[name] = (saved.step, saved.path, self._now)
        last = self._written.get(name)
        if last is None or _headline(last[1]) != _headline(replica):
            self.due.put_first(name)
        elif _news(last[1]) != _news(replica):
            self.due.put(name)
        else:
            self.due.put(name, after=max(0.0, last[0] + self._seconds - now))

    def _note_gone(self, name: str) -> None:
        self._seen.pop(name, None)
        self._checkpoints.pop(name, None)
        self.due.put(name)

    async def _write(self, name: str) -> None:
        replica = self._seen.get(name)
        if replica is None:
            await self._delete(name)
            self._written.pop(name, None)
            self._existing.discard(name)
            return
        await self._put(replica)
        self._written[name] = (asyncio.get_running_loop().time(), replica)
        if self._seen.get(name) is None or _news(self._seen[name]) != _news(replica):
            self.due.put(name)

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
        self._strays = self._strays or replica.name not in self._seen
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
    """Return the fields that are written at once when they change, before everything else."""
    return (
        replica.phase,
        replica.node,
        replica.incarnation,
        replica.starts,
        replica.crashes,
        replica.moves,
        replica.attempts,
        replica.disrupted,
        replica.unproven,
        replica.moved_for,
        replica.progress.category,
        replica.progress.hang is None,
    )


def _news(replica: Replica) -> tuple[object, ...]:
    """Return further fields that are written at once when they change; trainers may save every second."""
    saved = replica.progress.checkpoint
    known = None if saved is None else (saved.step, saved.path, saved.verified)
    # The reason why a replica has no value yet. Once it has one, the words change with each report.
    unheard = replica.progress.reason if replica.progress.value is None else ""
    return (*_headline(replica), replica.note, known, unheard)
