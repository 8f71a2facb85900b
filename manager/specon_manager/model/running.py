"""The jobs that occupy nodes and may be changed: kept, and renewed where they differ."""

from collections.abc import Mapping
from functools import cached_property
from itertools import filterfalse
from operator import attrgetter

from specon_manager.model.cluster import Job
from specon_manager.model.renewal import Positions, positions, renewed


class Running:
    """Those jobs that are active, have not ended and may be changed."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        position: Positions,
        active: Mapping[str, int],
        found: dict[str, Job],
    ) -> None:
        self._jobs, self._position, self._active = jobs, position, active
        self.found = found
        """By name, in no order."""

    @classmethod
    def of(cls, jobs: Mapping[str, Job], active: Mapping[str, int]) -> "Running":
        """Look at every job that is active."""
        found = {name: jobs[name] for name in active if _counts(jobs[name])}
        return cls(jobs, positions(jobs), active, found)

    @cached_property
    def oldest_first(self) -> tuple[Job, ...]:
        """The same in the order of their submission: sorted when it is asked for, since not all policies do."""
        return tuple(sorted(self.found.values(), key=attrgetter("order")))

    def renewed(self, jobs: Mapping[str, Job], active: Mapping[str, int]) -> "Running":
        """Return those of these jobs, of which most are as they were."""
        if jobs is self._jobs and active is self._active:
            return self
        differing = renewed(self._jobs, self._position, jobs)
        if differing is None:
            return Running.of(jobs, active)
        position, names = differing
        touched = {*names}
        if active is not (former := self._active):
            touched.update(filterfalse(former.__contains__, active), filterfalse(active.__contains__, former))
        if not touched:
            return Running(jobs, position, active, self.found)
        found = dict(self.found)
        for name in touched:
            job = jobs.get(name) if name in active else None
            if job is not None and _counts(job):
                found[name] = job
            else:
                found.pop(name, None)
        return Running(jobs, position, active, found)


def running(jobs: Mapping[str, Job], active: Mapping[str, int]) -> Running:
    """Return the jobs that run: only a cache, no answer depends on who asked before."""
    global _last  # noqa: PLW0603  (a cache of one entry)
    last = _last
    _last = found = Running.of(jobs, active) if last is None else last.renewed(jobs, active)
    return found


_last: Running | None = None


def _counts(job: Job) -> bool:
    return job.ended_at is None and job.spec.adjustable
