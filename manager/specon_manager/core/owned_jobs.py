"""Jobs that their owners place: described, described again, and gone.

Their replicas are awaited until an incarnation is seen; the life of replicas is in `lifecycle`. Their
descriptions allow each order for them.
"""

import msgspec

from specon_manager.core import lifecycle
from specon_manager.core.paces import forgotten
from specon_manager.core.restarts import forget_replicas
from specon_manager.core.state import State, Step
from specon_manager.core.transaction import ends
from specon_manager.core.transaction.orders import release_order
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica, index_of, role_of
from specon_manager.model.overlay import lacking


def job_observed(state: State, event: ev.JobObserved, now: float) -> Step:
    """Take a job in, or its new description; the records of its replicas stay.

    A name that a job of ours has already changes nothing.
    """
    spec = msgspec.structs.replace(event.spec, placed_by="owner")
    known = state.jobs.get(spec.name)
    if known is None:
        return lifecycle.job_submitted(state, ev.JobSubmitted(spec), now)
    if not known.owned or known.spec == spec:
        return state, []
    return _describe_anew(state, known, spec, now)


def job_gone(state: State, event: ev.JobGone, now: float) -> Step:
    """End the transactions in flight of a job that is not there any more; forget it and its replicas."""
    job = state.jobs.get(event.job)
    if job is None or not job.owned:
        return state, []
    names = {*job.spec.replicas, *job.dropped}
    why = f"its job is gone: {event.reason}" if event.reason else "its job is gone"
    state = msgspec.structs.replace(
        forgotten(forget_replicas(state, names), job),
        jobs=lacking(state.jobs, [job.name]),
        claims=lacking(state.claims, [job.name]),
    )
    state = msgspec.structs.replace(state, verdicts=lacking(state.verdicts, [job.name]))
    actions = list[Action]()
    for transaction in state.transactions_of(job.name):
        state, ordered = ends.forgotten(state, transaction, why, now)
        actions += ordered
    return state, actions


def _describe_anew(state: State, job: Job, spec: JobSpec, now: float) -> Step:
    """Await new replicas, and let go of those named no more: at once, or when they have left their nodes."""
    unnamed = [name for name in (*job.spec.replicas, *job.dropped) if name not in set(spec.replicas)]
    staying = tuple(name for name in unnamed if state.replicas[name].phase is Phase.RUNNING)
    state = forget_replicas(state, set(unnamed) - set(staying))
    for name in spec.replicas:
        known = state.replicas.get(name)
        requests = spec.requests_of(name)
        if known is None:
            state = state.with_replica(
                Replica(
                    name=name,
                    job=spec.name,
                    role=role_of(name),
                    index=index_of(name),
                    requests=requests,
                    phase=Phase.AWAITED,
                )
            )
        elif known.requests != requests:
            state = state.with_replica(msgspec.structs.replace(known, requests=requests))
    claim = state.claims.get(job.name)
    if claim is not None and not {name for name, _ in claim.placement} <= set(spec.replicas):
        state = msgspec.structs.replace(state, claims=lacking(state.claims, [job.name]))
    state = state.with_job(msgspec.structs.replace(job, spec=spec, dropped=staying))
    if job.spec.held and not spec.held and not job.admitted and state.whole_transaction_of(job.name) is None:
        # It names no queue any more: what holds it back for one is to let it go, however often it is told.
        due = now + state.settings.deadlines.start
        state = state.with_job(msgspec.structs.replace(state.jobs[job.name], release_due=due, released=0))
        return state, [release_order(state, state.jobs[job.name])]
    return state, []
