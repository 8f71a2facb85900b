"""The phases of replicas without a pod, from the description of a job that its owner places."""

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase

_NOTHING_THERE = frozenset({Phase.ABSENT, Phase.AWAITED, Phase.PENDING})


def first_phase(job: Job, name: str) -> Phase:
    """Return the phase of a replica that its owner places and that never had a pod."""
    return Phase.ABSENT if name in _beyond(job) else _waits(job)


def phase_without(state: State, job: Job, name: str) -> Phase:
    """Return the phase of a replica that its owner places and that has no pod left.

    Where any worker can go, not only the highest, a count alone does not say which: then it is awaited while
    fewer of the others run, or are awaited, than there are to be.
    """
    present = job.spec.present
    if present is None or job.spec.top_down or name not in job.spec.worker_names:
        return first_phase(job, name)
    others = (state.replicas[other].phase for other in job.spec.worker_names if other != name)
    return _waits(job) if sum(phase is not Phase.ABSENT for phase in others) < present else Phase.ABSENT


def apply_description(state: State, job: Job) -> State:
    """Let the workers be absent that its owner runs no more, and awaited that it runs by now.

    Not while the job is changed as a whole: until that is over, the transaction says who is to run.
    """
    if not job.owned or job.ended_at is not None or state.whole_transaction_of(job.name) is not None:
        return state
    absent = _beyond(job) if job.spec.top_down or job.spec.present is None else _spare(state, job)
    for name in job.spec.replicas:
        replica = state.replicas[name]
        if replica.phase not in _NOTHING_THERE:
            continue
        phase = Phase.ABSENT if name in absent else _waits(job)
        if phase is replica.phase:
            continue
        changed = msgspec.structs.replace(replica, phase=phase, deadline=None)
        if phase is not Phase.AWAITED:
            changed = msgspec.structs.replace(changed, lost_at=None, holds=False)
        state = state.with_replica(changed)
    return state


def _waits(job: Job) -> Phase:
    return Phase.PENDING if job.spec.held and not job.admitted else Phase.AWAITED


def _beyond(job: Job) -> frozenset[str]:
    """Return the workers that the job has not at present, where the highest are those that it lacks."""
    present = job.spec.present
    return frozenset() if present is None else frozenset(job.spec.worker_names[present:])


def _spare(state: State, job: Job) -> frozenset[str]:
    """Return the workers that are not to come: those that run stay, then those awaited, then the lowest."""
    ranks = {Phase.AWAITED: 1, Phase.PENDING: 1, Phase.ABSENT: 2}

    def rank(item: tuple[int, str]) -> tuple[int, int]:
        return ranks.get(state.replicas[item[1]].phase, 0), item[0]

    order = sorted(enumerate(job.spec.worker_names), key=rank)
    return frozenset(name for _, name in order[job.spec.present or 0 :])
