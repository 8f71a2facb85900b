"""Jobs that share GPUs and ask for turns: who gets them first.

As where jobs share processors, the one with the least left goes first, which ends jobs sooner on average than
giving all the same. One that waits keeps its memory on the GPU, and goes on at once when its turn comes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from specon_manager.model.actions import Reweight
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.turn_order import OrderSettings, TurnOrder


class TimeSharingSettings(OrderSettings, Protocol):
    """What a policy that uses this lets its users set."""

    @property
    def low_weight(self) -> float:
        """Weight of the jobs that are not first on a GPU of theirs."""


def share_time(
    snapshot: Snapshot, expected: Expectation, settings: TimeSharingSettings
) -> Iterator[Reweight]:
    """Propose the weights that should change now; who takes no turns any more has its whole weight back."""
    taking = snapshot.slices
    steady = {
        name: replica
        for name in taking.why
        if (replica := snapshot.replicas[name]).phase is Phase.RUNNING
        and replica.name not in snapshot.moving
        and replica.job not in snapshot.changing
        and not snapshot.leaves(replica)
    }
    where: dict[str, set[str]] = {}
    """The GPUs of each job that takes turns."""
    for place, here in taking.places.items():
        for replica in here:
            if replica.name in steady:
                where.setdefault(replica.job, set()).add(place)
    crowd = {place: {job for job, places in where.items() if place in places} for place in taking.places}
    order = TurnOrder(expected, settings)
    ahead = _ahead(steady.values(), where, crowd)
    first: set[str] = set()
    taken: set[str] = set()
    for name in sorted(where, key=lambda job: order.key(snapshot.jobs[job], has_it=job in ahead)):
        # Its ranks run together: it is first on all of its GPUs, or on none.
        if not where[name] & taken:
            first.add(name)
            taken |= where[name]
    for replica in steady.values():
        reason = taking.why[replica.name]
        job = snapshot.jobs[replica.job]
        weight = 1.0 if reason or job.name in first else settings.low_weight
        if replica.weight == weight:
            continue
        if not reason:
            fullest = max(where[job.name], key=lambda place: (len(crowd[place]), place))
            reason = order.explain(job, len(crowd[fullest]), fullest, first=job.name in first)
        else:
            reason = f"it takes no turns: {reason}"
        yield Reweight(replica=replica.name, weight=weight, reason=reason)


def _ahead(
    steady: Iterable[Replica], where: Mapping[str, set[str]], crowd: Mapping[str, set[str]]
) -> set[str]:
    """Return the jobs whose turn it is by their weights, alone of all on their GPUs."""
    whole = {replica.job for replica in steady if replica.weight == 1.0 and replica.job in where}
    return {
        job
        for job in whole
        if all(crowd[place] & whole == {job} for place in where[job])
        and any(len(crowd[place]) > 1 for place in where[job])
    }
