"""Whom Kueue is likely to preempt for a Workload, by its own order. Pure.

Source, Kueue at ff69552e79 (August 2026): the order is `CandidatesOrdering` of
`pkg/scheduler/preemption/common/ordering.go`; who is a candidate is `classifyPreemptionVariant` of
`pkg/scheduler/preemption/classical/hierarchical_preemption.go` and `preemption_policy.go`; how many of them
go is `classicalPreemptions` and `fillBackWorkloads` of `pkg/scheduler/preemption/preemption.go`.

This model is simpler: cohorts have no parents, lending limits are not looked at, and neither are fair sharing
nor topologies. The flavor is the first whose quota the Workload could have. Where the sum does not come out,
the first candidates of the order are likely.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from specon_manager.backends.kube.kueue.facts import ClusterQueue, Share, Workload

MOST: Final = 16
"""Victims that are named where Kueue's sum cannot be done again."""
_SLACK: Final = 1e-6
_BY_PRIORITY: Final = frozenset({"LowerPriority", "LowerOrNewerEqualPriority"})


def order_of(workload: Workload, queue: str, now: float) -> tuple[bool, bool, int, float, str]:
    """Return by what Kueue sorts the candidates for a preemption in a ClusterQueue, the first victim first.

    Workloads being evicted, then other ClusterQueues, lower priority, later admission, and the UID.
    """
    reserved = now if workload.reserved_at is None else workload.reserved_at
    own = workload.cluster_queue == queue
    return not workload.evicted, own, workload.priority, -reserved, workload.uid


def likely_victims(
    preemptor: Workload,
    cluster_queue: str,
    workloads: Iterable[Workload],
    queues: Mapping[str, ClusterQueue],
    now: float,
) -> tuple[Workload, ...]:
    """Return whom Kueue would preempt now so that a Workload of this ClusterQueue fits, by its order.

    Where the sum does not come out, the first of those who may be preempted at all.
    """
    queue = queues.get(cluster_queue)
    if queue is None:
        return ()
    plan = _Plan(preemptor, queue, queues, workloads)
    candidates = plan.candidates(now)
    found = plan.chosen(candidates) or [each for each, _ in candidates[:MOST]]
    return tuple(sorted(found, key=lambda each: order_of(each, queue.name, now)))


def victims(
    preemptor: Workload,
    cluster_queue: str,
    workloads: Iterable[Workload],
    queues: Mapping[str, ClusterQueue],
    now: float,
) -> tuple[Workload, ...]:
    """Return whom Kueue would preempt, as far as its sum can be done again; empty: nobody."""
    plan = _Plan(preemptor, queues[cluster_queue], queues, workloads)
    return tuple(plan.chosen(plan.candidates(now)))


RankedWorkload = tuple[Workload, bool]
"""A candidate, and whether it may go while the preemptor's ClusterQueue borrows."""


class _Plan:
    """Who uses what while the preemption is tried out."""

    def __init__(
        self,
        preemptor: Workload,
        queue: ClusterQueue,
        queues: Mapping[str, ClusterQueue],
        workloads: Iterable[Workload],
    ) -> None:
        self._preemptor, self._queue = preemptor, queue
        self._cohort = {
            name: each
            for name, each in queues.items()
            if name == queue.name or (queue.cohort and each.cohort == queue.cohort)
        }
        self._used: dict[str, dict[Share, float]] = {name: {} for name in self._cohort}
        self._admitted = [
            each
            for each in workloads
            if each.cluster_queue in self._cohort and each.reserved_at is not None and not each.finished
        ]
        for each in self._admitted:
            self._count(each, 1)
        self._wanted = share_of(preemptor, queue)
        self._lacking = frozenset(
            share for share in self._wanted if not self._fits((share,), borrowing=False)
        )

    def chosen(self, candidates: Collection[RankedWorkload]) -> list[Workload]:
        """Return whom the first attempt that succeeds ends; none where none does."""
        tries = (self._targets(candidates, borrowing=each) for each in self._attempts(candidates))
        return next((found for found in tries if found), [])

    def _attempts(self, candidates: Collection[RankedWorkload]) -> tuple[bool, ...]:
        """Return whether to try with borrowing, in the order of the attempts."""
        others = any(each.cluster_queue != self._queue.name for each, _ in candidates)
        if not others or not (self._queue.borrows or self._below_nominal()):
            return (True,)
        return (True, False) if self._queue.borrows or self._within_nominal() else (False, True)

    def candidates(self, now: float) -> list[RankedWorkload]:
        """Return who may go, those first who would go first."""
        found = list[RankedWorkload]()
        for each in self._admitted:
            if self._lacking.isdisjoint(each.usage):
                continue
            if each.cluster_queue == self._queue.name:
                if _permits(self._queue.within, self._preemptor, each):
                    found.append((each, True))
            elif self._borrows(each.cluster_queue) and _permits(self._queue.reclaim, self._preemptor, each):
                found.append((each, self._within_nominal() or self._while_borrowing(each)))
        return sorted(found, key=lambda each: order_of(each[0], self._queue.name, now))

    def _targets(self, candidates: Iterable[RankedWorkload], *, borrowing: bool) -> list[Workload]:
        """Return the fewest of them, by Kueue's rule, whose end lets the preemptor fit; none: it cannot."""
        gone = list[Workload]()
        for each, may_borrow in candidates:
            own = each.cluster_queue == self._queue.name
            if not own and ((borrowing and not may_borrow) or not self._borrows(each.cluster_queue)):
                continue
            self._count(each, -1)
            gone.append(each)
            if self._fits(self._wanted, borrowing=borrowing):
                break
        else:
            self._restore(gone)
            return []
        for each in list(reversed(gone[:-1])):
            self._count(each, 1)
            if self._fits(self._wanted, borrowing=borrowing):
                gone.remove(each)
            else:
                self._count(each, -1)
        self._restore(gone)
        return gone

    def _restore(self, gone: Iterable[Workload]) -> None:
        for each in gone:
            self._count(each, 1)

    def _count(self, workload: Workload, sign: int) -> None:
        used = self._used.get(workload.cluster_queue)
        for share, amount in workload.usage.items() if used is not None else ():
            assert used is not None
            used[share] = used.get(share, 0.0) + sign * amount

    def _nominal(self, queue: str, share: Share) -> float:
        quota = self._cohort[queue].quotas.get(share)
        return 0.0 if quota is None else quota.nominal

    def _fits(self, shares: Iterable[Share], *, borrowing: bool) -> bool:
        return all(self._fits_one(share, borrowing=borrowing) for share in shares)

    def _fits_one(self, share: Share, *, borrowing: bool) -> bool:
        wanted, own = self._wanted[share], self._queue.name
        quota = self._queue.quotas.get(share)
        limit = None if quota is None else quota.borrowing_limit
        most = self._nominal(own, share)
        if borrowing and self._queue.cohort:
            most += float("inf") if limit is None else limit
        if self._used[own].get(share, 0.0) + wanted > most + _SLACK:
            return False
        used = sum(each.get(share, 0.0) for each in self._used.values())
        return used + wanted <= sum(self._nominal(name, share) for name in self._cohort) + _SLACK

    def _within_nominal(self) -> bool:
        """Whether the preemptor's own quota has room for it: then it takes back what others have borrowed."""
        used, own = self._used[self._queue.name], self._queue.name
        return all(
            used.get(share, 0.0) + amount <= self._nominal(own, share) + _SLACK
            for share, amount in self._wanted.items()
        )

    def _below_nominal(self) -> bool:
        """Whether the preemptor's ClusterQueue uses less than its own quota of each lacking resource."""
        used, own = self._used[self._queue.name], self._queue.name
        return all(used.get(share, 0.0) < self._nominal(own, share) - _SLACK for share in self._lacking)

    def _borrows(self, queue: str) -> bool:
        """Whether another ClusterQueue uses more than its own quota of a lacking resource."""
        used = self._used[queue]
        return any(used.get(share, 0.0) > self._nominal(queue, share) + _SLACK for share in self._lacking)

    def _while_borrowing(self, candidate: Workload) -> bool:
        if not self._queue.borrows or candidate.priority >= self._preemptor.priority:
            return False
        return self._queue.threshold is None or candidate.priority <= self._queue.threshold


def share_of(preemptor: Workload, queue: ClusterQueue) -> dict[Share, float]:
    """Return what a Workload needs by flavor: in each group, the first flavor that could give it all."""
    found: dict[Share, float] = {}
    for covered, flavors in queue.groups:
        asked = {
            name: amount for name, amount in preemptor.requests.items() if name in covered and amount > 0
        }
        if not asked or not flavors:
            continue
        flavor = next(
            (
                each
                for each in flavors
                if all(
                    (quota := queue.quotas.get((each, name))) is not None and amount <= quota.nominal + _SLACK
                    for name, amount in asked.items()
                )
            ),
            flavors[0],
        )
        found |= {(flavor, name): amount for name, amount in asked.items()}
    return found


def _permits(policy: str, preemptor: Workload, candidate: Workload) -> bool:
    """Whether a policy of the preemptor's ClusterQueue lets the candidate go."""
    if policy in _BY_PRIORITY and candidate.priority < preemptor.priority:
        return True
    if policy == "LowerOrNewerEqualPriority":
        return candidate.priority == preemptor.priority and preemptor.created_at < candidate.created_at
    return policy == "Any"
