"""What the jobs that run have left, in order: kept from one call to the next, and renewed where they differ.

A measured rest falls as time passes, and rises only by a report. So the value of a job at the last look is
at least what it is now, and who comes first is found among those that had most.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from math import inf
from typing import Final

from msgspec import Struct

from specon_manager.model.cluster import Job, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.renewal import find_touched, positions, renew
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.falling import Falling
from specon_manager.policies.shared_nodes import reserves
from specon_sidecar.classify import Category

_LEAST: Final = 1e-3
_MANY: Final = 0.5
"""Where so large a part has changed it is quicker to look at every job."""
_BEHIND: Final = 1e6  # times the remaining work, where convergence alone counts: after all unconverged jobs
_GAINS: Final = frozenset({Category.PROGRESSING, Category.WATCHING})


class Prospect(Struct, frozen=True, gc=False):
    """The measurements of a job that reserves what it uses."""

    job: Job
    seconds: float
    """What it had left at `since`."""
    since: float
    """From when on that falls; infinite while it does not train."""
    part: float | None
    """See `until_converged`."""
    factor: float
    """How much the size of its demand counts."""
    elastic: bool

    def left(self, now: float) -> float:
        """Return what it has left by now, seconds."""
        return self.seconds - max(0.0, now - self.since)


class Left(Struct, frozen=True, gc=False):
    """What a job has left at this moment."""

    job: Job
    work: float
    remaining: float


def read_reported_work(job: Job, replicas: Mapping[str, Replica]) -> tuple[float, float] | None:
    """Return what the sidecars of a job that reserves measured: `seconds` and `since` of a `Prospect`.

    A report may be older than the last start: while a job waits, its remaining work stays the same.
    """
    for name in job.spec.replicas:
        if (found := _take_estimate(job, replicas[name].progress)) is not None:
            return found
    return None


def _take_estimate(job: Job, progress: Progress) -> tuple[float, float] | None:
    left, at = progress.remaining_seconds, progress.reported_at
    if progress.step is None or progress.total_steps is None or left is None or at is None:
        return None
    since = job.trains_since
    if since is None:
        return left.value, inf
    return left.value, max(at, since)


def until_converged(job: Job, replicas: Mapping[str, Replica]) -> float | None:
    """Return the part of the remaining work until the job has converged, 0 where it has; None: unknown."""
    for name in job.spec.replicas:
        if (found := _until_converged(replicas[name].progress)) is not None:
            return found
    return None


def _until_converged(progress: Progress) -> float | None:
    if progress.category is Category.CONVERGED:
        return 0.0
    if progress.until_converged is not None and progress.category in _GAINS:
        return progress.until_converged
    return None


def varies(job: Job, active: int) -> bool:
    """Whether a job with so many replicas on nodes may grow, or give back what it was lent."""
    spec = job.spec
    if len(spec.replicas) == 1 or not spec.elastic:
        return False
    return active != len(spec.replicas) or spec.wanted_workers < len(spec.worker_names) or bool(job.dropped)


def rank(remaining: float, part: float | None, weight: float) -> float:
    """Return the seconds that a job counts as having left, less being served first; see `Expectation.rank`.

    The larger the less is left, whatever else is known: it never grows while `remaining` falls.
    """
    if not weight or part is None:
        return remaining
    if part <= 0:
        return remaining * (1 / (1 - weight) if weight < 1 else _BEHIND)
    return max(1e-3, min(part * remaining / weight, remaining))


class Prospects:
    """The jobs that occupy nodes: those with a measured rest, and the others.

    What sidecars say is looked at when somebody asks for it: between two Ticks most of them report, and where
    no job waits nobody asks.
    """

    __slots__ = (
        "_active",
        "_at",
        "_elastic",
        "_factor",
        "_heard",
        "_jobs",
        "_others",
        "_replicas",
        "_weight",
        "_works",
        "varying",
    )

    def __init__(self, snapshot: Snapshot, weight: float, factor: Callable[[Job], float]) -> None:
        """Look at every job; `weight` is that of `rank`, and `factor` how much the size of a job counts."""
        self._jobs = snapshot.jobs, positions(snapshot.jobs)
        self._replicas = snapshot.replicas, positions(snapshot.replicas)
        self._active, self._at = snapshot.active_jobs, snapshot.now
        self._weight, self._factor = weight, factor
        self._works: Falling[Prospect] = Falling({}, {})
        """Jobs with a measured rest, by work."""
        self._elastic: Falling[Prospect] = Falling({}, {})
        """The elastic jobs among them, by their remaining time."""
        self._others: dict[str, Job] = {}
        self._heard: set[str] | None = None
        """Jobs with news that these three do not contain yet; None: too many to name."""
        found = ((name, snapshot.jobs[name], count) for name, count in self._active.items())
        self.varying = {
            name: job for name, job, count in found if len(job.spec.replicas) > 1 and varies(job, count)
        }
        """Those that have not all workers that they might have, or more than their owner asked for."""

    def renewed(self, snapshot: Snapshot, factor: Callable[[Job], float]) -> "Prospects | None":
        """Return the prospects of this snapshot from what changed; None: too much did, look at every job.

        `factor` gives the same values as before, and may know this snapshot only.
        """
        jobs = renew(*self._jobs, snapshot.jobs)
        replicas = renew(*self._replicas, snapshot.replicas)
        if jobs is None or replicas is None or snapshot.now < self._at:
            return None
        records, former, active = snapshot.replicas, self._replicas[0], snapshot.active_jobs
        told = find_touched(former, records)
        touched = set(jobs[1])
        for name in replicas[1] if told is None else told:
            record = records.get(name) or former.get(name)
            if record is not None:
                touched.add(record.job)  # also where it has become active, or has not stayed so
        twin = object.__new__(Prospects)
        twin._jobs, twin._replicas = (snapshot.jobs, jobs[0]), (records, replicas[0])
        twin._active, twin._at = active, snapshot.now
        twin._weight, twin._factor = self._weight, factor
        twin._works, twin._elastic, twin._others = self._works, self._elastic, self._others
        twin.varying, twin._heard = self.varying, self._heard
        if touched:
            apart = self.varying.keys() & touched
            more = {name: snapshot.jobs[name] for name in touched if name in active}
            more = {name: job for name, job in more.items() if varies(job, active[name])}
            if apart or more:
                twin.varying = {name: job for name, job in self.varying.items() if name not in apart} | more
        twin._note_heard(touched, replicas[1])
        return twin

    def _note_heard(self, jobs: Iterable[str], replicas: Sequence[str]) -> None:
        """Note the jobs with a different record; if they are many, a look at every job is quicker."""
        heard, most = self._heard, _MANY * len(self._active)
        if heard is None or len(replicas) > len(self._replicas[0]) * _MANY:
            self._heard = None
            return
        records = self._replicas[0]
        heard = heard.union(jobs, (records[name].job for name in replicas if name in records))
        self._heard = None if len(heard) > most else heard

    @property
    def others(self) -> Mapping[str, Job]:
        """Jobs without a measurement, or with shared processors: what they have left may grow."""
        self._hear()
        return self._others

    def _hear(self) -> None:
        """Look at what sidecars said since this was asked last."""
        heard = self._heard
        if heard is None:
            self._others = {}
            self._take(self._active, None)
        elif heard:
            self._others = {name: job for name, job in self._others.items() if name not in heard}
            self._take([name for name in heard if name in self._active], heard)
        self._heard = set()

    def _take(self, names: Iterable[str], gone: Iterable[str] | None) -> None:
        """Look at these jobs, in place of those `gone`; None: in place of all."""
        now, weight, factor = self._at, self._weight, self._factor
        jobs, replicas, others = self._jobs[0], self._replicas[0], self._others
        works, elastic = [], []
        earlier = self._works or None
        for name in names:
            job = jobs[name]
            spec, known = job.spec, None if earlier is None else earlier.get(name)
            # Most have one replica: its report is all that there is to look at.
            alone = replicas[spec.replicas[0]].progress if len(spec.replicas) == 1 else None
            alike = known if known is not None and known.job.spec is spec else None
            if alike is None and not reserves(spec):
                found = None
            else:
                found = read_reported_work(job, replicas) if alone is None else _take_estimate(job, alone)
            if found is None:
                others[name] = job
                continue
            if alike is not None:
                size, grows = alike.factor, alike.elastic
            else:
                size, grows = factor(job), alone is None and spec.elastic
            if not weight:
                part = None
            else:
                part = until_converged(job, replicas) if alone is None else _until_converged(alone)
            seconds, since = found
            each = Prospect(job, seconds, since, part, size, grows)
            left = seconds - (now - since if now > since else 0.0)  # `Prospect.left`, written out
            left = max(left, _LEAST)
            works.append((name, (left if part is None else rank(left, part, weight)) * size, each))
            if grows:
                elastic.append((name, left, each))
        if gone is None:
            none = Falling[Prospect]({}, {})
            self._works, self._elastic = none.renewed((), works), none.renewed((), elastic)
        else:
            self._works = self._works.renewed(gone, works)
            self._elastic = self._elastic.renewed(gone, elastic)

    def by_work(self, now: float, longer: float, others: Iterable[Left]) -> Iterator[Left]:
        """Yield the jobs with a measured rest, and these others: most work first, at equal work the oldest.

        Only jobs that have `longer` left, seconds, are among them.
        """
        self._hear()
        weight = self._weight

        def key(each: Prospect) -> tuple[float, int] | None:
            left = each.seconds - (now - each.since if now > each.since else 0.0)
            left = max(_LEAST, left)  # `Prospect.left`, written out: a Tick asks for thousands
            return None if left <= longer else (-rank(left, each.part, weight) * each.factor, each.job.order)

        measured = (
            Left(each.job, -minus, max(1e-3, each.left(now)))
            for (minus, _), each in self._works.descending(key)
        )
        return merge(measured, others, key=lambda each: (-each.work, each.job.order))

    def by_time(self, now: float, others: Iterable[tuple[float, Job]]) -> Iterator[tuple[float, Job]]:
        """Yield the elastic jobs and these others with what they have left, the most first.

        Of equals the latest.
        """
        self._hear()

        def key(each: Prospect) -> tuple[float, int]:
            return -max(1e-3, each.left(now)), -each.job.order

        measured = ((-minus, each.job) for (minus, _), each in self._elastic.descending(key))
        return merge(measured, others, key=lambda each: (-each[0], -each[1].order))
