"""When elastic jobs shrink for those that wait, and grow into what nobody wants."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from specon_manager.model.actions import AdmitGang, Claim, Proposal
from specon_manager.model.cluster import Job, JobSpec
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.elastic import Books, make_room, more_workers, never_fits
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.gang_placement import Idle, on_fewest_nodes

_LOOKED_AT: Final = 20  # of those that wait


def resize(
    snapshot: Snapshot,
    expected: Expectation,
    admitted: Iterable[AdmitGang],
    stranded: Sequence[Job],
    *,
    resize_seconds: float,
    shrink_ratio: float,
) -> Iterator[Proposal]:
    """Make room for the first of the stranded jobs by scaling in; where nobody is stranded, scale out.

    `admitted` is what this call started already. Jobs with the most left give workers first, those with the
    least left get them first, and only where the time gained is more than twice `resize_seconds`.
    """
    elastic = [
        job
        for job in snapshot.running
        if len(job.spec.worker_names) > job.spec.fewest_workers and job.trains_since is not None
    ]
    if not elastic:
        return
    # Nobody makes room, or forgoes it, for a job that will never fit.
    stranded = [job for job in stranded[:_LOOKED_AT] if not never_fits(job.spec, snapshot, _smallest)]
    books = Books(snapshot)
    for proposal in admitted:
        books.idle.start(snapshot.jobs[proposal.job].spec, proposal.placement)
    elastic.sort(key=lambda job: (expected.remaining(job), job.order))
    if stranded:
        yield from _shrink(expected, books, stranded, elastic[::-1], shrink_ratio)
        return
    for job in elastic:
        if snapshot.now - snapshot.changed_at < resize_seconds:
            return
        growth = more_workers(job, books)
        own = {worker.node for worker in snapshot.workers(job.name)}
        if job.spec.ps:  # far from its servers a worker waits for the network
            growth = {name: node for name, node in growth.items() if node in own}
        if not growth:
            continue
        left, workers = expected.remaining(job), len(snapshot.workers(job.name))
        gain = left * len(growth) / (workers + len(growth))
        if gain <= 2 * resize_seconds:
            continue
        why = f"nobody waits for the room; about {gain:.0f} of {left:.0f} s are saved at best"
        yield books.scale_out(job, growth, why)


def _shrink(
    expected: Expectation,
    books: Books,
    stranded: Sequence[Job],
    elastic: Sequence[Job],
    shrink_ratio: float,
) -> Iterator[Proposal]:
    for job in stranded:
        if job.name in books.snapshot.claims:
            return  # room is being made already
        longer = [
            each for each in elastic if expected.remaining(job) <= shrink_ratio * expected.remaining(each)
        ]
        found = make_room(job.spec, longer, books, _smallest)
        if found is None:
            continue
        workers, placement = found
        why = f"room for {job.name}, which has about {expected.remaining(job):.0f} s to do"
        yield from books.scale_in(workers, why)
        where = ", ".join(dict.fromkeys(placement.values()))
        yield Claim(job=job.name, placement=placement, reason=f"room on {where} as soon as workers have left")
        return


def _smallest(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    return on_fewest_nodes(spec, idle, most=spec.fewest_workers, least=spec.fewest_workers)
