"""The life of jobs and replicas: submitted, started, gone; crashes are restarted, ends are counted."""

import msgspec

from specon_manager.core import transaction
from specon_manager.core.described import first_phase
from specon_manager.core.gang import regrouped
from specon_manager.core.orders import weighed
from specon_manager.core.restarts import crashed, ended, eviction, put_back, refused_anywhere
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, StartReplica
from specon_manager.model.cluster import Job, Phase, Replica, index_of, role_of
from specon_manager.model.moves import Move, MoveOutcome, MoveState
from specon_manager.model.overlay import changed

Step = tuple[State, list[Action]]


def job_submitted(state: State, event: ev.JobSubmitted, now: float) -> Step:
    """Take a job in; a name that is known already changes nothing."""
    spec = event.spec
    if spec.name in state.jobs:
        return state, []
    job = Job(spec=spec, order=state.job_count, submitted_at=now, queued_at=now)
    spare = set(spec.worker_names[spec.wanted_workers :])
    replicas = state.replicas
    for name in spec.replicas:
        phase = Phase.ABSENT if name in spare else Phase.PENDING
        replica = Replica(
            name=name,
            job=spec.name,
            role=role_of(name),
            index=index_of(name),
            requests=spec.requests_of(name),
            phase=first_phase(job, name) if job.owned else phase,
        )
        replicas = changed(replicas, name, replica)
    jobs = changed(state.jobs, spec.name, job)
    return msgspec.structs.replace(state, jobs=jobs, replicas=replicas, job_count=state.job_count + 1), []


def replica_started(state: State, event: ev.ReplicaStarted, now: float) -> Step:
    """Take note that an incarnation runs: the one that was ordered, or one that its owner started."""
    replica = state.replicas.get(event.replica)
    if replica is None or event.incarnation in {replica.incarnation, replica.former}:
        return state, []
    owned = state.jobs[replica.job].owned
    if owned and replica.incarnation is not None:
        # Its owner starts one after the other: that there is another says that the former one is gone.
        return _succeeded_by(state, replica, event, now)
    move = state.moves.get(replica.name)
    if _unwanted(replica, move, owned=owned):
        if replica.phase is Phase.STARTING and replica.leaving is not None:
            # It was told to end before it was seen: now there is an incarnation to name.
            seen = msgspec.structs.replace(
                replica, phase=Phase.RUNNING, node=event.node, incarnation=event.incarnation, deadline=None
            )
            state = state.with_replica(seen)
        # Nobody ordered it, or what ordered it was given up since.
        why = f"incarnation {event.incarnation} is not wanted: the replica is {replica.phase}"
        return state, [eviction(state, replica, event.incarnation, why)]
    progress = msgspec.structs.replace(replica.progress, sessions=(), cpu_from=None)
    running = msgspec.structs.replace(
        replica,
        phase=Phase.RUNNING,
        node=event.node,
        incarnation=event.incarnation,
        deadline=None,
        ended_at=None,  # its owner may have revived it
        progress=progress,
    )
    state = regrouped(state.with_replica(running), replica.job, now)
    actions: list[Action] = []
    if running.weight != 1.0:  # every incarnation begins with 1
        actions.append(weighed(running, "as its former incarnation had it"))
    if move is None:
        return state, actions
    state = state.with_move(msgspec.structs.replace(move, incarnation=event.incarnation))
    state, ordered = transaction.happened(state, state.moves[replica.name], MoveOutcome.STARTED, now)
    if owned and replica.name in state.moves:
        state, released = transaction.landed(state, state.moves[replica.name], event.node)
        ordered += released
    return state, actions + ordered


def _succeeded_by(state: State, replica: Replica, event: ev.ReplicaStarted, now: float) -> Step:
    """Take note of the end of an incarnation that nobody told of, then of the start of the next one."""
    gone = ev.ReplicaGone(
        replica=replica.name, incarnation=replica.incarnation, evicted=True, reason="another one runs"
    )
    state, actions = replica_gone(state, gone, now)
    if replica.name not in state.replicas:
        return state, actions
    # What the end ordered has come about already.
    actions = [each for each in actions if not isinstance(each, StartReplica)]
    state, ordered = replica_started(state, event, now)
    return state, actions + ordered


def _unwanted(replica: Replica, move: Move | None, *, owned: bool) -> bool:
    """Whether nothing wants a new incarnation of the replica."""
    if owned and move is None:
        return False  # that is its owner's to say
    if move is None:
        return not replica.active or replica.leaving is not None
    return replica.ended or move.state is MoveState.EVICTING


def start_refused(state: State, event: ev.StartRefused, now: float) -> Step:
    """Take note that an ordered start did not come about."""
    replica = state.replicas.get(event.replica)
    if replica is None or replica.phase is not Phase.STARTING or event.start != replica.starts:
        return state, []
    move = state.moves.get(replica.name)
    if move is not None:
        return transaction.happened(state, move, MoveOutcome.START_REFUSED, now, note=event.reason)
    if state.jobs[replica.job].owned:
        return refused_anywhere(state, replica, event.reason, now), []
    return crashed(state, replica, event.reason, now), []


def replica_gone(state: State, event: ev.ReplicaGone, now: float) -> Step:
    """Take note that nothing of an incarnation is left: finished, evicted for a move, or crashed."""
    replica = state.replicas.get(event.replica)
    if replica is None or not replica.active:
        return state, []
    move = state.moves.get(replica.name)
    if not _is_news(replica, move, event):
        return state, []
    replica = msgspec.structs.replace(
        replica, former=event.incarnation or replica.incarnation or replica.former
    )
    state = state.with_replica(replica)
    if _finished(replica, event):
        actions: list[Action] = []
        if move is not None:
            state, actions = transaction.happened(state, move, MoveOutcome.FINISHED, now)
        return ended(state, state.replicas[replica.name], Phase.SUCCEEDED, now), actions
    if move is None:
        return _lost(state, replica, event, now), []
    state, actions = transaction.happened(state, move, MoveOutcome.GONE, now, note=_why(event))
    after = state.replicas[replica.name]
    # Without an incarnation it was ordered to start again.
    if replica.name in state.moves or not after.active or after.incarnation is None:
        return regrouped(state, replica.job, now), actions
    # The move had not evicted it yet: it ended by itself, and is treated as if there had been no move.
    return _lost(state, after, event, now), actions


def _is_news(replica: Replica, move: Move | None, event: ev.ReplicaGone) -> bool:
    """Whether the event speaks of the present incarnation, and not of one that was replaced."""
    if replica.incarnation is not None:
        return event.incarnation == replica.incarnation
    if event.incarnation is not None and event.incarnation == replica.former:
        return False
    if replica.node is None:
        return event.incarnation is None  # it was to start anywhere, and its owner starts it no more
    # What was ordered and not seen yet cannot be gone, unless its eviction was asked for.
    return replica.leaving is not None or (move is not None and move.state is MoveState.EVICTING)


def _lost(state: State, replica: Replica, event: ev.ReplicaGone, now: float) -> State:
    """Let the replica start again: after a crash with a pause and a count, else at once."""
    if event.evicted and replica.leaving is None:
        return put_back(state, replica, _why(event), now)
    return crashed(state, replica, _why(event), now)


def _finished(replica: Replica, event: ev.ReplicaGone) -> bool:
    """Whether the training is complete; many trainers answer an eviction with exit code 0 as well."""
    if event.exit_code != 0:
        return False
    if not event.evicted:
        return True
    progress = replica.progress
    return progress.total_steps is not None and (progress.step or 0) >= progress.total_steps


def _why(event: ev.ReplicaGone) -> str:
    code = "killed or lost" if event.exit_code is None else f"exit code {event.exit_code}"
    return f"{code}: {event.reason}" if event.reason else code
