"""Jobs that their owners place: described, described anew, and gone.

Their replicas are awaited until an incarnation is seen; the life of replicas is in `lifecycle`. Beside moves,
only changes of the job as a whole are ordered for them (`changes`), where their descriptions allow it.
"""

import msgspec

from specon_manager.core import lifecycle, transaction
from specon_manager.core.change_orders import released
from specon_manager.core.described import as_described
from specon_manager.core.gang import regrouped
from specon_manager.core.restarts import anywhere, without
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica, index_of, role_of
from specon_manager.model.moves import MoveOutcome, MoveState
from specon_manager.model.overlay import lacking

Step = tuple[State, list[Action]]


def job_observed(state: State, event: ev.JobObserved, now: float) -> Step:
    """Take a job in, or its new description; what is known of its replicas stays known.

    A name that a job of ours has already changes nothing.
    """
    spec = msgspec.structs.replace(event.spec, placed_by="owner")
    known = state.jobs.get(spec.name)
    if known is None:
        return lifecycle.job_submitted(state, ev.JobSubmitted(spec), now)
    if not known.owned or known.spec == spec:
        return state, []
    return _described_anew(state, known, spec, now)


def job_gone(state: State, event: ev.JobGone, now: float) -> Step:
    """End the moves of a job that is not there any more, and forget it with its replicas."""
    job = state.jobs.get(event.job)
    if job is None or not job.owned:
        return state, []
    names = {*job.spec.replicas, *job.dropped}
    actions: list[Action] = []
    note = f"its job is gone: {event.reason}" if event.reason else str(MoveOutcome.JOB_GONE)
    for move in [state.moves[name] for name in sorted(names) if name in state.moves]:
        state, ordered = transaction.happened(state, move, MoveOutcome.JOB_GONE, now, note=note)
        actions += ordered
    state = without(state, names)
    return msgspec.structs.replace(
        state,
        jobs=lacking(state.jobs, [job.name]),
        claims=lacking(state.claims, [job.name]),
        verdicts=lacking(state.verdicts, [job.name]),
    ), actions


def _described_anew(state: State, job: Job, spec: JobSpec, now: float) -> Step:
    """Await what is new, and let go of what is named no more: at once, or when it has left its node."""
    unnamed = [name for name in (*job.spec.replicas, *job.dropped) if name not in set(spec.replicas)]
    actions: list[Action] = []
    for name in unnamed:
        if name in state.moves:
            state, ordered = _move_given_up(state, name, now)
            actions += ordered
    staying = tuple(name for name in unnamed if state.replicas[name].phase is Phase.RUNNING)
    state = without(state, set(unnamed) - set(staying))
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
    described = msgspec.structs.replace(job, spec=spec, dropped=staying)
    state = as_described(state.with_job(described), described)
    state = regrouped(state, job.name, now)
    if job.spec.held and not spec.held and not job.admitted and job.name not in state.changes:
        # It names no queue any more: what holds it back for one is to let it go.
        actions.append(released(state, state.jobs[job.name]))
    return state, actions


def _move_given_up(state: State, name: str, now: float) -> Step:
    """End the move of a replica that its job names no more; what was suspended for it is let go."""
    move, replica = state.moves[name], state.replicas[name]
    note = "its job wants this replica no more"
    state, actions = transaction.happened(state, move, MoveOutcome.JOB_GONE, now, note=note)
    if move.state in {MoveState.EVICTING, MoveState.RESTORING}:
        actions.append(anywhere(state, replica, f"move {move.id}: {note}"))
    return state, actions
