"""How fast jobs of a kind train, learnt from the steps that their logs name. Pure.

Of elastic jobs by how many workers they have, of gangs by how those are set up. What a manager on Kubernetes
has learnt it loses with its process: it then knows of no pace, and nothing is done by one.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import KINDS_REMEMBERED, Job, Progress, Replica
from specon_manager.model.overlay import lacking
from specon_manager.model.paces import ENOUGH, NEWS, GangPaces, Setup

_SIZES: Final = 64  # numbers of workers, or setups, of one kind


def learn_pace(state: State, before: Replica, now_known: Replica) -> State:
    """Return the state with the pace between the last two steps of the first worker of a job of several.

    Nothing is learnt of steps before all its present replicas ran: it has just been started or resized.
    """
    job = state.jobs.get(now_known.job)
    if job is None or len(job.spec.replicas) == 1 or job.trains_since is None:
        return state
    if now_known.name != job.spec.worker_names[0]:
        return state
    seconds = _measured(job, before.progress, now_known.progress)
    if seconds is None:
        return state
    if job.spec.elastic:
        state = _learn_size(state, job, seconds)
    if job.spec.coupled and not any(each.job == job.name for each in state.transactions.values()):
        state = _learn_setup(state, job, seconds)
    return state


def setup_of(job: Job, replicas: Mapping[str, Replica]) -> Setup:
    """Return how the gang is set up now."""
    active = [replica for name in job.spec.replicas if (replica := replicas[name]).active]
    workers = sum(replica.role != "ps" for replica in active)
    return Setup(workers=workers, nodes=len({replica.node for replica in active}))


def forgotten(state: State, job: Job) -> State:
    """Return the state without what is known of one job alone, which is over or gone."""
    kind = job.pace_kind
    if not job.spec.kind and kind in state.paces:
        state = msgspec.structs.replace(state, paces=lacking(state.paces, [kind]))
    if job.name in state.gathered:
        state = msgspec.structs.replace(state, gathered=lacking(state.gathered, [job.name]))
    known = state.gang_paces.get(kind)
    if known is None or job.name not in known.jobs:
        return state
    if not job.spec.kind:
        return msgspec.structs.replace(state, gang_paces=lacking(state.gang_paces, [kind]))
    left = msgspec.structs.replace(known, jobs=lacking(known.jobs, [job.name]))
    return msgspec.structs.replace(state, gang_paces={**state.gang_paces, kind: left})


def _learn_size(state: State, job: Job, seconds: float) -> State:
    """Take in the pace of an elastic job with so many workers."""
    workers = sum(state.replicas[name].active for name in job.spec.worker_names)
    paces = state.paces.get(job.pace_kind, {})
    if not paces and len(state.paces) >= KINDS_REMEMBERED:
        return state
    if workers not in paces and len(paces) >= _SIZES:
        return state
    mean = paces.get(workers, seconds)
    learnt = {**paces, workers: mean + NEWS * (seconds - mean)}
    return msgspec.structs.replace(state, paces={**state.paces, job.pace_kind: learnt})


def _learn_setup(state: State, job: Job, seconds: float) -> State:
    """Take in the pace of a gang as it is set up now, and whether it trains as was expected."""
    kind, setup = job.pace_kind, setup_of(job, state.replicas)
    known = state.gang_paces.get(kind, GangPaces())
    if not known.paces and len(state.gang_paces) >= KINDS_REMEMBERED:
        # Else nothing would be learnt any more once so many kinds were seen, whatever became of them.
        unused = next((name for name, each in state.gang_paces.items() if not each.jobs), None)
        if unused is None:
            return state
        state = msgspec.structs.replace(state, gang_paces=lacking(state.gang_paces, [unused]))
    learnt = known.with_sample(job.name, setup, seconds, most=_SIZES)
    state = msgspec.structs.replace(state, gang_paces={**state.gang_paces, kind: learnt})
    checked = state.gathered.get(job.name)
    if checked is None or checked.saved is not None or checked.setup != setup:
        return state
    seen = checked.seen.with_sample(seconds)
    saved = 1 - seen.seconds / checked.before if seen.samples >= ENOUGH else None
    checked = msgspec.structs.replace(checked, seen=seen, saved=saved)
    return msgspec.structs.replace(state, gathered={**state.gathered, job.name: checked})


def _measured(job: Job, was: Progress, known: Progress) -> float | None:
    """Return the seconds per step between two reports of a job's first worker; None where they tell none.

    Time in which the trainer was stopped, so that others could train, does not count.
    """
    if was.step is None or known.step is None or was.step_at is None or known.step <= was.step:
        return None
    if job.trains_since is None or was.step_at < job.trains_since or not known.step_interval:
        return None
    return known.step_interval / (known.step - was.step)
