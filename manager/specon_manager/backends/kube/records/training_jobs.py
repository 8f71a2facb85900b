"""TrainingJobs kept up to date: transactions before they are ordered, the rest soon, in few writes."""

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from typing import Final

from specon_manager.backends.kube.objects.names import EARLIER_OWNER
from specon_manager.backends.kube.records.due_writes import DueWrites
from specon_manager.backends.kube.records.expected_start import (
    ExpectedStartStatus,
    is_news,
    to_status,
)
from specon_manager.backends.kube.records.job_record import (
    Recorded,
    flying_of,
    hostname_of,
    nodes_in_words,
    not_moved,
    not_scaled_out,
    phase_of,
    read_training_job,
    running,
    to_first_schema,
    training_job_name,
    training_job_spec,
    training_job_status,
)
from specon_manager.backends.kube.records.job_text import REMEMBERED
from specon_manager.backends.kube.records.record_writer import Content, Home, Kept, RecordWriter
from specon_manager.backends.kube.records.records import status_of
from specon_manager.backends.kube.records.restored_jobs import UNSEEN
from specon_manager.backends.kube.records.waits import Waits
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import TRAINING_JOBS, Object, OwnerOf
from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting
from specon_manager.model.cluster import Job
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.model.renewal import Chosen, Differing
from specon_manager.model.transactions import Transaction

_NEAR: Final = 5.0
_FAR: Final = 500.0
"""Positions in a queue up to which, and from which on, the pause between two writes grows no more."""
_SLOW: Final = 10.0
"""So many times longer than for positions is waited with what nobody reads."""
_LONGEST_PAUSE: Final = 300.0

ForecastOf = Callable[[str, float], ExpectedStart | None]
"""When a job is expected to start, in seconds from a moment; None where nobody has asked."""


class _Told:
    """What the object of a job was last made to say."""

    def __init__(self, at: float) -> None:
        self.at = at
        """On the loop's clock."""
        self.headline: tuple[object, ...] = ()
        self.waiting: tuple[object, ...] = ()
        self.left_alone: tuple[str | None, str | None] = None, None
        """Why it is not moved, and not scaled out."""
        self.start: ExpectedStartStatus | None = None
        self.book: tuple[object, ...] = ()


class TrainingJobs:
    """One TrainingJob for each job that is held, may be scaled, trains as one, or is changed as a whole.

    Its transaction in flight is written with the facts about its replicas, and once more when it has ended.
    Everything else is written in the background: what matters most first, places in a queue the later the
    further back they are.
    """

    def __init__(
        self,
        writer: RecordWriter,
        *,
        identity: str,
        holds: Callable[[], bool],
        owner_of: OwnerOf,
        waits: Waits,
        start_of: ForecastOf,
        seconds: float,
        rate: Rate,
        rng: random.Random,
    ) -> None:
        """Write as `identity` while `holds` says so; places in queues about every so many `seconds`.

        `rate` bounds the writes in the background.
        """
        self._writer, self._identity = writer, identity
        self._owner_of, self._waits, self._seconds = owner_of, waits, seconds
        self._start_of = start_of
        self._kept: dict[str, Kept] = {}
        self._history: dict[str, tuple[Transaction, ...]] = {}
        """What ended of each job as a whole, oldest first, the latest ones."""
        self._hostnames: dict[str, dict[str, str]] = {}
        """By node, of the transaction of a job: a new manager has to write it before it sees any node."""
        self._told: dict[str, _Told] = {}
        self._jobs: Mapping[str, Job] = {}
        self._differing = Differing[Job]()
        self._held_back = Chosen(_waits)
        self._touched: set[str] = set()
        self._waiting: Mapping[str, Waiting] = {}
        self._state, self._now = State(), 0.0
        self.due = DueWrites(
            self._write,
            kind=TRAINING_JOBS.kind,
            holds=holds,
            rate=rate,
            rng=rng,
            calls=lambda name: 1 if name in self._kept and self._kept[name].uid else 2,
            longest_pause=_LONGEST_PAUSE,
        )

    # -- transactions in flight: written before they are ordered ---------------------------------

    async def write(self, name: str, state: State, now: float, *, begun: bool) -> str:
        """Write the object of a job, however long that takes; return why it cannot be, else nothing."""
        self._state, self._now = state, now
        kept = self._find_kept(name)
        await self._writer.write_through(kept, lambda: self._content(name), begun=begun)
        refused, kept.refused = kept.refused, ""
        if not refused and not kept.gone:
            self._note_written(name)
            self.due.note_written(name)
        elif flying_of(name, state) is None:
            self.due.put(name, after=1.0)
        if kept.gone and not begun:
            return refused or "it cannot be recorded: its namespace is going"
        return refused

    def note_ended(self, over: Transaction) -> None:
        """Take note of what ended of a job as a whole."""
        self._history[over.job] = (*self._history.get(over.job, ()), over)[-REMEMBERED:]

    # -- everything else: soon -------------------------------------------------------------------

    def reference(self, job: str) -> Object | None:
        """Return an owner reference to the TrainingJob of a job, None while there is none."""
        kept = self._kept.get(job)
        if kept is None or not kept.uid:
            return None
        return {
            "apiVersion": TRAINING_JOBS.api_version,
            "kind": TRAINING_JOBS.kind,
            "name": kept.name.name,
            "uid": kept.uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }

    def touch(self, job: str) -> None:
        """Take note that something of the job may have changed though its own record did not."""
        self._touched.add(job)

    def tell(self, state: State, now: float) -> None:
        """Have news written in the background; call it after the transactions in flight were written."""
        self._state, self._now = state, now
        names = self._touched & state.jobs.keys()
        if state.jobs is not self._jobs:
            first = not self._jobs
            differing = set(self._differing(state.jobs))
            names |= differing & state.jobs.keys()
            for name in self._kept.keys() if first else differing & self._kept.keys():
                if name not in state.jobs:
                    self.due.put(name)
            self._jobs = state.jobs
        self._touched.clear()
        if self._waiting or self._held_back(state.jobs):
            waiting = self._waits.of(state, now)
            if waiting is not self._waiting:
                names |= waiting.keys() | self._waiting.keys()
                self._waiting = waiting
        for name in names:
            if name in state.jobs:
                self._look(name, state.jobs[name])

    def _look(self, name: str, job: Job) -> None:
        if name not in self._kept and not _is_recorded(job):
            return
        now, told = asyncio.get_running_loop().time(), self._told.get(name)
        waiting = self._waiting.get(name)
        if told is None or told.headline != self._headline(job):
            # Of many that have news, those that were submitted first.
            self.due.put_first(name, place=job.order)
        elif told.waiting != _said(waiting) or is_news(told.start, self._start(name), self._now):
            self.due.put(name, after=told.at + self._pause(waiting) - now)
        elif job.spec.immovable != UNSEEN and told.left_alone != _left_alone(job):
            self.due.put(name, after=told.at + self._seconds - now)
        elif told.book != _book(job):
            self.due.put(name, after=told.at + self._seconds * _SLOW - now)

    def _pause(self, waiting: Waiting | None) -> float:
        """Return how old a written place in a queue may be, seconds."""
        place = _NEAR if waiting is None else min(max(float(waiting.overall), _NEAR), _FAR)
        return self._seconds * place / (10 * _NEAR)

    def _headline(self, job: Job) -> tuple[object, ...]:
        """Return the fields that are written as soon as they change."""
        state, owner = self._state, self._owner_of(job.name)
        history, kept = self._history.get(job.name, ()), self._kept.get(job.name)
        uid = "" if owner is None else str(owner.get("uid") or "")
        return (
            phase_of(job, state),
            nodes_in_words(running(job, state)),
            job.admitted,
            job.preemptions,
            job.hang_restarts,
            job.failures,
            job.cooldown_until,
            history[-1].id if history else None,
            training_job_spec(job),
            job.spec.held,
            job.spec.present,
            uid or ("" if kept is None else kept.owner),
        )

    def _note_written(self, name: str) -> None:
        job = self._state.jobs.get(name)
        if job is None:
            return
        told = self._told[name] = _Told(asyncio.get_running_loop().time())
        told.headline, told.book = self._headline(job), _book(job)
        told.waiting, told.left_alone = _said(self._waiting.get(name)), _left_alone(job)
        told.start = self._start(name)

    def _start(self, name: str) -> ExpectedStartStatus | None:
        """Return when a job that waits starts, as its object would say it."""
        if name not in self._waiting:
            return None
        return to_status(self._start_of(name, self._now), self._now)

    async def _write(self, name: str) -> None:
        if name not in self._state.jobs:
            if (kept := self._kept.get(name)) is not None:
                await self._writer.delete(kept)
                self._forget(name)
            return
        try:
            await self._writer.write(self._find_kept(name), lambda: self._content(name))
        except KeyError:
            self.due.put(name)  # its job went while it was written
        else:
            self._note_written(name)

    def _forget(self, name: str) -> None:
        if name in self._state.jobs:
            return  # there is another one of that name by now
        for known in (self._kept, self._told, self._history):
            known.pop(name, None)

    def _find_kept(self, name: str) -> Kept:
        if (kept := self._kept.get(name)) is None:
            kept = self._kept[name] = Kept(_home(name))
        return kept

    def _content(self, name: str) -> Content:
        """Return what the object of a job is to say by now; raises ValueError where it is too long."""
        state, job = self._state, self._state.jobs[name]
        owner = self._owner_of(name)
        flying, known = flying_of(name, state), self._hostnames.get(name, {})
        if flying is not None:
            nodes = {*flying.before.values(), *flying.after.values()} - {""}
            known = self._hostnames[name] = {node: hostname_of(node, state, known) for node in nodes}
        else:
            self._hostnames.pop(name, None)
        status = training_job_status(
            job,
            state,
            waiting=self._waiting.get(name),
            start=self._start(name),
            history=self._history.get(name, ()),
            owner=_name(owner, job),
            hostnames=known,
            manager=self._identity,
            now=self._now,
        )
        earlier = to_first_schema(status)
        return Content(
            spec=training_job_spec(job),
            status=status_of(status),
            first_schema=None if earlier is None else status_of(earlier),
            owner=owner,
        )

    # -- taking over -----------------------------------------------------------------------------

    async def take_over(
        self, by_job: Mapping[str, Recorded], open_jobs: Collection[str], state: State, now: float
    ) -> None:
        """Write our identity into every TrainingJob that has a change in flight, or one that is closed now.

        Raises what the API raises; a conflict means that one of them changed since it was read.
        """
        self._state, self._now = state, now
        self._kept, self._told = {}, {}
        self._history = {job: each.history[-REMEMBERED:] for job, each in by_job.items() if each.history}
        for over in state.history:
            known = {each.id for each in self._history.get(over.job, ())}
            if over.whole and over.job in open_jobs and over.id not in known:
                self.note_ended(over)  # closed now
        for job, recorded in by_job.items():
            kept = self._find_kept(job)
            kept.note_known(recorded.name, recorded.uid, recorded.version, recorded.spec, recorded.owner)
            if recorded.transaction is not None:
                pins, wanted = recorded.status.pins or (), recorded.transaction.wanted
                self._hostnames[job] = {wanted.get(pin.replica, ""): pin.hostname for pin in pins}
        for job in open_jobs:
            await self._writer.take(self._kept[job], self._content(job))
        for job, recorded in by_job.items():
            # Not written again until something changes: of a thousand each change would wait for all of them.
            self._learn(job, recorded)

    def _learn(self, name: str, recorded: Recorded) -> None:
        if recorded.text is None:
            return
        self._note_written(name)
        told = self._told[name]
        told.headline = (*told.headline[:-1], recorded.owner)
        told.waiting = (recorded.status.position, recorded.status.waiting_for)
        told.left_alone = recorded.status.not_moved, recorded.status.not_scaled_out
        told.start = recorded.status.expected_start


def _home(job: str) -> Home:
    def writer_of(item: Object) -> str | None:
        """Return who wrote it; what a former leader wrote late counts only where he had begun something."""
        read, _ = read_training_job(item)
        going_on = read is not None and (read.transaction is not None or bool(read.broken))
        return read.status.manager if read is not None and going_on else None

    return Home(resource=TRAINING_JOBS, names=(training_job_name(job),), writer_of=writer_of)


def _is_recorded(job: Job) -> bool:
    """Whether the job has a TrainingJob: it is its owner's to place, and held, scaled, or trains as one."""
    spec = job.spec
    return job.owned and (spec.adjustable or (spec.coupled and len(spec.replicas) > 1))


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


def _left_alone(job: Job) -> tuple[str | None, str | None]:
    return not_moved(job), not_scaled_out(job)


def _said(waiting: Waiting | None) -> tuple[object, ...]:
    return (None, None) if waiting is None else (waiting.position, waiting.text[:1024])


def _name(owner: Object | None, job: Job) -> tuple[str, str] | None:
    """Return kind and UID of the owner; that of an earlier manager while it is not known."""
    if owner is not None and owner.get("uid"):
        return str(owner["kind"]), str(owner["uid"])
    earlier: Collection[str] = job.spec.template.get(EARLIER_OWNER) or ()
    return tuple(earlier) if earlier and all(earlier) else None  # type: ignore[return-value]
