"""How much a job has left to do, as far as anybody can know while it runs.

Best is what its sidecar measured: steps left, times what a step costs. Without that, what longer jobs of its
kind had left; without those, the mean of all kinds. A job that outlived them all is taken to need the longer,
the more they differ, as heavy tails teach (the expected rest of a Pareto-distributed time grows with what has
passed: least attained service first).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from statistics import fmean, pstdev
from typing import Final, Literal

from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.rooms import parts_of
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.prospects import Left, Prospects, rank, read_reported_work, until_converged
from specon_manager.policies.shared_nodes import reserves

Objective = Literal["completion", "quality", "balanced"]
"""Which end should come soon: that of jobs, that of their gain, or both."""

_QUALITY: Final[Mapping[Objective, float]] = {"completion": 0.0, "balanced": 0.5, "quality": 1.0}
"""The weight of having converged; that of being complete is the rest of 1."""
_ENOUGH: Final = 3  # completed jobs of a kind before their mean is believed


class Expectation:
    """Answers for every job of one snapshot, each computed once."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        prior_seconds: float,
        size_power: float = 0.0,
        objective: Objective = "completion",
    ) -> None:
        """Take the snapshot; `prior_seconds` is how long a job takes where nothing was learnt yet.

        `size_power` is how much the size of a job counts in its work, `objective` which end should come soon.
        """
        self._snapshot, self._size_power, self._quality = snapshot, size_power, _QUALITY[objective]
        self._known: dict[str, float] = {}
        self._works: dict[str, float] = {}
        self._factors: dict[tuple[float, ...], float] = {}  # a large cluster has few kinds of requests
        self._measures: dict[str, float | None] = {}
        served = [each for each in snapshot.served.values() if each.jobs >= _ENOUGH]
        jobs = sum(each.jobs for each in served)
        mean = sum(each.jobs * each.mean_seconds for each in served) / jobs if jobs else prior_seconds
        self._prior = mean

    def remaining(self, job: Job) -> float:
        """Return the expected remaining time of the job, undisturbed, seconds; above 0."""
        known = self._known.get(job.name)
        if known is None:
            known = max(1e-3, self._remaining(job))
            self._known[job.name] = known
        return known

    def rank(self, job: Job) -> float:
        """Return the seconds that a job counts as having left, less being served first; above 0.

        A job is two pieces of work, one after the other: until it has converged, of weight w, and from then
        to its end, of weight 1 - w. Served first is who ends most weight in the least time, looking one or
        two pieces ahead: with c left to convergence and r to the end that is 1 / min(c / w, r), and
        (1 - w) / r once it has converged. That order is optimal on one machine for chains of known times
        (J. B. Sidney, Operations Research 23(2), 1975). With w = 0 it is r, with w = 1 what has converged
        comes after all that has not. Where nothing is known of convergence, r counts.
        """
        part = until_converged(job, self._snapshot.replicas) if self._quality else None
        return rank(self.remaining(job), part, self._quality)

    def work(self, job: Job) -> float:
        """Return the expected work, by which the queue is ordered: `rank`, by the size of the demand."""
        known = self._works.get(job.name)
        if known is None:
            known = self.rank(job) * self._factor(job)
            self._works[job.name] = known
        return known

    def _factor(self, job: Job) -> float:
        if not self._size_power:
            return 1.0
        spec = job.spec
        if not reserves(spec):
            return 1.0
        key = *parts_of(spec.requests), spec.fewest_workers
        found = self._factors.get(key)
        if found is None:
            found = self._factors[key] = self._size(job) ** self._size_power
        return found

    def most_work(self, longer: float = 0.0) -> Iterator[Left]:
        """Yield the jobs that occupy nodes and were measured to have `longer` left, the most work first.

        Of equals the oldest.
        """
        kept = self._kept
        found = [
            Left(job, self.work(job), self.remaining(job))
            for job in kept.others.values()
            if self.measured(job)
        ]
        found.sort(key=lambda each: (-each.work, each.job.order))
        found = [each for each in found if each.remaining > longer]
        return kept.by_work(self._snapshot.now, longer, found)

    def longest_elastic(self) -> Iterator[Job]:
        """Yield the elastic jobs that occupy nodes, those with the most left first, of equals the latest."""
        kept = self._kept
        found = [(self.remaining(job), job) for job in kept.others.values() if job.spec.elastic]
        found.sort(key=lambda each: (-each[0], -each[1].order))
        return (job for _, job in kept.by_time(self._snapshot.now, found))

    def varying(self) -> Iterable[Job]:
        """Return the elastic jobs that do not have all workers, or more than were asked for, in no order."""
        return self._kept.varying.values()

    @cached_property
    def _kept(self) -> Prospects:
        global _last  # noqa: PLW0603  (a cache of one entry; the answer does not depend on it)
        key = self._quality, self._size_power, self._snapshot.largest
        kept = None
        if _last is not None and _last[0] == key:
            kept = _last[1].renewed(self._snapshot, self._factor)
        if kept is None:
            kept = Prospects(self._snapshot, self._quality, self._factor)
        _last = key, kept
        return kept

    def measured(self, job: Job) -> bool:
        """Whether the sidecar knows how much is left."""
        return self._measured(job) is not None

    def _remaining(self, job: Job) -> float:
        measured = self._measured(job)
        if measured is not None:
            return measured
        snapshot = self._snapshot
        served = snapshot.served.get(job.kind)
        attained = self.attained(job)
        if served is not None and len(served.latest) >= _ENOUGH:
            return residual(served.latest, attained)
        mean = served.mean_seconds if served is not None and served.jobs >= _ENOUGH else self._prior
        return max(mean - attained, attained)

    def _size(self, job: Job) -> float:
        """Return the largest share of a node that the smallest form of a job that reserves asks for.

        Shares of the largest amount of each kind that a ready node has: it is a matter of scale only.
        """
        spec = job.spec
        share = max(spec.requests.shares(self._snapshot.largest), default=1.0)
        return max(share, 1e-6) * spec.fewest_workers

    def attained(self, job: Job) -> float:
        """Return how long it trained; of a job that shares processors, what it would have taken alone.

        Where no step tells that, it is the time in which the job was not stopped for the sake of others.
        """
        passed = job.attained(self._snapshot.now)
        for name in job.spec.worker_names[:1]:
            replica = self._snapshot.replicas[name]
            progress = replica.progress
            cost = self._cost(replica)
            if cost is not None and progress.step is not None and not reserves(job.spec):
                return progress.step * cost / self._cores(replica)
            return max(0.0, passed - progress.stopped)
        return passed

    def _measured(self, job: Job) -> float | None:
        name = job.name
        if name not in self._measures:
            self._measures[name] = self._measure(job)
        return self._measures[name]

    def _measure(self, job: Job) -> float | None:
        if reserves(job.spec):
            told = read_reported_work(job, self._snapshot.replicas)
            return None if told is None else told[0] - max(0.0, self._snapshot.now - told[1])
        for name in job.spec.replicas:
            replica = self._snapshot.replicas[name]
            progress = replica.progress
            if progress.step is None or progress.total_steps is None:
                continue
            if (cost := self._cost(replica)) is not None:
                left = max(0, progress.total_steps - progress.step)
                alone = left * cost / self._cores(replica)
                return max(0.0, alone - self._measure_passed(job, replica) * self._share(replica))
            if progress.remaining_seconds is not None and progress.reported_at is not None:
                passed = self._measure_passed(job, replica) * self._share(replica)
                return max(0.0, progress.remaining_seconds.value - passed)
        return None

    def _measure_passed(self, job: Job, replica: Replica) -> float:
        """Return how long the job has trained since the replica's last report, seconds, as far as is known.

        A report may be older than the last start: while a job waits, its remaining work stays the same.
        """
        reported_at = replica.progress.reported_at
        if reported_at is None or job.trains_since is None:
            return 0.0
        return max(0.0, self._snapshot.now - max(reported_at, job.trains_since))

    def _share(self, replica: Replica) -> float:
        """Return which part of its node a replica gets by its weight, 0 while it does not run."""
        if replica.phase is not Phase.RUNNING or replica.node is None:
            return 0.0
        on_node = self._snapshot.on_node.get(replica.node, ())
        sharing = [other for other in on_node if other.phase is Phase.RUNNING]
        weights = sum(other.weight for other in sharing)
        return replica.weight / weights if weights > 0 else 0.0

    def _cost(self, replica: Replica) -> float | None:
        """Return the processor time of a step; None where it says nothing of the pace, as on a GPU."""
        node = self._snapshot.nodes.get(replica.node or "")
        # Of one that waits nobody knows where its steps were measured.
        on_gpu = self._snapshot.largest.gpu > 0 if node is None else node.capacity.gpu > 0
        return None if on_gpu else replica.progress.cpu_per_step

    def _cores(self, replica: Replica) -> float:
        node = self._snapshot.nodes.get(replica.node or "")
        return max(1e-9, node.capacity.cpu if node is not None else 1.0)


_last: tuple[tuple[float, float, Resources], Prospects] | None = None


def residual(durations: Sequence[float], attained: float) -> float:
    """Return the mean of what those of the durations that are longer than `attained` have left then, seconds.

    What has outlived all of them is taken to need as much again as it is over the longest, and a part of what
    it had that is the larger, the more the durations differ (their standard deviation over their mean, at
    most 1: as long again, as heavy tails teach).
    """
    longer = [each for each in durations if each > attained]
    if longer:
        return fmean(longer) - attained
    spread = min(1.0, pstdev(durations) / max(1e-9, fmean(durations)))
    return attained - max(durations) + spread * attained
