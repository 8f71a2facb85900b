"""How fast jobs of a kind train with how many workers, learnt from the steps that their logs name. Pure."""

from typing import Final

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import KINDS_REMEMBERED, Replica

_SIZES: Final = 64  # numbers of workers of one kind
_NEWS: Final = 0.2  # what one report counts against all before


def learn_pace(state: State, before: Replica, now_known: Replica) -> State:
    """Return the state with the pace between the last two steps of an elastic job's first worker.

    Nothing is learnt of steps before all its present replicas ran: it has just been started or resized.
    """
    job = state.jobs.get(now_known.job)
    if job is None or not job.spec.elastic or job.trains_since is None:
        return state
    if now_known.name != job.spec.worker_names[0]:
        return state
    was, known = before.progress, now_known.progress
    if was.step is None or known.step is None or was.step_at is None or known.step_at is None:
        return state
    if known.step <= was.step or known.step_at <= was.step_at or was.step_at < job.trains_since:
        return state
    pace = (known.step_at - was.step_at) / (known.step - was.step)
    workers = sum(state.replicas[name].active for name in job.spec.worker_names)
    kind = job.spec.kind or job.name  # the steps of jobs of no kind have nothing in common
    paces = state.paces.get(kind, {})
    if not paces and len(state.paces) >= KINDS_REMEMBERED:
        return state
    if workers not in paces and len(paces) >= _SIZES:
        return state
    mean = paces.get(workers, pace)
    learnt = {**paces, workers: mean + _NEWS * (pace - mean)}
    return msgspec.structs.replace(state, paces={**state.paces, kind: learnt})
