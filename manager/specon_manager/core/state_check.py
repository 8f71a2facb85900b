"""Whether a manager's state that was read from somewhere can be used, and of when it is. Pure."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from specon_manager.core.state import State
from specon_manager.model.cluster import Job
from specon_manager.policies.table import policy_named, settings_of

_FAR: Final = 1e15  # seconds: no clock shows more


def latest(state: State) -> float:
    """Return the latest time that a state speaks of, seconds on its manager's clock; 0 where none is."""
    times: list[float | None] = [state.changed_at]
    for job in state.jobs.values():
        times += _times(job).values()
    for replica in state.replicas.values():
        told = replica.progress
        times += [told.reported_at, told.step_at, told.category_since, replica.ended_at]
    times += [each.proposed_at for each in state.transactions.values()]
    times += [decision.at for decision in state.decisions[-1:]]
    return max((each for each in times if each is not None), default=0.0)


def check_state(state: State) -> None:
    """Raise ValueError naming the mistake in a state that can be read and not be used."""
    mistakes = itertools.chain(
        _names(state), _missing(state), _list_shared(state), _in_flight(state), _numbers(state)
    )
    mistake = next(mistakes, None)
    if mistake is not None:
        raise ValueError(mistake)
    settings_of(policy_named(state.settings.policy), state.settings.parameters)


def _names(state: State) -> Iterator[str]:
    for kind, records in (("nodes", state.nodes), ("jobs", state.jobs), ("replicas", state.replicas)):
        for key, record in records.items():
            if record.name != key:
                yield f"{kind}: {key!r} holds the record of {record.name!r}"


def _missing(state: State) -> Iterator[str]:
    """Yield the references to something that is not there."""
    for replica in state.replicas.values():
        if replica.job not in state.jobs:
            yield f"replicas: {replica.name} is of job {replica.job!r}, which is not there"
    for job in state.jobs.values():
        for name in job.spec.replicas:
            if name not in state.replicas:
                yield f"jobs: {job.name} has a replica {name!r} that is not there"
        if not job.spec.worker_names:
            yield f"jobs: {job.name} has no worker"


def _in_flight(state: State) -> Iterator[str]:
    """Yield what moves and claims name and is not there."""
    claimed = (name for claim in state.claims.values() for name, _ in claim.placement)
    moving = (name for each in state.transactions.values() for name in each.concerned)
    for name in itertools.chain(moving, claimed):
        if name not in state.replicas:
            yield f"moves and claims: there is no replica {name!r}"
    for job in state.claims:
        if job not in state.jobs:
            yield f"claims: there is no job {job!r}"


def _list_shared(state: State) -> Iterator[str]:
    for job in state.jobs.values():
        if len(set(job.spec.replicas)) < len(job.spec.replicas):
            yield f"jobs: {job.name} names a replica twice"
        for name in job.spec.replicas:
            if (owner := state.replicas[name].job) != job.name:
                yield f"jobs: {job.name} has the replica {name!r} of {owner}"


def _numbers(state: State) -> Iterator[str]:
    for job in state.jobs.values():
        yield from _far(f"jobs: {job.name}", {**_times(job), "attained_seconds": job.attained_seconds})
    for replica in state.replicas.values():
        told = replica.progress
        times = {
            name: getattr(told, name) for name in ("reported_at", "step_at", "category_since", "stopped")
        }
        yield from _far(f"replicas: {replica.name}", {**times, "cooldown_until": replica.cooldown_until})
    yield from _far("state", {"changed_at": state.changed_at})


def _times(job: Job) -> dict[str, float | None]:
    fields = ("submitted_at", "queued_at", "admitted_at", "trains_since", "ended_at")
    return {name: getattr(job, name) for name in fields}


def _far(where: str, numbers: Mapping[str, float | None]) -> Iterator[str]:
    for name, value in numbers.items():
        if value is not None and not abs(value) <= _FAR:
            yield f"{where}: {name} is {value:g} s, which is no time"
