"""Quotas: what the jobs of a queue use together, and why they may not use more. Pure.

A job counts with all replicas that it has at present, from its admission until its last replica is gone: a
crashed replica returns to its own place. Each kind of resource is within the queue's own share, or borrowed
from what all queues together leave of theirs. A share that is lowered below its use ends nothing. A job that
its queue does not take is not admitted, and charges the queue nothing if it runs anyway.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.model.actions import Admit, AdmitGang, Objection, Proposal, Refusal, ScaleOut
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.queues import Queue
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.counts import format_count

_PRESENT: Final = frozenset({Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.AWAITED})
_ROUNDING: Final = 1e-9
_GIB: Final = 2.0**30


class Headroom(Struct, frozen=True):
    """How much more of one kind a queue may use, and in words how much it uses of what."""

    amount: float
    words: str


class Usage:
    """What each queue uses, and what a plan has given out of it so far."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Count the jobs of the snapshot; where there are no queues nothing is counted."""
        self.queues = snapshot.queues
        self._counted: set[str] = set()
        self._moving = snapshot.moving
        self._used = dict.fromkeys(snapshot.queues, NOTHING)
        if not snapshot.queues:
            return
        for job in snapshot.jobs.values():
            if job.ended_at is not None or not self._charges(job):
                continue
            members = snapshot.members[job.name]
            if (job.spec.held and job.admitted) or any(member.active for member in members):
                self.count(job, members)
        self._whole = total([queue.quota for queue in snapshot.queues.values()])

    def count(self, job: Job, members: Iterable[Replica]) -> None:
        """Count these replicas of a job, those that are present."""
        amount = total([member.requests for member in members if self._is_present(member)])
        self._counted.add(job.name)
        self.add(job, amount)

    def _is_present(self, member: Replica) -> bool:
        """Whether its job has the replica at present, or will when it has been scaled out."""
        flying = self._moving.get(member.name)
        return member.phase in _PRESENT or (flying is not None and member.name in flying.wanted)

    def counts(self, job: Job) -> bool:
        """Whether the job is counted already."""
        return job.name in self._counted

    def add(self, job: Job, amount: Resources) -> None:
        """Count this much more for the queue of a job; nothing where it has none."""
        if self._charges(job):
            self._counted.add(job.name)
            self._used[job.spec.queue] += amount

    def _charges(self, job: Job) -> bool:
        """Whether its queue pays for what the job has: it takes the job, or did when that was admitted."""
        queue = self.queues.get(job.spec.queue)
        admitted = not job.owned or (job.spec.held and job.admitted)
        return queue is not None and (admitted or closed_to(queue, job) is None)

    def used(self, queue: str) -> Resources:
        """Return what the jobs of a queue use."""
        return self._used[queue]

    def headroom(self, name: str, kind: str) -> Headroom:
        """Return how much more `cpu`, `memory` or `gpu` a queue may use: of its own share, or borrowed."""
        queue, used = self.queues[name], getattr(self._used[name], kind)
        share = getattr(queue.quota, kind)
        own = Headroom(share - used, f"it uses {_amount(kind, used)} of its quota, {_amount(kind, share)}")
        if not queue.borrow:
            return own
        whole = getattr(self._whole, kind)
        taken = sum(getattr(each, kind) for each in self._used.values())
        borrowed = Headroom(
            whole - taken,
            f"{own.words}, and all queues use {_amount(kind, taken)} of {_amount(kind, whole)}",
        )
        if queue.limit is not None:
            limit = getattr(queue.limit, kind)
            words = f"it uses {_amount(kind, used)} of its limit, {_amount(kind, limit)}"
            if limit - used < borrowed.amount:
                borrowed = Headroom(limit - used, words)
        return borrowed if borrowed.amount > own.amount else Headroom(own.amount, borrowed.words)

    def against(self, job: Job, amount: Resources) -> str | None:
        """Return why its queue does not let a job have this much more, in words; None where it does.

        A queue that is not there lets nobody, where there are queues at all; no queue is no quota.
        """
        name = queue_of(job)
        if not name or not self.queues:
            return None
        if name not in self.queues:
            return f"there is no queue {name}"
        return closed_to(self.queues[name], job) or self._lacking(name, amount)

    def _lacking(self, name: str, amount: Resources) -> str | None:
        for kind in ("cpu", "memory", "gpu"):
            asked = getattr(amount, kind)
            if asked <= 0:
                continue
            left = self.headroom(name, kind)
            if asked > left.amount + _ROUNDING * asked:
                return f"queue {name} has no quota for {_amount(kind, asked)} more: {left.words}"
        return None


def closed_to(queue: Queue, job: Job) -> str | None:
    """Return why a queue does not take a job, however much it has left; None where it does."""
    spec = job.spec
    namespace = job.name.partition("/")[0]
    if queue.namespaces is not None and namespace not in queue.namespaces:
        return f"queue {queue.name} takes no jobs of namespace {namespace}"
    if spec.job_class == "trial" and not queue.allow_trials:
        return f"queue {queue.name} takes no trials"
    if queue.max_utility is not None and spec.utility > queue.max_utility:
        words = f"takes jobs of a utility of at most {queue.max_utility:g}; this one says {spec.utility:g}"
        return f"queue {queue.name} {words}"
    return None


def smallest(job: Job, members: Iterable[Replica]) -> tuple[Replica, ...]:
    """Return the replicas of a waiting job that have to start at least: all servers, and enough workers."""
    members = tuple(members)
    servers = [member for member in members if member.role == "ps" and not member.ended]
    workers = [member for member in members if member.role != "ps"]
    ended = sum(member.ended for member in workers)
    left = sorted((w for w in workers if not w.ended), key=lambda worker: (worker.index, worker.name))
    return (*servers, *left[: max(0, job.spec.fewest_workers - ended)])


def gang_requests(job: Job, members: Iterable[Replica]) -> Resources:
    """Return what the smallest gang of a waiting job asks for."""
    return total([member.requests for member in smallest(job, members)])


def queue_of(job: Job) -> str:
    """Return the queue that a job is admitted through; empty for one that only its owner admits."""
    return job.spec.queue if job.spec.held or not job.owned else ""


def fit_quota(proposal: Proposal, snapshot: Snapshot, usage: Usage) -> tuple[Proposal, Objection | None]:
    """Return the proposal with as many workers as the quota has room for, and the objection that remains.

    A policy knows no quotas: a job of which the smallest gang is within its quota is admitted with fewer
    workers than proposed, those with the lowest indices, and grows by fewer.
    """
    if not usage.queues or not isinstance(proposal, Admit | AdmitGang | ScaleOut):
        return proposal, None
    job = _job_of(proposal, snapshot)
    if job is None or not queue_of(job):
        return proposal, None
    if isinstance(proposal, Admit):
        if usage.counts(job):
            return proposal, None
        members = [member for member in snapshot.members.get(job.name, ()) if member.phase is Phase.PENDING]
        return proposal, _objection(usage.against(job, total([m.requests for m in members])))
    return _cut(proposal, job, snapshot, usage)


def count_accepted(proposal: Proposal, snapshot: Snapshot, usage: Usage) -> None:
    """Count what an accepted proposal will use; `snapshot` is that before it is carried out."""
    if not usage.queues or not isinstance(proposal, Admit | AdmitGang | ScaleOut):
        return
    job = _job_of(proposal, snapshot)
    if job is None:
        return
    if isinstance(proposal, Admit):
        if not usage.counts(job):
            usage.count(job, snapshot.members.get(job.name, ()))
        return
    usage.add(job, total([job.spec.requests_of(name) for name in proposal.placement]))


def _cut(
    proposal: AdmitGang | ScaleOut, job: Job, snapshot: Snapshot, usage: Usage
) -> tuple[Proposal, Objection | None]:
    spec = job.spec
    names = set(spec.replicas)
    chosen = [name for name in proposal.placement if name in names]
    least = 1
    if isinstance(proposal, AdmitGang):
        least = len(smallest(job, [snapshot.replicas[name] for name in spec.replicas]))
    position = {name: number for number, name in enumerate((*spec.ps, *spec.worker_names))}
    ordered = sorted(chosen, key=position.__getitem__)
    against = usage.against(job, total([spec.requests_of(name) for name in ordered]))
    if against is None:
        return proposal, None
    for number in range(len(ordered) - 1, least - 1, -1):
        kept = ordered[:number]
        if usage.against(job, total([spec.requests_of(name) for name in kept])) is None:
            placement = {name: node for name, node in proposal.placement.items() if name in set(kept)}
            why = f"{proposal.reason}; {number} of {format_count(len(ordered), 'replica')}, since {against}"
            return msgspec.structs.replace(proposal, placement=placement, reason=why), None
    return proposal, _objection(against)


def _job_of(proposal: Admit | AdmitGang | ScaleOut, snapshot: Snapshot) -> Job | None:
    if isinstance(proposal, Admit):
        replica = snapshot.replicas.get(proposal.replica)
        return None if replica is None else snapshot.jobs.get(replica.job)
    return snapshot.jobs.get(proposal.job)


def _objection(words: str | None) -> Objection | None:
    return None if words is None else Objection(Refusal.QUOTA, words)


def _amount(kind: str, amount: float) -> str:
    if kind == "memory":
        return f"{amount / _GIB:.4g} GiB"
    return f"{amount:.4g} {'CPUs' if kind == 'cpu' else 'GPUs'}"
