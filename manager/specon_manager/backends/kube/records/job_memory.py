"""TrainingJobs kept up to date: changes are written before they are ordered, the rest soon, in few writes."""

import asyncio
import heapq
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.records.job_record import (
    Recorded,
    nodes_in_words,
    phase_of,
    running,
    training_job_spec,
    training_job_status,
)
from specon_manager.backends.kube.records.job_restore import JobsRestored
from specon_manager.backends.kube.records.job_writer import Content, JobWriter, KeptJob
from specon_manager.backends.kube.records.names import EARLIER_OWNER
from specon_manager.backends.kube.records.waits import Waits
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting
from specon_manager.model.changes import Change
from specon_manager.model.cluster import Job

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
_AHEAD: Final = 1e6  # what goes before everything else that waits is due so long ago
_NEAR: Final = 5.0
_FAR: Final = 500.0
"""Positions in a queue up to which, and from which on, the pause between two writes grows no more."""
_SLOW: Final = 10.0
"""So many times longer than for positions is waited with what nobody reads."""

OwnerOf = Callable[[str], Object | None]
"""Reference to the owner of a job, None while it is not known."""


class _Told:
    """What the object of a job was last made to say."""

    def __init__(self, at: float) -> None:
        self.at = at
        """On the loop's clock."""
        self.headline: tuple[object, ...] = ()
        self.waiting: tuple[object, ...] = ()
        self.book: tuple[object, ...] = ()


class JobMemory:
    """One TrainingJob for each job that is held, may be scaled, or is being changed.

    A change is written through, with what is known of its replicas, before anything is ordered because of it
    and once more when it has ended. Everything else is written in the background, merged and bounded: what
    matters most first, places in a queue the later the further back they are.
    """

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        holds: Callable[[], bool],
        owner_of: OwnerOf,
        waits: Waits,
        seconds: float,
        rate: Rate,
        sleep: Callable[[float], Awaitable[Any]],
        rng: random.Random,
    ) -> None:
        """Write as `identity` while `holds` says so; places in queues about every so many `seconds`.

        `rate` bounds the writes in the background.
        """
        self._identity, self._owner_of, self._waits = identity, owner_of, waits
        self._seconds, self._rate, self._rng = seconds, rate, rng
        self._writer = JobWriter(api, identity=identity, holds=holds, sleep=sleep, rng=rng)
        self._holds = holds
        self._kept: dict[str, KeptJob] = {}
        self._changes: dict[str, Change] = {}
        """In flight and on record, by job; also one that could not be recorded, until it has ended."""
        self._refused: dict[str, str] = {}
        """Ids of changes in flight that could not be recorded, each with the reason."""
        self._unrecorded: set[str] = set()
        """The same with those that have just ended."""
        self._last: dict[str, Change] = {}
        """The change of each job that ended last."""
        self._history: Sequence[Change] = ()
        self._ended: set[str] = set()
        self._told: dict[str, _Told] = {}
        self._jobs: Mapping[str, Job] = {}
        self._touched: set[str] = set()
        self._waiting: Mapping[str, Waiting] = {}
        self._state = State()
        self._now = 0.0
        self._due: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []
        self._failures: dict[str, int] = {}
        self._woken = asyncio.Event()

    # -- changes: written before they are ordered ------------------------------------------------

    def touch(self, job: str) -> None:
        """Take note that something of the job may have changed though its own record did not."""
        self._touched.add(job)

    async def commit(self, state: State, now: float) -> Mapping[str, str]:
        """Write every change that went on or ended; return those that cannot be recorded, with the reason.

        Raises NotLeadingError, and ApiError where a change that was begun can be recorded no more.
        """
        self._state, self._now = state, now
        ended = self._newly_ended(state)
        for change in ended:
            self._last[change.job] = change
        self._unrecorded = set(self._refused)
        self._refused = {
            id_: why for id_, why in self._refused.items() if id_ not in {each.id for each in ended}
        }
        over = {change.job for change in ended if change.job in state.jobs}
        moving = [change for change in state.changes.values() if self._changes.get(change.job) is not change]
        names = dict.fromkeys([*sorted(over), *(change.job for change in moving)])
        writes = [self._record(name, state) for name in names if name in state.jobs]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        self._changes = dict(state.changes)
        return {
            change.id: self._refused[change.id]
            for change in state.changes.values()
            if change.id in self._refused and change.attempt == 1
        }

    async def _record(self, name: str, state: State) -> None:
        change, known = state.changes.get(name), self._changes.get(name)
        if change is not None and (change == known or change.id in self._refused):
            return
        kept = self._kept.setdefault(name, KeptJob(name))
        if change is None:
            begun = known is not None and known.id not in self._unrecorded
        else:
            begun = known is not None and known.id == change.id
        await self._writer.write_through(kept, lambda: self._content(name), begun=begun)
        if not kept.refused and not kept.gone:
            self._written(name)
        elif change is not None:
            self._refused[change.id] = kept.refused or "it cannot be recorded: its namespace is going"
        else:
            self._schedule(name, asyncio.get_running_loop().time() + _FIRST_PAUSE)
        kept.refused = ""

    def _newly_ended(self, state: State) -> list[Change]:
        if state.change_history is self._history:
            return []
        ended = [change for change in state.change_history if change.id not in self._ended]
        self._history = state.change_history
        self._ended = {change.id for change in state.change_history}
        return ended

    def _content(self, name: str) -> Content:
        """Return what the object of a job is to say by now; raises ValueError where it is too long."""
        state, job = self._state, self._state.jobs[name]
        owner = self._owner_of(name)
        waiting = self._waiting.get(name)
        return Content(
            spec=training_job_spec(job),
            status=training_job_status(
                job,
                state,
                waiting=waiting,
                last=self._last.get(name),
                owner=_named(owner, job),
                manager=self._identity,
                now=self._now,
            ),
            owner=owner,
        )

    # -- everything else: soon -------------------------------------------------------------------

    def tell(self, state: State, now: float) -> None:
        """Have what is new written in the background; call it after `commit`."""
        self._state, self._now = state, now
        names = self._touched & state.jobs.keys()
        if state.jobs is not self._jobs:
            before = self._jobs
            names |= {name for name, job in state.jobs.items() if before.get(name) is not job}
            for name in self._kept.keys() - state.jobs.keys():
                self._schedule(name, asyncio.get_running_loop().time())
            self._jobs = state.jobs
        self._touched.clear()
        if self._waiting or any(map(_waits, state.jobs.values())):
            waiting = self._waits.of(state, now)
            if waiting is not self._waiting:
                names |= waiting.keys() | self._waiting.keys()
                self._waiting = waiting
        for name in names:
            if name in state.jobs:
                self._look(name, state)

    def _look(self, name: str, state: State) -> None:
        job = state.jobs[name]
        if name not in self._kept and not _recorded(job):
            return
        now, told = asyncio.get_running_loop().time(), self._told.get(name)
        waiting = self._waiting.get(name)
        if told is None or told.headline != self._headline(job):
            # Of many that have news, those that were submitted first.
            self._schedule(name, now - _AHEAD + job.order)
        elif told.waiting != _said(waiting):
            self._schedule(name, told.at + self._pause(waiting))
        elif told.book != _book(job):
            self._schedule(name, told.at + self._seconds * _SLOW)

    def _pause(self, waiting: Waiting | None) -> float:
        """Return how old what is said of a place in a queue may be, seconds."""
        place = _NEAR if waiting is None else min(max(float(waiting.overall), _NEAR), _FAR)
        return self._seconds * place / (10 * _NEAR)

    def _headline(self, job: Job) -> tuple[object, ...]:
        """Return what is written as soon as it changes."""
        state, owner = self._state, self._owner_of(job.name)
        last, kept = self._last.get(job.name), self._kept.get(job.name)
        uid = "" if owner is None else str(owner.get("uid") or "")
        return (
            phase_of(job, state),
            nodes_in_words(running(job, state)),
            job.admitted,
            job.preemptions,
            job.changes,
            job.cooldown_until,
            None if last is None else last.id,
            training_job_spec(job),
            job.spec.held,
            job.spec.present,
            uid or ("" if kept is None else kept.owner),
        )

    def _written(self, name: str) -> None:
        job = self._state.jobs.get(name)
        if job is None:
            return
        told = self._told[name] = _Told(asyncio.get_running_loop().time())
        told.headline, told.book = self._headline(job), _book(job)
        told.waiting = _said(self._waiting.get(name))
        self._failures.pop(name, None)

    def _schedule(self, name: str, due: float) -> None:
        if self._failures.get(name) and name in self._due:
            return  # it waits for its next try, and will write what is known then
        if due >= self._due.get(name, float("inf")):
            return
        self._due[name] = due
        heapq.heappush(self._queue, (due, name))
        self._woken.set()

    async def run(self) -> None:
        """Write what is due, one object after the other, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            name = self._next(loop.time())
            if name is None:
                self._woken.clear()
                pause = None if not self._queue else max(0.0, self._queue[0][0] - loop.time())
                try:
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                except TimeoutError:
                    pass
                continue
            await self._rate.wait()
            if name not in self._kept or not self._kept[name].uid:
                await self._rate.wait()  # the object is created first: that is a write too
            await self._write(name)

    def _next(self, now: float) -> str | None:
        while self._queue and self._queue[0][0] <= now:
            due, name = heapq.heappop(self._queue)
            if self._due.get(name) == due:
                del self._due[name]
                return name
        return None

    async def _write(self, name: str) -> None:
        try:
            if name not in self._state.jobs:
                if (kept := self._kept.get(name)) is not None:
                    await self._writer.delete(kept)
                    self._forget(name)
                return
            kept = self._kept.setdefault(name, KeptJob(name))
            await self._writer.write(kept, lambda: self._content(name))
        except (ApiError, ApiUnavailableError, ValueError) as error:
            self._again(name, error)
        except KeyError:
            self._schedule(name, asyncio.get_running_loop().time())  # its job went while it was written
        except NotLeadingError:
            if self._holds():
                raise
            _log.info("TrainingJob of %s is not written: another manager may lead", name)
        else:
            self._written(name)

    def _again(self, name: str, error: Exception) -> None:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(count - 1, 20)) * self._rng.uniform(0.5, 1.0)
        if isinstance(error, ApiError) and error.retry_after is not None:
            pause = max(pause, error.retry_after)
        _log.warning("TrainingJob of %s is not written, next try in %.0f s: %s", name, pause, error)
        due = self._due[name] = asyncio.get_running_loop().time() + pause
        heapq.heappush(self._queue, (due, name))

    def _forget(self, name: str) -> None:
        if name in self._state.jobs:
            return  # there is another one of that name by now
        for known in (self._kept, self._told, self._last, self._failures):
            known.pop(name, None)

    # -- taking over -----------------------------------------------------------------------------

    async def take_over(self, told: JobsRestored, state: State, now: float) -> None:
        """Write our identity into every TrainingJob with a change in flight, or one that is closed.

        Raises what the API raises; a conflict means that one of them changed since it was read.
        """
        self._state, self._now = state, now
        self._kept, self._told, self._last = {}, {}, {}
        self._last = {change.job: change for change in told.history}
        for job, recorded in told.by_job.items():
            kept = self._kept[job] = KeptJob(job)
            kept.read(recorded)
        for job in (*told.changes, *told.closed):
            await self._writer.take(self._kept[job], self._content(job))
        self._changes = dict(state.changes)
        self._history = state.change_history
        self._ended = {change.id for change in state.change_history}
        for job, recorded in told.by_job.items():
            # Not written again until something changes: of a thousand each change would wait for all of them.
            self._known(job, recorded)

    def _known(self, name: str, recorded: Recorded) -> None:
        if recorded.text is None:
            return
        self._written(name)
        told = self._told[name]
        told.headline = (*told.headline[:-1], recorded.owner)
        told.waiting = (recorded.status.position, recorded.status.waiting_for)


def _recorded(job: Job) -> bool:
    """Whether the job has a TrainingJob: one that is held or may be scaled, and is its owner's to place."""
    return job.owned and job.spec.adjustable


def _waits(job: Job) -> bool:
    return job.owned and job.spec.held and not job.admitted


def _book(job: Job) -> tuple[object, ...]:
    """Return what only the next manager needs to know of a job, beside its headline."""
    return (
        job.submitted_at,
        job.queued_at,
        job.admitted_at,
        job.ended_at,
        job.trains_since,
        job.attained_seconds,
    )


def _said(waiting: Waiting | None) -> tuple[object, ...]:
    return (None, None) if waiting is None else (waiting.position, waiting.text[:1024])


def _named(owner: Object | None, job: Job) -> tuple[str, str] | None:
    """Return kind and UID of the owner; that of an earlier manager while it is not known."""
    if owner is not None and owner.get("uid"):
        return str(owner["kind"]), str(owner["uid"])
    earlier: Collection[str] = job.spec.template.get(EARLIER_OWNER) or ()
    return tuple(earlier) if earlier and all(earlier) else None  # type: ignore[return-value]
