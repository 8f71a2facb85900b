"""How fast jobs of a kind train, learnt from the steps that their logs name. Pure.

Of elastic jobs by how many workers they have; of gangs, and of what asks for GPUs of a known model, by how
those are set up. What a manager on Kubernetes has learnt it loses with its process: it then knows of no pace,
and nothing is done by one.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import KINDS_REMEMBERED, Job, Node, Replica
from specon_manager.model.overlay import lacking
from specon_manager.model.paces import ENOUGH, NEWS, KindPaces, Setup
from specon_manager.model.progress import Progress

_SIZES: Final = 64  # numbers of workers, or setups, of one kind


def learn_pace(state: State, before: Replica, now_known: Replica) -> State:
    """Return the state with the pace between the last two steps of the first worker of a job.

    Nothing is learnt of steps before all its present replicas ran: it has just been started or resized.
    """
    job = state.jobs.get(now_known.job)
    if job is None or job.trains_since is None:
        return state
    gang = len(job.spec.replicas) > 1
    if not gang and not (asks(now_known) and job.spec.kind):
        return state  # there is nothing to compare it with
    if now_known.name != job.spec.worker_names[0]:
        return state
    seconds = _measure(job, before.progress, now_known.progress)
    if seconds is None:
        return state
    if job.spec.elastic:
        state = _learn_size(state, job, seconds)
    if job.spec.coupled and not any(each.job == job.name for each in state.transactions.values()):
        setup = setup_of(job, state.replicas, state.nodes)
        if gang or setup.accelerator:
            state = _learn_setup(state, job, setup, seconds)
    return state


def setup_of(
    job: Job,
    replicas: Mapping[str, Replica],
    nodes: Mapping[str, Node],
    placement: Mapping[str, str] | None = None,
) -> Setup:
    """Return how the job is set up now, or would be with a placement of all of it (node by replica)."""
    active = [replica for name in job.spec.replicas if (replica := replicas[name]).active]
    places = {each.name: each.node or "" for each in active} if placement is None else placement
    models = {
        node.accelerator if (node := nodes.get(places.get(each.name, ""))) is not None else ""
        for each in active
        if asks(each)
    }
    return Setup(
        workers=sum(replica.role != "ps" for replica in active),
        nodes=len({*places.values()}),
        accelerator=models.pop() if len(models) == 1 else "",
    )


def asks(replica: Replica) -> bool:
    """Whether it runs on an accelerator, whose model may count."""
    return replica.requests.gpu > 0


def forgotten(state: State, job: Job) -> State:
    """Return the state without what it knows of one job alone, which is over or gone."""
    kind = job.pace_kind
    if not job.spec.kind and kind in state.paces:
        state = msgspec.structs.replace(state, paces=lacking(state.paces, [kind]))
    if job.name in state.tried:
        state = msgspec.structs.replace(state, tried=lacking(state.tried, [job.name]))
    known = state.setup_paces.get(kind)
    if known is None or job.name not in known.jobs:
        return state
    if not job.spec.kind:
        return msgspec.structs.replace(state, setup_paces=lacking(state.setup_paces, [kind]))
    left = msgspec.structs.replace(known, jobs=lacking(known.jobs, [job.name]))
    return msgspec.structs.replace(state, setup_paces={**state.setup_paces, kind: left})


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


def _learn_setup(state: State, job: Job, setup: Setup, seconds: float) -> State:
    """Take in the pace of a job as it is set up now, and whether it trains as was expected."""
    kind = job.pace_kind
    known = state.setup_paces.get(kind, KindPaces())
    if not known.paces and len(state.setup_paces) >= KINDS_REMEMBERED:
        # Else nothing would be learnt any more once so many kinds were seen, whatever became of them.
        unused = next((name for name, each in state.setup_paces.items() if not each.jobs), None)
        if unused is None:
            return state
        state = msgspec.structs.replace(state, setup_paces=lacking(state.setup_paces, [unused]))
    learnt = known.with_sample(job.name, setup, seconds, most=_SIZES)
    state = msgspec.structs.replace(state, setup_paces={**state.setup_paces, kind: learnt})
    checked = state.tried.get(job.name)
    if checked is None or checked.saved is not None or checked.setup != setup:
        return state
    seen = checked.seen.with_sample(seconds)
    saved = 1 - seen.seconds / checked.before if seen.samples >= ENOUGH else None
    checked = msgspec.structs.replace(checked, seen=seen, saved=saved)
    return msgspec.structs.replace(state, tried={**state.tried, job.name: checked})


def _measure(job: Job, was: Progress, known: Progress) -> float | None:
    """Return the seconds per step between two reports of a job's first worker; None where they tell none.

    Time in which the trainer was stopped, so that others could train, does not count.
    """
    if was.step is None or known.step is None or was.step_at is None or known.step <= was.step:
        return None
    if job.trains_since is None or was.step_at < job.trains_since or not known.step_interval:
        return None
    return known.step_interval / (known.step - was.step)
