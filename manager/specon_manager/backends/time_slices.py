"""When each replica that takes turns on GPUs runs, by the weights that the policy gave. Pure.

A job in a transaction, or with a replica that ends, is not stopped: a requested checkpoint, an end and the
proof of a resume do not wait for a turn. A job that begins is not stopped either: while it loads it hardly
uses its GPU, and others have their turns as if it were not there.
"""

from collections.abc import Callable, Mapping
from typing import Final

from specon_manager.backends.turns import Schedule, Sharer, schedules
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, job_of

LONGEST_BEGINNING: Final = 120.0
"""Seconds after which a job has its turns like any other, whatever is known of it."""


def ends_none(replica: str) -> bool:
    """Say of every replica that its pod goes on: where nobody knows of ends in advance."""
    del replica
    return False


def is_beginning(job: Job, state: State, now: float) -> bool:
    """Whether a job loads, or has made so few steps that nobody knows yet what it has left.

    In the short turns of a newcomer its sidecar would need minutes to learn that. A log without a total never
    tells, so a job with such a log has turns from its first sample on.
    """
    since = job.trains_since
    if since is None or now - since > LONGEST_BEGINNING:
        return False
    heard = [
        told
        for name in job.spec.replicas
        if (told := state.replicas[name].progress).step_at is not None and told.step_at >= since
    ]
    return all(told.total_steps is not None and told.remaining_seconds is None for told in heard)


def turns_by_replica(
    state: State, now: float, is_ending: Callable[[str], bool] = ends_none
) -> Mapping[str, Schedule]:
    """Return the schedule of each replica that is stopped now and then, its own turns in it alone."""
    places = state.snapshot(now).slices.places
    spared = {each.job for each in state.transactions.values()}
    weights: dict[str, dict[str, float]] = {}
    where: dict[str, set[str]] = {}
    for place, here in places.items():
        for replica in here:
            if replica.leaving is not None or is_ending(replica.name):
                spared.add(replica.job)
            spec = state.jobs[replica.job].spec
            unit = spec.name if spec.coupled else replica.name
            weights.setdefault(unit, {})[replica.name] = replica.weight
            where.setdefault(unit, set()).add(place)
    taking = {replica.job for here in places.values() for replica in here}
    spared |= {name for name in taking if is_beginning(state.jobs[name], state, now)}
    sharers = [
        # Ranks wait for each other: the slowest tells how fast all are.
        Sharer(
            name=unit,
            weight=min(members.values()),
            nodes=dict.fromkeys(where[unit], 1),
        )
        for unit, members in weights.items()
        if spared.isdisjoint(map(job_of, members))
    ]
    return {
        name: Schedule(period=schedule.period, turns={name: turns})
        for schedule in schedules(sharers, dict.fromkeys(places, 1))
        for unit, turns in schedule.turns.items()
        for name in weights[unit]
    }
