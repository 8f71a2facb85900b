"""Fair shares among queues over time: whose jobs are asked first where several queues wait for room. Pure.

A queue's share is its use of the resource that it uses most, in units of its quota (dominant resource
fairness: A. Ghodsi et al., NSDI 2011). Its mean forgets: after a half-life the past counts half. The
queue with the least mean has its turn first. In its turn the policy sees the waiting jobs of no other queue,
and admits in its own order, up to what the queue gets when the free room is shared out job by job, each time
to the queue that has least by then. The last queue may have all that is left, so no room stays idle.

Trials, jobs of no queue and a job that starves wait for no turn.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.quotas import Usage, gang_requests, queue_of
from specon_manager.core.starvation import head
from specon_manager.core.state import State
from specon_manager.model.actions import Admit, AdmitGang, Objection, Proposal, Refusal
from specon_manager.model.cluster import Job
from specon_manager.model.queues import Queue, QueueShare
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot

_LEAST_QUOTA: Final = 0.01
"""Part of the whole that counts as the quota of a queue without one, by kind: what it borrows is dear."""
_TRIED: Final = 64
"""Jobs of one queue that are tried when the free room is shared out."""


class Turn(Struct, frozen=True, kw_only=True):
    """Whose jobs may be admitted now, and how much of them."""

    queue: str
    most: float
    """What they may have together, in shares; the last job may go beyond it."""
    given: float = 0.0
    last: bool
    """Whether no other queue waits for a turn in this round."""
    others: Mapping[str, str]
    """The waiting jobs of the other queues, with the reason why they are not seen."""
    quota: Resources

    def seen(self, snapshot: Snapshot) -> Snapshot:
        """Return what the policy sees in this turn."""
        return snapshot.without({**snapshot.withheld, **self.others})

    def objection(self, proposal: Proposal, snapshot: Snapshot) -> Objection | None:
        """Return that the queue has had its part of the free room; None where it has not."""
        if not self._concerns(proposal, snapshot) or self.given < self.most:
            return None
        return Objection(Refusal.QUOTA, f"queue {self.queue} has had its fair share of the free room")

    def after(self, proposal: Proposal, snapshot: Snapshot) -> "Turn":
        """Return the turn once the proposal is accepted; `snapshot` is from before that."""
        if not self._concerns(proposal, snapshot):
            return self
        amount = total([snapshot.replicas[name].requests for name in _list_started(proposal, snapshot)])
        return msgspec.structs.replace(self, given=self.given + share(amount, self.quota))

    def _concerns(self, proposal: Proposal, snapshot: Snapshot) -> bool:
        if not isinstance(proposal, Admit | AdmitGang):
            return False
        job = _job_of(proposal, snapshot)
        return job is not None and job.spec.queue == self.queue and takes_turns(job)


def takes_turns(job: Job) -> bool:
    """Whether a waiting job waits for the turn of its queue."""
    return bool(queue_of(job)) and job.spec.job_class != "trial"


def share(amount: Resources, quota: Resources) -> float:
    """Return how many times its quota an amount is, for the kind where this is highest; see `weight`."""
    return max(amount.shares(quota), default=0.0)


def weight(queue: Queue, whole: Resources) -> Resources:
    """Return the quota that shares of a queue are measured by: what it has none of counts as a small part."""
    return Resources(
        cpu=max(queue.quota.cpu, _LEAST_QUOTA * whole.cpu),
        memory=max(queue.quota.memory, _LEAST_QUOTA * whole.memory),
        gpu=max(queue.quota.gpu, _LEAST_QUOTA * whole.gpu),
    )


def count_use(state: State, now: float) -> State:
    """Return the state with what each queue has used until now in its mean."""
    half_life = state.settings.fair_shares
    if half_life is None or not state.queues:
        return state if not state.shares else msgspec.structs.replace(state, shares={})
    usage, whole = Usage(state.snapshot(now)), _whole(state.queues)
    shares = {
        name: _mean(state.shares.get(name), share(usage.used(name), weight(queue, whole)), now, half_life)
        for name, queue in state.queues.items()
    }
    return msgspec.structs.replace(state, shares=shares)


def restore_means(state: State, means: Mapping[str, float], now: float) -> State:
    """Return the state with the means that a former manager wrote down, of queues that have none yet."""
    new = {name: QueueShare(mean=mean, at=now) for name, mean in means.items() if name not in state.shares}
    return msgspec.structs.replace(state, shares={**state.shares, **new}) if new else state


def _mean(known: QueueShare | None, uses: float, now: float, half_life: float) -> QueueShare:
    """Return the mean until now; since it was last counted the queue has used as much as it did then."""
    if known is None:
        return QueueShare(mean=0.0, uses=uses, at=now)
    kept = math.exp2(-max(0.0, now - known.at) / half_life)
    return QueueShare(mean=kept * known.mean + (1 - kept) * known.uses, uses=uses, at=now)


def next_turn(state: State, snapshot: Snapshot, done: Collection[str]) -> Turn | None:
    """Return the turn of the next queue; None where all waiting jobs are asked together.

    `done` are the queues that had theirs in this round.
    """
    if state.settings.fair_shares is None or head(snapshot) is not None:
        return None
    waiting: dict[str, list[Job]] = {}
    for job in sorted(snapshot.waiting, key=lambda job: (job.queued_at, job.order, job.name)):
        if takes_turns(job) and job.spec.queue in state.shares:
            waiting.setdefault(job.spec.queue, []).append(job)
    if not done and len(waiting) < 2:  # noqa: PLR2004 - nobody to share with
        return None
    left = {name: jobs for name, jobs in waiting.items() if name not in done}
    if not left:
        return None
    whole = _whole(state.queues)
    weights = {name: weight(state.queues[name], whole) for name in left}
    means = {name: state.shares[name].mean for name in left}
    name = min(left, key=lambda each: (means[each], each))
    last = len(left) == 1
    others = {
        job.name: f"the turn is queue {name}'s, which has used less of its share"
        for queue, jobs in waiting.items()
        if queue != name
        for job in jobs
    }
    most = math.inf if last else _share_out(left, means, weights, snapshot)[name]
    return Turn(queue=name, most=most, last=last, others=others, quota=weights[name])


def _share_out(
    waiting: Mapping[str, list[Job]],
    means: Mapping[str, float],
    weights: Mapping[str, Resources],
    snapshot: Snapshot,
) -> Mapping[str, float]:
    """Return what each queue gets of all that is free, in shares, as if all nodes were one."""
    free = _free(snapshot)
    given = dict.fromkeys(waiting, 0.0)
    asks = {name: iter(jobs[:_TRIED]) for name, jobs in waiting.items()}
    heap = [(means[name], name) for name in waiting]
    heapify(heap)
    while heap:
        mean, name = heap[0]
        job = next(asks[name], None)
        if job is None:
            heappop(heap)
            continue
        amount = gang_requests(job, snapshot.members.get(job.name, ()))
        if not amount.fits(free):
            continue
        free -= amount
        part = share(amount, weights[name])
        given[name] += part
        heapreplace(heap, (mean + part, name))
    return given


def _free(snapshot: Snapshot) -> Resources:
    return sum((snapshot.room(node.name) for node in snapshot.ready_nodes), NOTHING)


def _whole(queues: Mapping[str, Queue]) -> Resources:
    return total([queue.quota for queue in queues.values()])


def _list_started(proposal: Proposal, snapshot: Snapshot) -> Iterable[str]:
    if isinstance(proposal, Admit):
        return (proposal.replica,)
    placement = proposal.placement if isinstance(proposal, AdmitGang) else {}
    return [name for name in placement if name in snapshot.replicas]


def _job_of(proposal: Admit | AdmitGang, snapshot: Snapshot) -> Job | None:
    if isinstance(proposal, AdmitGang):
        return snapshot.jobs.get(proposal.job)
    replica = snapshot.replicas.get(proposal.replica)
    return None if replica is None else snapshot.jobs[replica.job]
