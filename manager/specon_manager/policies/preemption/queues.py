"""Who waits, in which order, and what occupies nodes: read off the snapshot in one pass."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from specon_manager.model.cluster import Job, Replica
from specon_manager.model.snapshot import Snapshot


class Queued(NamedTuple):
    """A job that may be admitted now."""

    job: Job
    replicas: Sequence[Replica]
    """Those that are to start, parameter servers first."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.spec.name


class Queues:
    """The waiting jobs in two queues.

    The order within a queue is that of submission, also for jobs that were preempted or put back: who was
    admitted before was submitted before everybody who still waits, so this is the head of the queue
    (section 3 of the FitGpp paper, "placed back on the top"). With `stacked`, jobs that were preempted come
    first, the last one foremost, as the words of the paper can also be read.
    """

    def __init__(self, snapshot: Snapshot, *, stacked: bool = False) -> None:
        """Read the snapshot."""
        # `snapshot.waiting` says the same, but for jobs of several replicas looks at each of them again.
        self._snapshot = snapshot
        pending: dict[str, list[Replica]] = {}
        for replica in snapshot.all_pending:
            pending.setdefault(replica.job, []).append(replica)
        busy = {name for name in pending if name in snapshot.active_jobs}
        self.torn = bool(busy)
        """Whether a replica waits though others of its job occupy nodes, as after a crash."""
        self._pending = pending
        self._trials: list[tuple[float, int, str]] = []
        self._best_effort: list[tuple[float, int, str]] = []
        now, jobs, moving = snapshot.now, snapshot.jobs, snapshot.moving
        hidden, changing = snapshot.withheld, snapshot.changing
        self._jobs = jobs
        for name, replicas in pending.items():
            if name in hidden or name in changing:
                continue
            if name in busy or (moving and any(replica.name in moving for replica in replicas)):
                continue
            if _pauses(replicas, now):
                continue
            job = jobs[name]
            if job.ended_at is None:
                on_top = -1.0 - job.queued_at if stacked and job.preemptions else 0.0
                queue = self._trials if job.spec.job_class == "trial" else self._best_effort
                queue.append((on_top, job.order, name))
        self._trials.sort()
        self._best_effort.sort()

    def trials(self) -> Iterator[Queued]:
        """Yield the waiting trials, the head of the queue first."""
        return (self._queue_up(name) for _, _, name in self._trials)

    def best_effort(self) -> Iterator[Queued]:
        """Yield the waiting best-effort jobs, the head of the queue first."""
        return (self._queue_up(name) for _, _, name in self._best_effort)

    def together(self) -> Iterator[Queued]:
        """Yield all waiting jobs in one queue."""
        return (self._queue_up(name) for _, _, name in sorted(self._trials + self._best_effort))

    def _queue_up(self, name: str) -> Queued:
        replicas = self._pending[name]
        if len(replicas) > 1:
            replicas = sorted(replicas, key=lambda replica: (replica.role, replica.index, replica.name))
        return Queued(self._jobs[name], replicas)


def _pauses(replicas: Sequence[Replica], now: float) -> bool:
    """Whether a replica that crashed is not to start yet."""
    for replica in replicas:  # noqa: SIM110  (`any` makes a generator for each job that waits)
        if replica.not_before > now:
            return True
    return False
