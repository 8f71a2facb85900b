"""KOD2: the job with the largest weight first, with workers taken from lighter jobs where it has no room.

Jeong and Yu: Dynamic Resource Adjustment Operator Based on Autoscaling for Improving Distributed Training Job
Performance on Kubernetes, KIPS Transactions on Computer and Communication Systems 11(7), 2022; equation 1 and
Algorithms 1 to 3. The repairs are explained in `docs/results/elastic.md`; `literal` switches them off.
"""

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from specon_manager.model.actions import Proposal
from specon_manager.model.cluster import Job, JobSpec, Replica
from specon_manager.model.resources import Resources, largest, total
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.elastic import Books, make_room, more_workers, never_fits, stays
from specon_manager.policies.gang_placement import place_on_fewest_nodes, place_on_one_node, request_of_all
from specon_manager.policies.idle import Idle
from specon_manager.policies.placement import readmissions


class KOD2Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of equation 1 and of Algorithms 1 to 3."""

    denominator: Literal["replica", "gang"] = "replica"
    """What a weight is divided by: the requests of one worker, or of the smallest gang that trains."""
    starve_limit: Annotated[float, Meta(gt=0, le=1e9)] = 120.0
    """STARVELIMIT, seconds: a job that waits longer goes before all others. The paper gives no value."""
    backfill: bool = False
    """Whether lighter jobs that fit may start while the heaviest waits for room."""
    cooldown: Annotated[float, Meta(ge=0, le=1e9)] = 60.0
    """Seconds after the last admission or scaling before jobs grow (0: at once, as printed)."""
    literal: bool = False
    """Algorithms 1 to 3 as printed, where that can be carried out."""


class JobState(StrEnum):
    """The states of Figure 5."""

    RUNNING = "Running"
    WAITING = "Waiting"
    STARVING = "Starving"
    COMPLETED = "Completed"


def state_of(job: Job, snapshot: Snapshot, settings: KOD2Settings) -> JobState:
    """Return the state of Figure 5 that a job is in; it has none for a failure, which counts as completed."""
    members = snapshot.members.get(job.name, ())
    if job.ended_at is not None or any(
        replica.leaving is not None and replica.leaving.purpose in {"complete", "fail"} for replica in members
    ):
        return JobState.COMPLETED
    if stays(job, snapshot):
        return JobState.RUNNING
    waits = snapshot.now - job.queued_at
    return JobState.STARVING if waits > settings.starve_limit else JobState.WAITING


def weight(spec: JobSpec, whole: Resources, settings: KOD2Settings) -> float:
    """Return omega' of a job: its fewest workers, divided by what it requests as shares of `whole`.

    `whole` is the largest amount of each kind that a node has. The unit is arbitrary and the result positive;
    infinite for a job that requests nothing. Decisions compare omega', not omega: from 37 on, equation 1 is 1
    in double precision, and jobs that differ would be tied.
    """
    workers = spec.fewest_workers
    asked = spec.requests if settings.denominator == "replica" else request_of_all(spec, workers)
    kinds = [(asked.cpu, whole.cpu), (asked.memory, whole.memory)]
    if not settings.literal:
        kinds.append((asked.gpu, whole.gpu))
    share = sum(amount / most for amount, most in kinds if most > 0)
    return workers / share if share > 0 else math.inf


def normalise(raw: float) -> float:
    """Return omega = 1 / (1 + exp(-omega')), equation 1; at least 0.5, since omega' is positive."""
    return 1 / (1 + math.exp(-raw))


def propose(snapshot: Snapshot, settings: KOD2Settings) -> Iterator[Proposal]:
    """Start what crashed again, then carry out Algorithm 1 until it starts nothing more."""
    yield from _Call(snapshot, settings).proposals()


class _Call:
    """One call of the policy: its books, and the weights of the jobs."""

    def __init__(self, snapshot: Snapshot, settings: KOD2Settings) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.books = Books(snapshot)
        whole = largest(node.capacity for node in snapshot.nodes.values())
        jobs = (*snapshot.waiting, *snapshot.running)
        self.weights = {job.name: weight(job.spec, whole, settings) for job in jobs}
        # Lines 27 to 29 are printed for the new job only; they mean every job that waits.
        may_starve = snapshot.waiting[-1:] if settings.literal else snapshot.waiting
        self.starving = {
            job.name for job in may_starve if state_of(job, snapshot, settings) is JobState.STARVING
        }
        self.order = sorted(
            self.books.waiting,
            key=lambda job: (job.name not in self.starving, -self._rank(job), job.submitted_at, job.order),
        )

    def proposals(self) -> Iterator[Proposal]:
        books = self.books
        yield from books.count_readmitted(readmissions(self.snapshot))
        yield from books.redeem(self._queue(), place, self._why)
        if self.settings.literal:
            yield from self._pass_as_printed()
            yield from self._scale_out()
            return
        yield from self._admissions()
        since = self.snapshot.now - self.snapshot.changed_at
        if self.settings.cooldown == 0 or (since >= self.settings.cooldown and not books.changed):
            yield from self._scale_out()

    def _rank(self, job: Job) -> float:
        """Return what jobs are compared by: omega', above all others while a job starves."""
        return math.inf if job.name in self.starving else self.weights[job.name]

    def _queue(self) -> list[Job]:
        """Return the jobs that wait and are not settled, the heaviest first, then the one that came first."""
        return [job for job in self.order if job.name not in self.books.settled]

    def _heaviest(self) -> float:
        """Return max omega over the jobs that run or were promised to run; -inf where there is none."""
        jobs = (*self.books.running, *self.books.settled.values())
        return max((self.weights[job.name] for job in jobs), default=-math.inf)

    def _admissions(self) -> Iterator[Proposal]:
        """Algorithm 1, lines 5 to 30, again after each start, as after every change in the cluster."""
        books = self.books
        heads = iter(self._queue())
        for head in heads:
            if self._rank(head) < self._heaviest():
                yield from self._start_all([head, *heads])
            elif (placement := books.placed(head, place)) is not None:
                yield books.start(head, placement, self._why(head))
            elif (found := make_room(head.spec, self._victims(head), books, _place_fewest)) is not None:
                yield from self._room_made(head, found[0])
            elif never_fits(head.spec, self.snapshot, _place_fewest):
                # Larger than the cluster, or than what it has in pieces that keep the servers with workers.
                if (placement := books.placed(head, _place_apart)) is not None:
                    yield books.start(
                        head, placement, f"{self._why(head)}; no node has its servers and a worker"
                    )
            else:
                if self.settings.backfill:
                    yield from self._start_all([*heads])
                return

    def _pass_as_printed(self) -> Iterator[Proposal]:
        """Algorithm 1, lines 5 to 30, once."""
        books, queue = self.books, self._queue()
        if not queue:
            return
        if self._rank(queue[0]) < self._heaviest():
            yield from self._start_all(queue)
            return
        head = queue[0]
        if _enough(head.spec, books.idle):
            yield from self._start_all(queue[:1])  # which may fail: there is enough, but not in one piece
        elif (chosen := self._scale_in_as_printed(head)) is not None:
            yield from self._room_made(head, chosen)

    def _start_all(self, queue: list[Job]) -> Iterator[Proposal]:
        """Lines 19 to 26: start every job that fits, the heaviest first."""
        for job in queue:
            if self.settings.literal and not _enough(job.spec, self.books.idle):
                continue
            if (placement := self.books.placed(job, place)) is not None:
                yield self.books.start(job, placement, self._why(job))

    def _victims(self, head: Job) -> list[Job]:
        """Algorithm 2, lines 3 to 8: what runs, the lightest first, without equals that came before."""
        came = (head.submitted_at, head.order)
        chosen = [
            job
            for job in self.books.running
            if self.weights[job.name] < self._rank(head)
            or (self.weights[job.name] == self._rank(head) and (job.submitted_at, job.order) > came)
        ]
        return sorted(chosen, key=lambda job: (self.weights[job.name], -job.submitted_at, -job.order))

    def _room_made(self, head: Job, workers: list[Replica]) -> Iterator[Proposal]:
        """Lines 12 to 15: tell the workers to end, and keep what they leave for the job."""
        yield from self.books.scale_in(workers, f"makes room for {head.name}: {self._why(head)}")
        placement = place(head.spec, self.books.idle_soon())
        if placement is not None:  # unless fractions were rounded otherwise: then the next call claims it
            yield self.books.claim(head, placement, f"waits for workers to leave; {self._why(head)}")

    def _scale_in_as_printed(self, head: Job) -> list[Replica] | None:
        """Algorithm 2: the whole gang must fit on the node just looked at, which the last removal is not."""
        idle, chosen, spec = self.books.idle_soon(), list[Replica](), head.spec
        for job in self._victims(head):
            left = len(self.books.surplus(job))
            for worker in self.books.staying_workers(job):
                assert worker.node is not None
                if _on_this_node(spec, idle, worker.node):
                    return chosen
                if left == 0:
                    break
                if worker.index > 0:
                    idle.give(worker.node, worker.requests)
                    chosen.append(worker)
                    left -= 1
        return None

    def _scale_out(self) -> Iterator[Proposal]:
        """Algorithm 3: what runs grows, the heaviest first; only into room that no waiting job could use."""
        books, settings = self.books, self.settings
        if not settings.literal and any(books.placed(job, place) for job in self._queue()):
            return
        running = sorted(
            books.running, key=lambda job: (-self.weights[job.name], job.submitted_at, job.order)
        )
        for job in running:
            placement = self._anywhere(job) if settings.literal else more_workers(job, books)
            if placement:
                yield books.scale_out(job, placement, f"idle room; {self._why(job)}")

    def _anywhere(self, job: Job) -> dict[str, str]:
        """Algorithm 3, lines 7 to 17: on any node, and an exact fit is none."""
        absent, placement, idle = self.books.absent(job), dict[str, str](), self.books.idle.copy()
        for node in idle.nodes:
            while len(placement) < len(absent) and _more(idle.open(node, job.name), job.spec.requests):
                idle.take(node, job.spec.requests)
                placement[absent[len(placement)]] = node
        return placement

    def _why(self, job: Job) -> str:
        raw = self.weights[job.name]
        words = f"weight {normalise(raw):.4g} (unnormalised {raw:.4g})"
        if job.name in self.starving:
            waits = self.snapshot.now - job.queued_at
            words += f", first since it waits {waits:.0f} s, above {self.settings.starve_limit:g}"
        return words


def place(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    """Place a gang on the fewest nodes (section 4.1), with the workers asked for or as many as have room."""
    return place_on_fewest_nodes(spec, idle, most=spec.wanted_workers, least=spec.fewest_workers)


def _place_fewest(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    """Place the smallest gang that trains, which is what room is made for."""
    return place_on_fewest_nodes(spec, idle, most=spec.fewest_workers, least=spec.fewest_workers)


def _place_apart(spec: JobSpec, idle: Idle) -> dict[str, str] | None:
    """Place the smallest gang with its parameter servers wherever they have room."""
    return place_on_fewest_nodes(spec, idle, most=spec.fewest_workers, least=spec.fewest_workers, apart=True)


def _on_this_node(spec: JobSpec, idle: Idle, node: str) -> bool:
    fewest = spec.fewest_workers
    return (
        node in idle.nodes
        and place_on_one_node(spec, idle, most=fewest, least=fewest, order=[node]) is not None
    )


def _enough(spec: JobSpec, idle: Idle) -> bool:
    """Lines 6 and 21 as printed: whether all nodes together have more idle than the smallest gang needs."""
    return _more(
        total([idle.open(node, spec.name) for node in idle.nodes]), request_of_all(spec, spec.fewest_workers)
    )


def _more(room: Resources, asked: Resources) -> bool:
    """Whether there is more than this of everything that is asked for."""
    pairs = ((room.cpu, asked.cpu), (room.memory, asked.memory), (room.gpu, asked.gpu))
    return all(has > amount for has, amount in pairs if amount > 0)
