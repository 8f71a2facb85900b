"""What one call of a policy for elastic gangs has promised so far, and the steps that such policies share.

A worker that is scaled in holds its room until it is gone. So a job for which room is made is not started in
the same call, as the papers write, but given a claim; the calls after that admit it when the room is free.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from specon_manager.model.actions import Admit, AdmitGang, Claim, ScaleIn, ScaleOut
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import resizing_objection
from specon_manager.policies.idle import Idle
from specon_sidecar.counts import format_count

Place = Callable[[JobSpec, Idle], Mapping[str, str] | None]
"""How a policy places a gang: node by replica, or None where there is no room for it."""


class Books:
    """The snapshot, and what changes by the proposals made so far."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.idle = Idle(snapshot)
        self.settled: dict[str, Job] = {}
        """Waiting jobs that this call is done with: it starts them, or they have a claim, or gave one up."""
        self.changed = False
        """Whether a job is started or scaled in this call."""
        self._too_large: set[tuple[object, ...]] = set()
        self._leaving = [(place, replica.requests) for place, replica in snapshot.leavers]
        self._gone: set[str] = set()

    @cached_property
    def running(self) -> list[Job]:
        """The jobs that occupy nodes and are not about to end, oldest first."""
        return [job for job in self.snapshot.running if stays(job, self.snapshot)]

    @cached_property
    def waiting(self) -> list[Job]:
        """The jobs that wait, oldest first."""
        return list(self.snapshot.waiting)

    def idle_soon(self) -> Idle:
        """Return a copy of the idle room once everything that was told to end is gone."""
        idle = self.idle.copy()
        for node, requests in self._leaving:
            idle.give(node, requests)
        return idle

    def placed(self, job: Job, place: Place) -> Mapping[str, str] | None:
        """Return where a waiting job can start now, or None; each shape of job is tried once for each rule.

        For hardly anything becomes idle within a call: what had no room once has none later, or in the next.
        """
        spec = job.spec
        fewest, wanted = spec.fewest_workers, spec.wanted_workers
        shape = (place, spec.requests, spec.ps_requests, spec.of_each, len(spec.ps), wanted, fewest)
        claims = job.name in self.snapshot.claims
        if shape in self._too_large and not claims:
            return None
        placement = place(spec, self.idle)
        if placement is None and not claims:
            self._too_large.add(shape)
        return placement

    def count_readmitted(self, admits: Iterable[Admit]) -> Iterator[Admit]:
        """Count replicas of running jobs that start again, and pass them on."""
        for admit in admits:
            self.idle.take(admit.node, self.snapshot.replicas[admit.replica].requests)
            yield admit

    def start(self, job: Job, placement: Mapping[str, str], why: str) -> AdmitGang:
        """Count a waiting job as started, and return the proposal."""
        self.idle.start(job.spec, placement)
        self.settled[job.name] = job
        self.changed = True
        reason = f"{why}; {_describe(job.spec, placement)}"
        return AdmitGang(job=job.name, placement=placement, reason=reason)

    def claim(self, job: Job, placement: Mapping[str, str], why: str) -> Claim:
        """Count room as kept for a waiting job, and return the proposal."""
        self.idle.keep(job.spec, placement)
        self.settled[job.name] = job
        return Claim(job=job.name, placement=placement, reason=f"{why}; {_describe(job.spec, placement)}")

    def scale_in(self, workers: Iterable[Replica], why: str) -> Iterator[ScaleIn]:
        """Count workers as told to end, and return one proposal for each of their jobs."""
        by_job: dict[str, list[str]] = {}
        for worker in workers:
            self.changed = True
            assert worker.node is not None
            by_job.setdefault(worker.job, []).append(worker.name)
            self._gone.add(worker.name)
            self._leaving.append((worker.node, worker.requests))
        for job, names in by_job.items():
            fewest = self.snapshot.jobs[job].spec.fewest_workers
            left = len(self._workers(job))
            reason = f"{why}; {format_count(left, 'worker stays', 'workers stay')}, at least {fewest}"
            yield ScaleIn(job=job, replicas=tuple(names), reason=reason)

    def scale_out(self, job: Job, placement: Mapping[str, str], why: str) -> ScaleOut:
        """Count workers as started, and return the proposal."""
        self.changed = True
        for replica, node in placement.items():
            self.idle.take(node, job.spec.requests_of(replica))
        before = len(self._workers(job.name))
        reason = f"{why}; {format_count(before + len(placement), 'worker')} instead of {before}"
        return ScaleOut(job=job.name, placement=placement, reason=reason)

    def redeem(
        self, queue: Iterable[Job], place: Place, why: Callable[[Job], str]
    ) -> Iterator[AdmitGang | Claim]:
        """Start the jobs with a claim that have room now; give up what will not become free.

        A job that gives its claim up is settled for this call: the next ones treat it as any that waits.
        """
        snapshot = self.snapshot
        for job in queue:
            claim = snapshot.claims.get(job.name)
            if claim is None:
                continue
            if (placement := self.placed(job, place)) is not None:
                yield self.start(job, placement, f"{why(job)}; room was made for it")
                continue
            self.settled[job.name] = job
            if not self._holds(job.spec, dict(claim.placement)):
                yield Claim(job=job.name, placement={}, reason="the claimed room does not become free")

    def surplus(self, job: Job) -> list[Replica]:
        """Return the workers that the job can lose, in the order in which it loses them; never worker 0."""
        spec, workers = job.spec, self.staying_workers(job)
        if spec.checkpointing == "none":
            return []  # what it did would be lost
        if self._is_fixed(job):
            return []
        may_go = [worker for worker in workers if worker.index > 0]
        return may_go[: max(0, len(workers) - spec.fewest_workers)]

    def staying_workers(self, job: Job) -> list[Replica]:
        """Return the workers that stay, on nodes without parameter servers first, there by falling index."""
        near = self.home(job)
        rank = {node: index for index, node in enumerate(self.idle.nodes)}
        workers = self._workers(job.name)
        if job.spec.top_down:
            return sorted(workers, key=lambda worker: -worker.index)
        return sorted(workers, key=lambda w: (w.node in near, rank.get(w.node or "", -1), -w.index))

    def _is_fixed(self, job: Job) -> bool:
        """Whether the number of its workers cannot be changed, or not now."""
        return resizing_objection(job, self.snapshot) is not None

    def home(self, job: Job) -> set[str]:
        """Return the nodes of the parameter servers of a job, of its first worker where it has none."""
        near = self.snapshot.servers(job.name) or self.snapshot.workers(job.name)[:1]
        return {replica.node for replica in near if replica.node is not None}

    def absent(self, job: Job) -> list[str]:
        """Return the workers that the job might have beside those it has, by index, as far as it may grow.

        None while not every replica trains, or some of it is told to end: a job grows or shrinks, not both.
        """
        if job.trains_since is None or self._is_fixed(job):
            return []
        members = self.snapshot.members.get(job.name, ())
        if any(self.snapshot.leaves(replica) or replica.name in self._gone for replica in members):
            return []
        absent = [n for n in job.spec.worker_names if self.snapshot.replicas[n].phase is Phase.ABSENT]
        return absent[: job.spec.headroom]

    def _workers(self, job: str) -> list[Replica]:
        return [worker for worker in self.snapshot.workers(job) if worker.name not in self._gone]

    def _holds(self, spec: JobSpec, placement: Mapping[str, str]) -> bool:
        """Whether the claimed places are free once everything that was told to end is gone."""
        asked: dict[str, Resources] = {}
        for replica, node in placement.items():
            asked[node] = asked.get(node, NOTHING) + spec.requests_of(replica)
        idle = self.idle_soon()
        return all(
            node in idle.nodes and idle.fits(node, amount, spec.name) for node, amount in asked.items()
        )


def stays(job: Job, snapshot: Snapshot) -> bool:
    """Whether something of the job occupies a node and was not told to end."""
    members = snapshot.members.get(job.name, ())
    return any(replica.active and not snapshot.leaves(replica) for replica in members)


def make_room(
    spec: JobSpec, candidates: Iterable[Job], books: Books, place: Place
) -> tuple[list[Replica], Mapping[str, str]] | None:
    """Return which workers must end so that a gang has room, and where it then goes; None: none suffice.

    Workers already leaving are counted first, so the answer may name no worker. The candidates give one
    worker after the other, in their order; a worker that turns out not to be needed stays.
    """
    idle = books.idle_soon()
    if (placement := place(spec, idle)) is not None:
        return [], placement
    return vacate(spec, (worker for job in candidates for worker in books.surplus(job)), idle, place)


def vacate(
    spec: JobSpec, workers: Iterable[Replica], soon: Idle, place: Place
) -> tuple[list[Replica], Mapping[str, str]] | None:
    """Let one worker after the other go until the gang has a place; those not needed for it stay.

    `soon` is the idle room without them. None: it has no place even when all have gone.
    """
    idle, chosen = soon.copy(), list[Replica]()
    placement: Mapping[str, str] | None = None
    for worker in workers:
        assert worker.node is not None
        idle.give(worker.node, worker.requests)
        chosen.append(worker)
        if (placement := place(spec, idle)) is not None:
            break
    if placement is None:
        return None
    for worker in chosen[-2::-1]:  # without the last there was no room
        assert worker.node is not None
        trial = idle.copy()
        trial.take(worker.node, worker.requests)
        if (still := place(spec, trial)) is not None:
            idle, placement = trial, still
            chosen.remove(worker)
    return chosen, placement


def more_workers(job: Job, books: Books) -> dict[str, str]:
    """Return where workers that the job does not have yet can start: near its parameter servers first.

    Then on the other nodes where it runs, then on the rest, the most idle first. Nowhere where its workers
    request nothing: no room is idle that they could be given.
    """
    absent, placement = books.absent(job), dict[str, str]()
    if not absent or job.spec.requests == NOTHING:
        return placement
    near = books.home(job)
    own = {worker.node for worker in books.snapshot.workers(job.name)}
    roomy = books.idle.fitting(job.spec.requests, job.name)
    nodes = sorted(
        books.idle.nodes_by_most_idle(job.spec, roomy), key=lambda node: (node not in near, node not in own)
    )
    for node in nodes:
        number = books.idle.room_for(node, job.spec.requests, len(absent) - len(placement), job.name)
        placement |= dict.fromkeys(absent[len(placement) : len(placement) + number], node)
    return placement


def never_fits(spec: JobSpec, snapshot: Snapshot, place: Place) -> bool:
    """Whether the job would have no room if nothing else ran; nobody should wait behind it."""
    return place(spec, Idle(snapshot, emptied=True)) is None


def _describe(spec: JobSpec, placement: Mapping[str, str]) -> str:
    workers = len(placement) - len(spec.ps)
    nodes = ", ".join(dict.fromkeys(placement.values()))
    return f"{workers} of {format_count(spec.wanted_workers, 'worker')}, on {nodes}"
