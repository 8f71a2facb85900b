"""The Kubeflow dynamic scheduler: utility first, whole gangs, workers taken from jobs of lower utility.

M. F. Bestari: Dynamic Resource Scheduler for Distributed Deep Learning Training on Kubeflow, 2020 (an
article); its listings Weighting, Gang Scheduling, ScaleDown, ScaleUp and Scheduling. The repairs are in
`docs/results/kubeflow.md`; `literal` switches off those without which the listings can be carried out.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from specon_manager.model.actions import Proposal
from specon_manager.model.cluster import Job, JobSpec
from specon_manager.model.resources import NOTHING, Resources, largest
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.elastic import Books, make_room, more_workers, never_fits
from specon_manager.policies.gang_placement import place_first_fit, place_on_one_node, request_of_all
from specon_manager.policies.idle import Idle
from specon_manager.policies.placement import readmissions


class KubeflowSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the queue and of the growth of jobs."""

    resource_sign: Literal[1, -1] = 1
    """Of equal utility, 1 puts the job that requests more first (the article), -1 the other."""
    cooldown: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """Seconds after the last admission or scaling before jobs grow; the article wants growth often."""
    literal: bool = False
    """The listings as printed, where that can be carried out."""


def requirement(spec: JobSpec, whole: Resources, settings: KubeflowSettings) -> float:
    """Return R of a job: what its parameter servers and the workers asked for request, all kinds added.

    Each kind is a share of `whole`, the largest amount of it that a node has, so no unit. As printed cores
    and bytes are added, so that memory alone decides, and GPUs do not count.
    """
    asked = request_of_all(spec, spec.wanted_workers)
    if settings.literal:
        return asked.cpu + asked.memory
    kinds = ((asked.cpu, whole.cpu), (asked.memory, whole.memory), (asked.gpu, whole.gpu))
    return sum(amount / most for amount, most in kinds if most > 0)


def order_queue(jobs: list[Job], whole: Resources, settings: KubeflowSettings) -> list[Job]:
    """Return the queue: by falling utility, then by requirement, then by submission (listing Weighting).

    Inserting one job after the other into an ordered queue, each behind its equals, gives the same.
    """
    return sorted(
        jobs,
        key=lambda job: (
            -job.spec.utility,
            -settings.resource_sign * requirement(job.spec, whole, settings),
            job.order,
        ),
    )


def gang(spec: JobSpec, idle: Idle, *, most: int, least: int) -> dict[str, str] | None:
    """Place a gang on one node, with `most` workers or as many as it holds, else by first fit on several.

    The first node that holds all workers is taken, else the first node among those that hold the most.
    """
    order = _order(spec, idle)
    one = place_on_one_node(spec, idle, most=most, least=least, order=order)
    if one is not None:
        return one
    spilt = (
        place_first_fit(spec, idle, workers=workers, order=order) for workers in range(most, least - 1, -1)
    )
    return next((placement for placement in spilt if placement is not None), None)


def _order(spec: JobSpec, idle: Idle) -> Sequence[str]:
    """Return the nodes by name; for a job that requests nothing, which fits everywhere, by emptiness."""
    return idle.nodes_by_most_idle(spec) if request_of_all(spec, 1) == NOTHING else idle.nodes


def place(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    """Place a gang with the workers asked for, or with as many as there is room for; None: with too few."""
    return gang(spec, idle, most=spec.wanted_workers, least=spec.fewest_workers)


def place_fewest(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    """Place the smallest gang that trains, which is what room is made for."""
    return gang(spec, idle, most=spec.fewest_workers, least=spec.fewest_workers)


def propose(snapshot: Snapshot, settings: KubeflowSettings) -> Iterator[Proposal]:
    """Start what crashed again, then carry out the listing Scheduling until it starts nothing more."""
    yield from _Call(snapshot, settings).proposals()


class _Call:
    """One call of the policy: its books, and the queues in their order."""

    def __init__(self, snapshot: Snapshot, settings: KubeflowSettings) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.books = Books(snapshot)
        whole = largest(node.capacity for node in snapshot.nodes.values())
        self.waiting = order_queue(self.books.waiting, whole, settings)
        self.running = order_queue(self.books.running, whole, settings)

    def proposals(self) -> Iterator[Proposal]:
        yield from self.books.count_readmitted(readmissions(self.snapshot))
        yield from self.books.redeem(self.waiting, place, _why)
        if self.settings.literal:
            yield from self._pass_as_printed()
            return
        yield from self._admissions()
        since = self.snapshot.now - self.snapshot.changed_at
        if not self.books.changed and since >= self.settings.cooldown:
            yield from self._scale_up()

    def _queue(self) -> list[Job]:
        return [job for job in self.waiting if job.name not in self.books.settled]

    def _highest(self) -> float:
        """Return the highest utility of what runs, or was promised to run; -inf where there is nothing."""
        jobs = (*self.running, *self.books.settled.values())
        return max((job.spec.utility for job in jobs), default=-math.inf)

    def _admissions(self) -> Iterator[Proposal]:
        """Lines 2 to 25 of Scheduling, again after each start, as after every change in the cluster."""
        books = self.books
        heads = iter(self._queue())
        for head in heads:
            if head.spec.utility <= self._highest():
                yield from self._start_all([head, *heads])
            elif (placement := books.placed(head, place)) is not None:
                yield books.start(head, placement, _why(head))
            elif (found := make_room(head.spec, self._lower(head), books, place_fewest)) is not None:
                yield from books.scale_in(found[0], f"makes room for {head.name}: {_why(head)}")
                # Rounding of fractions may tell otherwise: then the next call claims it.
                if (placement := place(head.spec, books.idle_soon())) is not None:
                    yield books.claim(head, placement, f"waits for workers to leave; {_why(head)}")
            elif not never_fits(head.spec, self.snapshot, place_fewest):
                return  # lines 17 and 26: nothing else starts, and what runs may grow

    def _start_all(self, queue: list[Job]) -> Iterator[Proposal]:
        """Lines 18 to 24, again after each start: start every job that fits, the first in the queue first."""
        for job in queue:
            if (placement := self.books.placed(job, place)) is not None:
                yield self.books.start(job, placement, _why(job))

    def _lower(self, head: Job) -> list[Job]:
        """Return what runs at a lower utility, the last of the queue first, for ScaleDown."""
        return [job for job in reversed(self.running) if job.spec.utility < head.spec.utility]

    def _scale_up(self) -> Iterator[Proposal]:
        """Let what runs grow into idle room, the first of the queue first: listing ScaleUp."""
        for job in self.running:
            if placement := more_workers(job, self.books):
                yield self.books.scale_out(job, placement, f"idle room; {_why(job)}")

    def _pass_as_printed(self) -> Iterator[Proposal]:
        """Carry out Scheduling once: it starts one job at most beside the one of the highest utility."""
        books, queue = self.books, self._queue()
        scaled_down, head = False, None
        if queue and queue[0].spec.utility > self._highest():
            head = queue.pop(0)
            if (placement := books.placed(head, place)) is not None:
                yield books.start(head, placement, _why(head))
            # Line 11 follows in either case: a job that has just started has room made for it once more.
            found = make_room(head.spec, self._lower(head), books, _on_one_node)
            scaled_down = found is not None
            if found is not None:
                yield from books.scale_in(found[0], f"makes room for {head.name}: {_why(head)}")
                if head.name not in books.settled:
                    yield books.claim(head, found[1], f"waits for workers to leave; {_why(head)}")
        if head is None or scaled_down:
            for job in queue:
                if (placement := books.placed(job, place)) is not None:
                    yield books.start(job, placement, _why(job))
                    return
        yield from self._scale_up_as_printed()

    def _scale_up_as_printed(self) -> Iterator[Proposal]:
        """Give each job one more worker on the first node where any job grows: ScaleUp as printed."""
        books = self.books
        for node in books.idle.nodes:
            grown = False
            for job in self.running:
                absent = books.absent(job)
                if absent and books.idle.fits(node, job.spec.requests, job.name):
                    yield books.scale_out(job, {absent[0]: node}, f"idle room; {_why(job)}")
                    grown = True
            if grown:
                return


def _on_one_node(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    """ScaleDown, lines 7 and 22: "J can be scheduled in n", one node."""
    fewest = spec.fewest_workers
    return place_on_one_node(spec, idle, most=fewest, least=fewest, order=idle.nodes)


def _why(job: Job) -> str:
    return f"utility {job.spec.utility:g}"
