"""Keeping room for a job that has waited too long, where it is expected to become free first.

As EASY backfilling does (Lifka, The ANL/IBM SP scheduling system, JSSPP 1995), for one job at a time: others
may continue filling everything else.
"""

from collections.abc import Callable, Iterator, Sequence

from specon_manager.model.actions import Admit, AdmitGang, Claim, Proposal
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.backfill import PlacedGang, gang_of
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.idle import Idle
from specon_manager.policies.packing import place_tightly
from specon_manager.policies.preemption.claims import find_freed_soon


class Reservation:
    """The room that is kept for the job that has waited too long, the oldest of them, in one call."""

    def __init__(
        self, snapshot: Snapshot, expected: Expectation, idle: Idle, starves: Callable[[Job], bool]
    ) -> None:
        """Take what the call fills; `starves` says who has waited too long."""
        self._snapshot, self._expected, self._idle, self._starves = snapshot, expected, idle, starves
        self._held = any(self.holds(name) for name in snapshot.claims)
        self.claim: Claim | None = None
        """What this call reserves."""

    def holds(self, name: str) -> bool:
        """Whether the job has waited too long and has a claim that can still be met."""
        claim, job = self._snapshot.claims[name], self._snapshot.jobs.get(name)
        if job is None or not self._starves(job):
            return False
        return all(node in self._idle for _, node in claim.placement)

    def keep(self, job: Job, placed: Sequence[PlacedGang] = (), proposals: Sequence[Proposal] = ()) -> None:
        """Reserve room for a job that does not fit, if it starves and room is kept for nobody who does.

        What the call gives to others is known from `placed` and from its `proposals`.
        """
        if self._held or self.claim is not None or not self._starves(job):
            return
        self.claim = self._reserve(job, placed, proposals)
        if self.claim is None:
            return
        self._idle.release(job.name)
        for replica, node in self.claim.placement.items():
            asked = self._snapshot.replicas[replica].requests
            self._idle.reserve(job.name, node, asked)

    def give_way(self, proposals: Sequence[Proposal]) -> Iterator[Claim]:
        """Give up room for a crashed replica that has none while the rest of its job runs.

        Without it the job would never end, and might never leave the room that others wait for. `proposals`
        are the starts of replicas that do have room.
        """
        snapshot, admitted = self._snapshot, dict[str, Resources]()
        started = set[str]()
        for proposal in proposals:
            if isinstance(proposal, Admit):
                requests = snapshot.replicas[proposal.replica].requests
                admitted[proposal.node] = admitted.get(proposal.node, NOTHING) + requests
                started.add(proposal.replica)
        torn = [
            replica
            for replica in snapshot.unplaced
            if replica.name not in started and any(m.active for m in snapshot.members.get(replica.job, ()))
        ]
        if not torn:
            return
        for name in sorted(snapshot.claims):
            if not self.holds(name):
                continue
            for node in dict.fromkeys(node for _, node in snapshot.claims[name].placement):
                room, used = snapshot.room(node), admitted.get(node, NOTHING)
                needy = next((r for r in torn if (used + r.requests).fits(room)), None)
                if needy is not None:
                    why = f"{needy.name}, which crashed, needs room on {node} before its job can end"
                    yield Claim(job=name, placement={}, reason=why)
                    break

    def _reserve(self, job: Job, placed: Sequence[PlacedGang], proposals: Sequence[Proposal]) -> Claim | None:
        """Return a claim to the room that the job will have first, if those that run end as expected.

        None: not even an empty cluster would do.
        """
        snapshot, expected = self._snapshot, self._expected
        idle = Idle(snapshot, choice=self._idle.choice)
        idle.release(job.name)
        promised = self._promise(placed, proposals)
        for name, node in promised.items():
            idle.release(snapshot.replicas[name].job)
            idle.take(node, snapshot.replicas[name].requests)
        for proposal in proposals:
            if isinstance(proposal, Claim):
                for name, where in proposal.placement.items():
                    asked = snapshot.replicas[name].requests
                    idle.reserve(proposal.job, where, asked)
        starting = {snapshot.replicas[name].job for name in promised}
        ending = {other.name: other for other in snapshot.running}
        ending |= {name: snapshot.jobs[name] for name in starting}
        gang = gang_of(job, snapshot)
        # A trial starts at the size that its owner asked for.
        pending = sum(worker.phase is Phase.PENDING for worker in gang.workers)
        least = pending if job.spec.job_class == "trial" else gang.least
        for other in sorted(ending.values(), key=lambda other: (expected.remaining(other), other.order)):
            for replica in (snapshot.replicas[name] for name in other.spec.replicas):
                held = promised.get(replica.name)
                if held is None and replica.active:
                    held = replica.node
                if held is not None:
                    idle.give(held, replica.requests)
            placement = place_tightly(gang.servers, gang.workers, least, idle)
            if placement is None:
                continue
            names = ", ".join(dict.fromkeys(placement.values()))
            waited = snapshot.now - job.queued_at
            why = f"it has waited for {waited:.0f} s; room is expected on {names} once {other.name} has ended"
            return Claim(job=job.name, placement=placement, reason=why)
        return None

    def _promise(self, placed: Sequence[PlacedGang], proposals: Sequence[Proposal]) -> dict[str, str]:
        """Return what the call starts: node by replica."""
        found = dict[str, str]()
        for proposal in proposals:
            if isinstance(proposal, Admit):
                found[proposal.replica] = proposal.node
            elif isinstance(proposal, AdmitGang):
                found |= proposal.placement
        for _, placement in placed:
            found |= placement
        return found


def find_awaited_nodes(snapshot: Snapshot, idle: Idle) -> set[str]:
    """Return the nodes on which room is kept that is neither free nor about to be: who holds it must end."""
    leaving = find_freed_soon(snapshot, crashed=True)
    return {node for node in idle.touched if not idle.will_hold(node, NOTHING, leaving.get(node, NOTHING))}
