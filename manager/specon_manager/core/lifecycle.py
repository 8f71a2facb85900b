"""The life of jobs and replicas: submitted, started, gone; crashes are restarted, ends are counted."""

import msgspec

from specon_manager.core import transaction
from specon_manager.core.restarts import crashed, ended, eviction, put_back
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.moves import Move, MoveOutcome, MoveState

Step = tuple[State, list[Action]]


def job_submitted(state: State, event: ev.JobSubmitted, now: float) -> Step:
    """Take a job in; a name that is known already changes nothing."""
    spec = event.spec
    if spec.name in state.jobs:
        return state, []
    job = Job(spec=spec, order=len(state.jobs), submitted_at=now)
    replicas = {name: Replica(name=name, job=spec.name, requests=spec.requests) for name in spec.replicas}
    return msgspec.structs.replace(
        state, jobs={**state.jobs, spec.name: job}, replicas={**state.replicas, **replicas}
    ), []


def replica_started(state: State, event: ev.ReplicaStarted, now: float) -> Step:
    """Take note that an incarnation runs: the one that was ordered, or one that its owner started."""
    replica = state.replicas.get(event.replica)
    if replica is None or event.incarnation in {replica.incarnation, replica.former}:
        return state, []
    move = state.moves.get(replica.name)
    if replica.ended or (replica.phase is Phase.PENDING and move is None) or _unwanted(move):
        # Nobody ordered it, or what ordered it was given up since.
        why = f"incarnation {event.incarnation} is not wanted: the replica is {replica.phase}"
        return state, [eviction(state, replica, event.incarnation, why)]
    progress = msgspec.structs.replace(replica.progress, sessions=())
    running = msgspec.structs.replace(
        replica,
        phase=Phase.RUNNING,
        node=event.node,
        incarnation=event.incarnation,
        deadline=None,
        progress=progress,
    )
    state = state.with_replica(running)
    if move is None:
        return state, []
    state = state.with_move(msgspec.structs.replace(move, incarnation=event.incarnation))
    return transaction.happened(state, state.moves[replica.name], MoveOutcome.STARTED, now)


def _unwanted(move: Move | None) -> bool:
    return move is not None and move.state is MoveState.EVICTING


def start_refused(state: State, event: ev.StartRefused, now: float) -> Step:
    """Take note that an ordered start did not come about."""
    replica = state.replicas.get(event.replica)
    if replica is None or replica.phase is not Phase.STARTING or event.start != replica.starts:
        return state, []
    move = state.moves.get(replica.name)
    if move is not None:
        return transaction.happened(state, move, MoveOutcome.START_REFUSED, now, note=event.reason)
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
    if replica.name in state.moves or not after.active:
        return state, actions
    # The move had not evicted it yet: it ended by itself, and is treated as if there had been no move.
    return _lost(state, after, event, now), actions


def _is_news(replica: Replica, move: Move | None, event: ev.ReplicaGone) -> bool:
    """Whether the event speaks of the present incarnation, and not of one that was replaced."""
    if replica.incarnation is not None:
        return event.incarnation == replica.incarnation
    if event.incarnation is not None and event.incarnation == replica.former:
        return False
    # What was ordered and not seen yet cannot be gone, unless its eviction was asked for.
    return move is not None and move.state is MoveState.EVICTING


def _lost(state: State, replica: Replica, event: ev.ReplicaGone, now: float) -> State:
    """Let the replica start again: after a crash with a pause and a count, else at once."""
    if event.evicted:
        return put_back(state, replica, _why(event))
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
