"""When elastic jobs shrink for those that wait, and grow into what nobody wants."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from specon_manager.model.actions import Admit, AdmitGang, Claim, Preempt, Proposal, ScaleIn, ScaleOut
from specon_manager.model.cluster import Job, JobSpec
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.elastic import Books, make_room, more_workers
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.falling import Seen
from specon_manager.policies.gang_placement import one_node_holds, place_on_fewest_nodes
from specon_manager.policies.idle import Idle
from specon_manager.policies.speedup import has_no_speedup, largest_worthwhile
from specon_sidecar.counts import format_count

_LOOKED_AT: Final = 20  # waiting jobs


def resize(
    snapshot: Snapshot,
    expected: Expectation,
    proposals: Iterable[Proposal],
    stranded: Sequence[Job],
    *,
    resize_seconds: float,
    shrink_ratio: float,
) -> Iterator[Proposal]:
    """Make room for the first of the stranded jobs by scaling in; where nobody is stranded, scale out.

    `proposals` are what this call has started, ended and claimed already. Jobs with the most left give
    workers first, those with the least left get them first, and only where the time gained is more than twice
    `resize_seconds`. While somebody is stranded, jobs with servers grow beside these as far as their owners
    asked for: elsewhere they never can.
    """
    proposals = list(proposals)
    ending = {proposal.job for proposal in proposals if isinstance(proposal, Preempt)}

    def counts(job: Job) -> bool:
        return job.trains_since is not None and job.name not in ending and snapshot.runs(job.name)

    def steady(jobs: Iterable[Job]) -> list[Job]:
        """Return those that were not changed a moment ago, and so have just paused; the least left first."""
        found = [
            job for job in jobs if counts(job) and snapshot.now - (job.trains_since or 0.0) >= resize_seconds
        ]
        return sorted(found, key=lambda job: (expected.remaining(job), job.order))

    # Nobody makes room, or forgoes it, for a job that will never fit.
    stranded = _ever_fitting(stranded[:_LOOKED_AT], snapshot) if stranded else ()
    if stranded:
        elastic = Seen(job for job in expected.longest_elastic() if counts(job))
        if next(iter(elastic), None) is None:
            return
        books = _books(snapshot, proposals)
        served = {*snapshot.claims, *(each.job for each in proposals if isinstance(each, Claim))}
        # Where room is being made already, those behind wait.
        first = list(takewhile(lambda job: job.name not in served, stranded))
        yield from _shrink(expected, books, first, elastic, shrink_ratio)
        if not books.changed:  # one direction in a call
            fewer = (
                job
                for job in expected.varying()
                if job.spec.ps and len(snapshot.workers(job.name)) < job.spec.wanted_workers
            )
            yield from _grow(expected, books, steady(fewer), resize_seconds, beyond=False)
        return
    growing = steady(expected.varying())
    if not growing:
        return
    books = _books(snapshot, proposals)
    yield from _give_back(books, growing)
    yield from _grow(expected, books, growing, resize_seconds)


def _ever_fitting(jobs: Iterable[Job], snapshot: Snapshot) -> list[Job]:
    """Return the jobs that would have room if nothing else ran; each shape of job is tried once."""
    empty, known = Idle(snapshot, emptied=True), dict[tuple[object, ...], bool]()
    found = []
    for job in jobs:
        spec = job.spec
        fewest = spec.fewest_workers
        shape = (spec.requests, spec.ps_requests, spec.of_each, len(spec.ps), fewest)
        if shape not in known:
            known[shape] = one_node_holds(spec, empty, workers=fewest) or _smallest(spec, empty) is not None
        if known[shape]:
            found.append(job)
    return found


def _books(snapshot: Snapshot, proposals: Iterable[Proposal]) -> Books:
    """Return the books in which the proposals are counted."""
    books = Books(snapshot)
    for proposal in proposals:
        if isinstance(proposal, Admit):
            books.idle.take(proposal.node, snapshot.replicas[proposal.replica].requests)
        elif isinstance(proposal, AdmitGang):
            books.idle.start(snapshot.jobs[proposal.job].spec, proposal.placement)
        elif isinstance(proposal, Claim) and proposal.placement:
            books.idle.keep(snapshot.jobs[proposal.job].spec, proposal.placement)
    return books


def _give_back(books: Books, elastic: Iterable[Job]) -> Iterator[ScaleIn]:
    """End the workers that were tried beyond what the owner asked for, and brought nothing."""
    for job in elastic:
        workers, wanted = len(books.snapshot.workers(job.name)), job.spec.wanted_workers
        if has_no_speedup(books.snapshot.paces.get(job.pace_kind, {}), wanted, workers):
            surplus = books.surplus(job)[: workers - wanted]
            yield from books.scale_in(
                surplus, f"with {format_count(workers, 'worker')} it trains no faster than with {wanted}"
            )


def _grow(
    expected: Expectation, books: Books, elastic: Iterable[Job], resize_seconds: float, *, beyond: bool = True
) -> Iterator[ScaleOut]:
    for job in elastic:
        growth = more_workers(job, books)
        own = {worker.node for worker in books.snapshot.workers(job.name)}
        if job.spec.ps:  # far from its servers a worker waits for the network
            growth = {name: node for name, node in growth.items() if node in own}
        if not growth:
            continue
        left, workers = expected.remaining(job), len(books.snapshot.workers(job.name))
        paces = books.snapshot.paces.get(job.pace_kind, {})
        wanted = job.spec.wanted_workers
        most = largest_worthwhile(paces, wanted) if beyond else wanted
        growth = dict(list(growth.items())[: max(0, most - workers)])
        gain = left * len(growth) / (workers + len(growth))
        if not growth or gain <= 2 * resize_seconds:
            continue
        why = f"nobody waits for the room; about {gain:.0f} of {left:.0f} s are saved at best"
        yield books.scale_out(job, growth, why)


def _shrink(
    expected: Expectation,
    books: Books,
    stranded: Sequence[Job],
    elastic: Iterable[Job],
    shrink_ratio: float,
) -> Iterator[Proposal]:
    for job in stranded:
        left = expected.remaining(job)
        longer = takewhile(partial(_is_longer, expected, left, shrink_ratio), elastic)
        found = make_room(job.spec, longer, books, _smallest)
        if found is None or _smallest(job.spec, books.idle) is not None:
            continue  # of no use, or placed otherwise there would be room already: none is kept for that
        workers, placement = found
        why = f"room for {job.name}, which has about {left:.0f} s to do"
        yield from books.scale_in(workers, why)
        where = ", ".join(dict.fromkeys(placement.values()))
        yield Claim(job=job.name, placement=placement, reason=f"room on {where} as soon as workers have left")
        return


def _is_longer(expected: Expectation, left: float, shrink_ratio: float, job: Job) -> bool:
    return left <= shrink_ratio * expected.remaining(job)


def _smallest(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    return place_on_fewest_nodes(spec, idle, most=spec.fewest_workers, least=spec.fewest_workers)
