"""First come, first served in queues with quotas, whole gangs only: what Kueue does for a cluster.

After the documentation of Kueue: its `ClusterQueue`s of one cohort, the strategies `StrictFIFO` and
`BestEffortFIFO`, borrowing and partial admission. See `docs/results/kubeflow.md`.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from specon_manager.model.actions import AdmitGang, Proposal
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.gang_placement import place_on_one_node, request_of_all, spread
from specon_manager.policies.idle import Idle
from specon_manager.policies.no_fit_cache import TooLarge
from specon_manager.policies.placement import readmissions
from specon_manager.policies.shared_nodes import Crowd

_ROUNDING = 1 + 1e-9  # a share of a third, three times, is the whole


class QuotaFifoSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose share is how large, and who waits for whom."""

    shares: Mapping[str, Annotated[float, Meta(ge=0, le=1)]] = field(default_factory=dict)
    """Share of the cluster, 0 to 1 of each resource, by queue; all other queues share the rest as one."""
    borrow: bool = True
    """Whether a queue may use what the others leave unused."""
    strategy: Literal["best-effort", "strict"] = "best-effort"
    """`strict`: the oldest job of a queue that cannot be admitted holds back those behind it."""
    partial: bool = False
    """Whether an elastic job is admitted with fewer workers where all it asked for cannot be."""

    def __post_init__(self) -> None:
        """Raise ValueError where more than the whole cluster is shared out."""
        if sum(self.shares.values()) > _ROUNDING:
            raise ValueError(f"shares: {sum(self.shares.values()):g} in all is more than the cluster, 1")


def propose(snapshot: Snapshot, settings: QuotaFifoSettings) -> Iterator[Proposal]:
    """Admit heads of queues, those within their quota before those that borrow, older ones first."""
    idle, crowd = Idle(snapshot), Crowd(snapshot)
    for again in readmissions(snapshot):
        idle.take(again.node, snapshot.replicas[again.replica].requests)
        crowd.add({again.replica: again.node})
        yield again
    quotas, too_large = _Quotas(snapshot, settings), TooLarge()
    queues: dict[str, deque[Job]] = {}
    for job in snapshot.waiting:
        queues.setdefault(quotas.queue(job), deque()).append(job)
    while queues:
        borrows, _, name = min(
            (not quotas.is_within(queue[0], queue[0].spec.wanted_workers), queue[0].order, name)
            for name, queue in queues.items()
        )
        job = queues[name].popleft()
        placement = _place(job, quotas, idle, crowd=crowd, too_large=too_large, settings=settings)
        if placement is not None:
            yield AdmitGang(job=job.name, placement=placement, reason=quotas.words(job, borrows=borrows))
            idle.start(job.spec, placement)
            crowd.add(placement)
            quotas.use(name, total([job.spec.requests_of(replica) for replica in placement]))
        elif settings.strategy == "strict":
            queues[name].clear()
        if not queues[name]:
            del queues[name]


def _place(
    job: Job, quotas: "_Quotas", idle: Idle, *, crowd: Crowd, too_large: TooLarge, settings: QuotaFifoSettings
) -> dict[str, str] | None:
    """Place a job with all workers that it asked for, or, with `partial`, with as many as possible."""
    spec = job.spec
    least = spec.fewest_workers if settings.partial else spec.wanted_workers
    for workers in range(spec.wanted_workers, least - 1, -1):
        if too_large.covers(spec, workers) or not (settings.borrow or quotas.is_within(job, workers)):
            continue
        order = crowd.order(spec)
        placement = place_on_one_node(spec, idle, most=workers, least=workers, order=order) or spread(
            spec, idle, most=workers, least=workers, order=order
        )
        if placement is not None:
            return placement
        too_large.add(spec, workers)
    return None


class _Quotas:
    """What each queue may use and uses."""

    def __init__(self, snapshot: Snapshot, settings: QuotaFifoSettings) -> None:
        self._whole = snapshot.free.total
        self._shares = dict(settings.shares)
        self._shares.setdefault("", max(0.0, 1.0 - sum(settings.shares.values())))
        self._used: dict[str, Resources] = dict.fromkeys(self._shares, NOTHING)
        waiting = {job.name for job in snapshot.waiting}
        for name, replicas in snapshot.members.items():
            # What crashed keeps its quota while it pauses; a worker that is absent has none.
            held = [r.requests for r in replicas if r.active or (r.phase is Phase.PENDING and r.starts)]
            if name not in waiting and held:
                self.use(self.queue(snapshot.jobs[name]), total(held))

    def queue(self, job: Job) -> str:
        """Return the queue whose quota the job counts against; "" is that of all that are not named."""
        return job.spec.queue if job.spec.queue in self._shares else ""

    def use(self, queue: str, amount: Resources) -> None:
        """Count this much as used by the queue."""
        self._used[queue] += amount

    def is_within(self, job: Job, workers: int) -> bool:
        """Whether the job with so many workers stays within the quota of its queue."""
        queue = self.queue(job)
        share, wanted = self._shares[queue] * _ROUNDING, self._used[queue] + request_of_all(job.spec, workers)
        whole = self._whole
        quota = Resources(cpu=share * whole.cpu, memory=share * whole.memory, gpu=share * whole.gpu)
        return wanted.fits(quota)

    def words(self, job: Job, *, borrows: bool) -> str:
        """Return the reason for an admission."""
        queue = self.queue(job)
        whose = f"queue {queue!r}" if queue else "the queue of all others"
        quota = f"{100 * self._shares[queue]:.3g} % of the cluster"
        how = "borrowing beyond" if borrows else "within"
        return f"first that can be admitted in {whose}, {how} its {quota}"
