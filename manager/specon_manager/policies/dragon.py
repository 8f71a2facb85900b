"""DRAGON: gangs on the fewest nodes, shrunk for a job that waited long, grown where the cluster is idle.

Lin, Yeh, Chou: DRAGON: A Dynamic Scheduling and Scaling Controller for Managing Distributed Deep Learning
Jobs in Kubernetes Cluster, CLOSER 2019, section 3.3 and Figure 5. The repairs are explained in
`docs/results/elastic.md`; `literal` scales as the published code does. Without scaling it is the paper's
locality-aware scheduler.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from specon_manager.model.actions import Proposal, ScaleIn
from specon_manager.model.cluster import Job, JobSpec, Replica
from specon_manager.model.resources import Resources, total
from specon_manager.model.settings import PauseSeconds
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.elastic import Books, vacate
from specon_manager.policies.gang_placement import place_on_one_node, request_of_all, spread
from specon_manager.policies.idle import Idle
from specon_manager.policies.no_fit_cache import TooLarge
from specon_manager.policies.placement import readmissions
from specon_manager.policies.shared_nodes import Crowd, reserves
from specon_sidecar.counts import format_count


class LocalitySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How gangs are placed."""

    node_order: Literal["most-idle", "least-idle"] = "most-idle"
    """Which of the nodes that hold a whole gang takes it; `least-idle` keeps large gaps for large gangs."""


class DragonSettings(LocalitySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The alarms and policies of Figure 5."""

    scaling: bool = True
    """Whether jobs are scaled; without it this is the paper's locality-aware scheduler."""
    urgent_after: PauseSeconds = 120.0
    """tau, the threshold of the scale-down alarm: after waiting longer a job is urgent, seconds."""
    idle_for: PauseSeconds = 60.0
    """sigma, the threshold of the scale-up alarm: from the last start, scaling or preemption, seconds."""
    victim_order: Literal["surplus", "fifo"] = "surplus"
    """Who shrinks: each time the job with the most surplus by one worker, or one job after the other."""
    literal: bool = False
    """Victims, sizes and growth as in the published code (see docs/results/elastic.md)."""


def propose(snapshot: Snapshot, settings: DragonSettings) -> Iterator[Proposal]:
    """Figure 5: room for urgent jobs, then the queue, then growth if nothing could be started."""
    call = _Call(snapshot, settings)
    yield from call.books.count_readmitted(readmissions(snapshot))
    if not settings.scaling:
        yield from call.launches()
        return
    queue = snapshot.waiting
    yield from call.books.redeem(queue, call.smallest, lambda job: _describe_wait(job, snapshot))
    yield from call.scale_down_as_published() if settings.literal else call.scale_down()
    started = list(call.launches())
    yield from started
    if not started and snapshot.now - snapshot.changed_at > settings.idle_for:
        yield from call.scale_up()


def propose_locality(snapshot: Snapshot, settings: LocalitySettings) -> Iterator[Proposal]:
    """Place whole gangs on the fewest nodes, in the order of arrival, and never scale (section 4.1)."""
    yield from propose(snapshot, DragonSettings(scaling=False, node_order=settings.node_order))


class _Call:
    """One way through Figure 5."""

    def __init__(self, snapshot: Snapshot, settings: DragonSettings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.books, self._crowd = Books(snapshot), Crowd(snapshot)
        self._whole = total([node.capacity for node in snapshot.ready_nodes])

    def launches(self) -> Iterator[Proposal]:
        """(3) Adapted first come, first served: each job in the order of arrival that has room."""
        too_large = TooLarge()
        for job in self.snapshot.waiting:
            spec = job.spec
            if job.name in self.books.settled or too_large.covers(spec, spec.fewest_workers):
                continue
            placement = self._place(spec, self.books.idle, spec.wanted_workers) or self.smallest(
                spec, self.books.idle
            )
            if placement is None:
                too_large.add(spec, spec.fewest_workers)
                continue
            self._crowd.add(placement)
            yield self.books.start(job, placement, "first in the queue that has room")

    def scale_down(self) -> Iterator[Proposal]:
        """(1), (2) Start urgent jobs, the smallest first, in idle room or in room that others can spare."""
        for job in sorted(self._urgent(), key=self._size):
            waited = _describe_wait(job, self.snapshot)
            if (placement := self.smallest(job.spec, self.books.idle)) is not None:
                self._crowd.add(placement)
                yield self.books.start(job, placement, f"{waited}, the smallest urgent job")
                continue
            plan = self._room_for(job.spec)
            if plan is None:
                return  # then there is none for a larger job either
            victims, places = plan
            yield from self.books.scale_in(victims, f"makes room for {job.name}, which {waited}")
            yield self.books.claim(
                job, places, f"{waited}; {format_count(len(victims), 'worker makes', 'workers make')} room"
            )

    def scale_down_as_published(self) -> Iterator[ScaleIn]:
        """Strip running jobs, the oldest first, as if a free place on any node were as good as another."""
        urgent = sorted(self._urgent(), key=lambda job: (job.spec.fewest_workers, job.order))
        if not urgent or any(replica.leaving is not None for replica in self.snapshot.replicas.values()):
            return  # freed room is given out before more is freed
        job = urgent[0]
        spare = [self.books.surplus(other) for other in self._scalable()]
        if sum(map(len, spare)) <= job.spec.fewest_workers:
            return
        idle, most = self.books.idle, job.spec.fewest_workers
        need = most - sum(idle.room_for(node, job.spec.requests, most) for node in idle.nodes)
        victims = list[Replica]()
        for workers in spare:
            victims += workers[: max(0, need - len(victims))]
        why = f"makes room for {job.name}, which {_describe_wait(job, self.snapshot)}"
        yield from self.books.scale_in(victims, why)

    def scale_up(self) -> Iterator[Proposal]:
        """(4), (5) Give idle room to the jobs that run beside it, one worker each in turn."""
        growing = {
            job.name: (job, self.books.absent(job), self._own_nodes(job))
            for job in self._scalable()
            if reserves(job.spec)  # else nothing is idle that it could be given
        }
        idle = self.books.idle.copy()
        gained: dict[str, dict[str, str]] = {name: {} for name in growing}
        changed = True
        while changed:
            changed = False
            for name, (job, absent, nodes) in growing.items():
                number, requests = len(gained[name]), job.spec.requests
                node = next((node for node in nodes if idle.fits(node, requests, name)), None)
                if number < len(absent) and node is not None:
                    idle.take(node, requests)
                    gained[name][absent[number]] = node
                    changed = True
        idle_for = self.snapshot.now - self.snapshot.changed_at
        for name, placement in gained.items():
            if placement:
                why = f"room has been idle for {idle_for:.0f} s where it runs"
                yield self.books.scale_out(growing[name][0], placement, why)

    def smallest(self, spec: JobSpec, idle: Idle) -> dict[str, str] | None:
        """Place a gang with the fewest workers that it can train with."""
        return self._place(spec, idle, spec.fewest_workers)

    def _on_one(self, spec: JobSpec, idle: Idle, workers: int | None = None) -> dict[str, str] | None:
        """Place a gang of that size, None: the smallest, on one node; None: no node holds it."""
        workers = spec.fewest_workers if workers is None else workers
        order = self._crowd.order(spec)
        if order is None and self.settings.node_order == "least-idle":
            order = idle.nodes_by_most_idle(spec)[::-1]
        return place_on_one_node(spec, idle, most=workers, least=workers, order=order)

    def _place(self, spec: JobSpec, idle: Idle, workers: int) -> dict[str, str] | None:
        """Place a gang of that size on one node, or else on the fewest; None: it has no room."""
        return self._on_one(spec, idle, workers) or spread(
            spec, idle, most=workers, least=workers, order=self._crowd.order(spec)
        )

    def _urgent(self) -> list[Job]:
        """Return the jobs that waited longer than tau and for which no room is being made yet."""
        now, tau = self.snapshot.now, self.settings.urgent_after
        return [
            job
            for job in self.snapshot.waiting
            if now - job.queued_at > tau and job.name not in self.books.settled
        ]

    def _size(self, job: Job) -> tuple[float, int]:
        return self._share(request_of_all(job.spec, job.spec.fewest_workers)), job.order

    def _share(self, amount: Resources) -> float:
        """Return the largest share of the cluster in the amount, over the kinds of resources."""
        whole = self._whole
        pairs = ((amount.cpu, whole.cpu), (amount.memory, whole.memory), (amount.gpu, whole.gpu))
        return max((part / most for part, most in pairs if most > 0), default=0.0)

    def _scalable(self) -> list[Job]:
        """Return the jobs that train as a whole and can resume from a checkpoint, oldest first."""
        jobs = self.books.running
        return [job for job in jobs if job.trains_since is not None and job.spec.checkpointing != "none"]

    def _room_for(self, spec: JobSpec) -> tuple[list[Replica], Mapping[str, str]] | None:
        """Return the workers that must end so that a gang has room, and where it then goes; None: too few.

        Workers already leaving are counted first, and may be enough. Else the gang gets one node, if one is
        large enough to hold it at all: victims that shrink so that a gang can be torn apart lose more than it
        gains.
        """
        idle = self.books.idle_soon()
        if (placement := self.smallest(spec, idle)) is not None:
            return [], placement
        whole = self._on_one(spec, Idle(self.snapshot, emptied=True)) is not None
        return vacate(spec, self._victims(), idle, self._on_one if whole else self.smallest)

    def _victims(self) -> list[Replica]:
        """Return the workers that can be spared, in the order in which they are."""
        spare = [self.books.surplus(job) for job in self._scalable()]
        if self.settings.victim_order == "fifo":
            return [worker for workers in spare for worker in workers]
        # The rest of the surplus when it is a worker's turn; of equals the oldest job's goes first.
        turns = [
            (-self._share(worker.requests) * (len(workers) - gone), age, gone, worker)
            for age, workers in enumerate(spare)
            for gone, worker in enumerate(workers)
        ]
        return [worker for *_, worker in sorted(turns, key=lambda turn: turn[:3])]

    def _own_nodes(self, job: Job) -> list[str]:
        """Return the nodes where the job may grow: those of its parameter servers, then where it runs."""
        near = self.books.home(job)
        held = set() if self.settings.literal else {r.node for r in self.snapshot.workers(job.name)}
        return [n for n in self.books.idle.nodes if n in near] + [
            n for n in self.books.idle.nodes if n in held and n not in near
        ]


def _describe_wait(job: Job, snapshot: Snapshot) -> str:
    return f"waited {snapshot.now - job.queued_at:.0f} s"
