"""Preempting jobs that have much more left, for one that waits and has little.

Shortest remaining processing time (Schrage, Operations Research 16, 1968) where it pays. A victim's rest was
measured: with guesses the mean completion time was longer than without preemption. It has clearly more left
than the newcomer takes, with what the change costs both. And it has trained for a while, so that no job does
nothing but stop and start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import Final, Protocol

from specon_manager.model.actions import Claim, Preempt, Proposal
from specon_manager.model.cluster import Job
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import preemptions_left
from specon_manager.policies.backfill import gang_of
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.falling import Seen
from specon_manager.policies.idle import Idle
from specon_manager.policies.packing import place_tightly
from specon_manager.policies.preemption.claims import comes, find_freed_soon
from specon_manager.policies.preemption.victims import Candidate, candidate_of
from specon_manager.policies.prospects import Left

_LOOKED_AT: Final = 20  # waiting jobs

Found = tuple[list[Candidate], Mapping[str, str]]
"""Whom to preempt, and where the newcomer then starts: node by replica."""


class ShorterSettings(Protocol):
    """What a policy that uses this lets its users set."""

    @property
    def preemption_ratio(self) -> float | None:
        """How many times as much as the newcomer a victim must have left; None: there are no victims."""

    @property
    def preemption_seconds(self) -> float:
        """What a preemption is taken to cost each of the two jobs beside the grace period."""

    @property
    def least_run(self) -> float:
        """How long a job trains at least before it is a victim."""


class ShorterFirst:
    """Who may make room in one call of a policy, and for whom."""

    def __init__(
        self,
        snapshot: Snapshot,
        idle: Idle,
        *,
        expected: Expectation,
        late: Callable[[Job], bool],
        settings: ShorterSettings,
    ) -> None:
        """Take what the call knows; `late` says which jobs are behind already, and so no victims."""
        self._snapshot, self._idle = snapshot, idle
        self._expected, self._late, self._settings = expected, late, settings
        self._candidates: dict[str, Candidate | None] = {}

    def serve(self, stranded: Sequence[Job], proposals: Sequence[Proposal]) -> Iterator[Proposal]:
        """Make room for those of the stranded jobs, in their order, that have clearly less left than others.

        `proposals` are what the call has ended and claimed already. A claim is given up whose room nobody is
        about to leave any more, as where a victim could not save and stays.
        """
        snapshot, settings = self._snapshot, self._settings
        done = {each.job for each in proposals if isinstance(each, Claim | Preempt)}
        waiting = [job for job in stranded if job.name not in done]
        leaving = find_freed_soon(snapshot) if snapshot.claims else {}
        for job in waiting:
            claim = snapshot.claims.get(job.name)
            # For who is late room is kept that is free some day, and so it is by a firm claim.
            if claim is None or claim.firm or self._late(job):
                continue
            if not comes(job.name, dict(claim.placement), snapshot, self._idle, leaving):
                yield Claim(
                    job=job.name, placement={}, reason="nobody is about to leave the room kept for it"
                )
        waiting = [job for job in waiting if job.name not in snapshot.claims][:_LOOKED_AT]
        if settings.preemption_ratio is None or not waiting:
            return
        allowed = preemptions_left(snapshot)
        if not allowed:
            return  # no job may be preempted now, so none is looked for
        left = min(settings.preemption_ratio * self._expected.remaining(job) for job in waiting)
        work = min(settings.preemption_ratio * self._expected.work(job) for job in waiting)
        victims = Seen(self._victims(done, left + 2 * settings.preemption_seconds, work))
        gone = set[str]()
        for job in waiting:
            rest = (each for each in victims if each.job.name not in gone)
            found = self._choice(job, rest, settings.preemption_ratio)
            if found is None or len(found[0]) > allowed:
                continue
            allowed -= len(found[0])
            gone |= {each.name for each in found[0]}
            yield from self._carry_out(job, *found)

    def _victims(self, done: set[str], longer: float, work: float) -> Iterator[Left]:
        """Yield who may be preempted and has `longer` left, in seconds, the one with the most work first.

        Only those with more than so much work.
        """
        now, least = self._snapshot.now, self._settings.least_run
        for each in takewhile(lambda each: each.work > work, self._expected.most_work(longer)):
            since = each.job.trains_since
            if since is not None and now - since >= least and each.job.name not in done:
                yield each

    def _candidate(self, job: Job) -> Candidate | None:
        """Return a job as one that may be preempted, None where it may not; few of many are asked for."""
        if job.name not in self._candidates:
            found = candidate_of(job, self._snapshot)
            spared = found is None or not found.evictable or self._late(job)
            self._candidates[job.name] = None if spared else found
        return self._candidates[job.name]

    def _choice(self, job: Job, victims: Iterable[Left], ratio: float) -> Found | None:
        """Return as few as suffice of those with the most left; who is not needed for the placement stays."""
        expected, settings = self._expected, self._settings
        left, work = ratio * expected.remaining(job), ratio * expected.work(job)
        longer = (
            candidate
            for each in takewhile(lambda each: each.work > work, victims)
            if each.job.spec.priority <= job.spec.priority
            and each.remaining > left + 2 * settings.preemption_seconds + each.job.spec.grace_seconds
            and (candidate := self._candidate(each.job)) is not None
        )
        chosen = self._enough(job, longer)
        for each in chosen[::-1]:  # who has the least left is let off first
            fewer = [other for other in chosen if other is not each]
            if self._find_place(job, fewer) is not None:
                chosen = fewer
        placement = self._find_place(job, chosen) if chosen else None
        return None if placement is None else (chosen, placement)

    def _enough(self, job: Job, longer: Iterable[Candidate]) -> list[Candidate]:
        """Return the first of these after whose end the job has room; nobody where it has none even so."""
        longer = iter(longer)
        if (first := next(longer, None)) is None:
            return []
        room, gang, gone = self._idle.copy(), gang_of(job, self._snapshot), list[Candidate]()
        wanted = {replica.requests for replica in (*gang.servers, *gang.workers[: gang.least])}
        if place_tightly(gang.servers, gang.workers, gang.least, room) is not None:
            return []
        for each in chain([first], longer):
            gone.append(each)
            for node, amounts in each.frees:
                room.give(node, amounts)
            # Nothing has changed elsewhere: unless one more fits here, they fit no better than before.
            if not any(room.fits(node, one) for node, _ in each.frees for one in wanted):
                continue
            if place_tightly(gang.servers, gang.workers, gang.least, room) is not None:
                return gone
        return []

    def _find_place(self, job: Job, gone: Sequence[Candidate]) -> dict[str, str] | None:
        """Return where the job has room once these are gone."""
        room, gang = self._idle.copy(), gang_of(job, self._snapshot)
        for each in gone:
            for node, amounts in each.frees:
                room.give(node, amounts)
        return place_tightly(gang.servers, gang.workers, gang.least, room)

    def _carry_out(
        self, job: Job, chosen: Sequence[Candidate], placement: Mapping[str, str]
    ) -> Iterator[Proposal]:
        left = self._expected.remaining(job)
        for each in chosen:
            for node, amounts in each.frees:
                self._idle.give(node, amounts)
            more = self._expected.remaining(each.job)
            why = f"about {more:.0f} s left; {job.name}, which waits, has about {left:.0f} s"
            yield Preempt(job=each.name, reason=why, beneficiary=job.name)
        for name, node in placement.items():
            self._idle.reserve(job.name, node, self._snapshot.replicas[name].requests)
        names, where = ", ".join(each.name for each in chosen), ", ".join(dict.fromkeys(placement.values()))
        yield Claim(job=job.name, placement=placement, reason=f"room on {where} as soon as {names} has ended")
