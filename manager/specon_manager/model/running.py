"""The jobs that occupy nodes and may be changed: kept, and renewed where they differ."""

from collections.abc import Mapping
from operator import attrgetter

from specon_manager.model.cluster import Job
from specon_manager.model.renewal import Positions, positions, renewed

_Kept = tuple[Mapping[str, Job], Positions, Mapping[str, int], dict[str, Job]]
"""The jobs, their positions, those that were active, and what was found."""


def running(jobs: Mapping[str, Job], active: Mapping[str, int]) -> dict[str, Job]:
    """Return those jobs that are `active`, have not ended and may be changed, oldest first.

    Only a cache: no answer depends on who asked before.
    """
    global _last  # noqa: PLW0603  (a cache of one entry)
    if _last is not None and _last[0] is jobs and _last[2] is active:
        return _last[3]
    _last = kept = _anew(jobs, active) if _last is None else _renewed(_last, jobs, active)
    return kept[3]


_last: _Kept | None = None


def _anew(jobs: Mapping[str, Job], active: Mapping[str, int]) -> _Kept:
    found = sorted((jobs[name] for name in active if _counts(jobs[name])), key=attrgetter("order"))
    return jobs, positions(jobs), active, {job.name: job for job in found}


def _renewed(last: _Kept, jobs: Mapping[str, Job], active: Mapping[str, int]) -> _Kept:
    before, position, former, known = last
    differing = renewed(before, position, jobs)
    if differing is None:
        return _anew(jobs, active)
    position, names = differing
    touched = {*names}
    if active is not former:
        touched |= active.keys() ^ former.keys()
    found, sort = dict(known), False
    for name in touched:
        job = jobs.get(name) if name in active else None
        if job is None or not _counts(job):
            found.pop(name, None)
        elif name not in found or found[name].order != job.order:
            found[name], sort = job, True
        else:
            found[name] = job
    if sort:
        found = dict(sorted(found.items(), key=_by_order))
    return jobs, position, active, found


def _counts(job: Job) -> bool:
    return job.ended_at is None and job.spec.adjustable


def _by_order(item: tuple[str, Job]) -> int:
    return item[1].order
