"""A state as it is once everything that is under way has come to its end. Pure."""

from typing import Final

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica

_MOST: Final = 1e9  # seconds of training


def settle_all(state: State, now: float) -> State:
    """Return the state without what has ended, and with everything that is under way at its end."""
    state = state.flatten()
    jobs: dict[str, Job] = {}
    replicas: dict[str, Replica] = {}
    ready = {name for name, node in state.nodes.items() if node.ready}
    for job in state.jobs.values():
        if job.ended_at is not None:
            continue
        members = [state.replicas[name] for name in job.spec.replicas]
        if any(r.leaving is not None and r.leaving.purpose in {"complete", "fail"} for r in members):
            continue
        kept = [_let_arrive(_move(r, state), ready) for r in members if not r.ended]
        if not any(r.role != "ps" for r in kept):
            continue
        if not any(r.active for r in kept):
            kept = _make_waiting(job.spec, kept)
        jobs[job.name] = _stands(job, kept, len(members) - len(kept), now)
        replicas |= {r.name: r for r in kept}
    return msgspec.structs.replace(state, jobs=jobs, replicas=replicas, transactions={}, requests={})


def _move(replica: Replica, state: State) -> Replica:
    transaction = state.transaction_of(replica.name)
    if transaction is None:
        return replica
    node = transaction.wanted.get(replica.name)
    if node is None:
        absent = bool(transaction.wanted) and replica.role != "ps"
        return msgspec.structs.replace(replica, phase=Phase.ABSENT if absent else Phase.PENDING, leaving=None)
    return msgspec.structs.replace(replica, phase=Phase.RUNNING, node=node or replica.node, leaving=None)


def _let_arrive(replica: Replica, ready: set[str]) -> Replica:
    """Return the replica as it is once its start or its end is over; on a node that is lost it waits."""
    phase = replica.phase
    if replica.leaving is not None and replica.leaving.purpose != "restart":
        phase = Phase.ABSENT if replica.leaving.purpose == "scale-in" else Phase.PENDING
    elif replica.active:
        phase = Phase.RUNNING if replica.node in ready else Phase.PENDING
    return msgspec.structs.replace(
        replica, phase=phase, leaving=None, deadline=None, lost_at=None, holds=False
    )


def _make_waiting(spec: JobSpec, replicas: list[Replica]) -> list[Replica]:
    """Return the replicas of a job that occupies nothing: it waits with the workers its owner asked for."""
    wanted = {*spec.ps, *spec.worker_names[: spec.wanted_workers]}
    return [
        msgspec.structs.replace(r, phase=Phase.PENDING if r.name in wanted else Phase.ABSENT)
        for r in replicas
    ]


def _stands(job: Job, kept: list[Replica], gone: int, now: float) -> Job:
    """Return the job with the replicas that are left, its training counted until now."""
    spec = msgspec.structs.replace(job.spec, replicas=tuple(r.name for r in kept))
    if gone:
        workers = len(spec.worker_names)
        spec = msgspec.structs.replace(
            spec,
            workers=min(job.spec.wanted_workers, workers),
            min_workers=min(job.spec.fewest_workers, workers),
        )
    # Only what trains as a whole goes on counting; the estimates look at it before the simulation does.
    trains = job.trains_since if any(r.active for r in kept) else None
    so_far = job.attained_seconds if trains is not None else compute_attained_service(job, now)
    return msgspec.structs.replace(job, spec=spec, trains_since=trains, attained_seconds=so_far)


def compute_attained_service(job: Job, now: float) -> float:
    """Return how long the job trained until now, seconds, 0 to very many."""
    return max(0.0, min(_MOST, job.attained(now)))
