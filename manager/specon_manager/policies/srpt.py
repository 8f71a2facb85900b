"""Shortest remaining processing time first, with perfect knowledge: what nobody is expected to beat.

Schrage, A proof of the optimality of the shortest remaining processing time discipline, Operations Research
16 (1968): on one machine nothing has a lower mean completion time. Where it is optimal, where nearly so, and
where only a rule of thumb is told in `docs/results/kubeflow.md`. It sees what other policies do not:
`declared_seconds` and remaining times that are true. It takes preemption to be free.
"""

import bisect
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from specon_manager.model.actions import AdmitGang, Claim, Preempt, Proposal
from specon_manager.model.cluster import Job
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import preemption_objection
from specon_manager.policies.idle import Idle
from specon_manager.policies.no_fit_cache import TooLarge
from specon_manager.policies.placement import readmissions
from specon_manager.policies.remaining_work import remaining_work
from specon_manager.policies.slots import Room


class SrptSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What "shortest" means, and how nodes are shared."""

    rank: Literal["service", "seconds"] = "service"
    """`service`: remaining seconds times the share of the cluster; `seconds`: remaining seconds alone."""
    per_node: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """How many workers that request nothing share a node; 1: each has its processors for itself."""
    margin: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """By which part a victim's rank must exceed that of the job it makes room for."""
    preemptions_per_job: Annotated[int, Meta(ge=0)] | None = None
    """How often a job is preempted at most; None: as often as need be (the manager's budget still holds)."""


def propose(snapshot: Snapshot, settings: SrptSettings) -> Iterator[Proposal]:
    """Give room to the jobs by rank; those that run and rank behind leave it."""
    now = Room(snapshot, settings.per_node)
    for again in readmissions(snapshot):
        now.take(snapshot.jobs[snapshot.replicas[again.replica].job].spec, {again.replica: again.node})
        yield again
    yield from _Ranking(snapshot, settings, now).proposals()


class _Ranking:
    """One call: the room free now, the room free soon, and who may still be preempted."""

    def __init__(self, snapshot: Snapshot, settings: SrptSettings, now: Room) -> None:
        self._snapshot, self._settings = snapshot, settings
        self._now, self._soon = now, now.copy()
        self._unclaimed = Idle(snapshot)  # what claims made earlier leave, until they are changed
        for replica in snapshot.replicas.values():
            if snapshot.leaves(replica) and (node := snapshot.place(replica)) is not None:
                self._soon.give(snapshot.jobs[replica.job].spec, {replica.name: node})
        self._victims = sorted(
            (self._rank(job), job.order, job) for job in snapshot.running if self._preemptible(job)
        )
        self._settled: set[str] = set()

    def proposals(self) -> Iterator[Proposal]:
        """Go through the waiting jobs, the one with the least to do first."""
        too_large = TooLarge()  # victims too only get fewer from one job to the next
        for rank, _, job in sorted((self._rank(job), job.order, job) for job in self._snapshot.waiting):
            if too_large.covers(job.spec, job.spec.fewest_workers):
                continue
            if (placement := self._size(job, self._now)) is not None:
                yield from self._admit(job, placement)
                continue
            if (plan := self._room_made(job, rank)) is None:
                too_large.add(job.spec, job.spec.fewest_workers)
                continue
            yield from self._preempt(job, *plan)
        yield from self._give_up()

    def _admit(self, job: Job, placement: Mapping[str, str]) -> Iterator[Proposal]:
        """Start a job, or let it have the claims to its room first."""
        asked: dict[str, Resources] = {}
        for replica, node in placement.items():
            asked[node] = asked.get(node, NOTHING) + job.spec.requests_of(replica)
        if not all(self._unclaimed.fits(node, amount, job.name) for node, amount in asked.items()):
            yield from self._claim(job, placement)
            return
        self._unclaimed.start(job.spec, placement)
        self._settle(job, placement)
        why = f"{self._words(job)} left, least of those that have room"
        yield AdmitGang(job=job.name, placement=placement, reason=why)

    def _preempt(self, job: Job, victims: list[Job], placement: Mapping[str, str]) -> Iterator[Proposal]:
        """End the victims and keep what they leave for the job."""
        for victim in victims:
            self._soon.give(victim.spec, self._places(victim))
            self._victims.remove((self._rank(victim), victim.order, victim))
            why = f"{self._words(victim)} left, {job.name} has {self._words(job)}"
            yield Preempt(job=victim.name, reason=why)
        yield from self._claim(job, placement)

    def _claim(self, job: Job, placement: Mapping[str, str]) -> Iterator[Claim]:
        """Keep room for a job, unless it has that claim already."""
        self._settle(job, placement)
        held = self._snapshot.claims.get(job.name)
        if held is None or dict(held.placement) != placement:
            why = f"{self._words(job)} left, goes there when the room is free"
            yield Claim(job=job.name, placement=placement, reason=why)

    def _settle(self, job: Job, placement: Mapping[str, str]) -> None:
        self._now.take(job.spec, placement)
        self._soon.take(job.spec, placement)
        self._settled.add(job.name)

    def _room_made(self, job: Job, rank: float) -> tuple[list[Job], dict[str, str]] | None:
        """Return who must end so that a job has room, and where it goes; None: not even all longer ones.

        As few of the longest as suffice: the shortest of the victims is as long as can be. Those of them
        that the placement does not need stay.
        """
        bound = rank * (1.0 + self._settings.margin)
        first = bisect.bisect_right(self._victims, bound, key=lambda entry: entry[0])
        longest = [victim for _, _, victim in reversed(self._victims[first:])]

        def placed(number: int) -> dict[str, str] | None:
            return self._size(job, self._without(longest[:number]))

        if (placement := placed(len(longest))) is None:
            return None
        low, high = 0, len(longest)
        while low < high:
            middle = (low + high) // 2
            if (found := placed(middle)) is not None:
                high, placement = middle, found
            else:
                low = middle + 1
        nodes = set(placement.values())
        chosen = [victim for victim in longest[:high] if nodes & set(self._places(victim).values())]
        if (near := self._size(job, self._without(chosen))) is None:
            return longest[:high], placement
        placement = near
        for victim in reversed(chosen[:]):  # the shortest is let off first
            fewer = [other for other in chosen if other is not victim]
            if (still := self._size(job, self._without(fewer))) is not None:
                chosen, placement = fewer, still
        return chosen, placement

    def _without(self, victims: list[Job]) -> Room:
        room = self._soon.copy()
        for victim in victims:
            room.give(victim.spec, self._places(victim))
        return room

    def _size(self, job: Job, room: Room) -> dict[str, str] | None:
        """Place a job with the workers that its owner asked for, or with the fewest that it can use."""
        spec = job.spec
        return room.place(spec, spec.wanted_workers) or (
            room.place(spec, spec.fewest_workers) if spec.fewest_workers < spec.wanted_workers else None
        )

    def _preemptible(self, job: Job) -> bool:
        most = self._settings.preemptions_per_job
        if most is not None and job.preemptions >= most:
            return False
        return preemption_objection(job, self._snapshot) is None

    def _places(self, job: Job) -> dict[str, str]:
        """Return where the replicas of a running job are."""
        members = self._snapshot.members[job.name]
        return {r.name: r.node for r in members if r.active and r.node is not None}

    def _rank(self, job: Job) -> float:
        seconds = remaining_work(job, self._snapshot)
        if self._settings.rank == "seconds" or math.isinf(seconds):
            return seconds
        return seconds * self._now.share(job.spec)

    def _words(self, job: Job) -> str:
        seconds = remaining_work(job, self._snapshot)
        return "an unknown time" if math.isinf(seconds) else f"{seconds:.0f} s"

    def _give_up(self) -> Iterator[Claim]:
        """Give back claims that no longer lead to an admission."""
        for job in self._snapshot.waiting:
            if job.name in self._snapshot.claims and job.name not in self._settled:
                yield Claim(job=job.name, placement={}, reason="jobs with less left to do go first")
