"""Moves that a person or another program asks for: ordered, or refused in words, once each."""

from typing import Final

import msgspec

from specon_manager.core import dry_run
from specon_manager.core.migration import orders
from specon_manager.core.plan import begun, objection_to_request
from specon_manager.core.state import HISTORY, State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, Migrate
from specon_manager.model.cluster import Replica
from specon_manager.model.moves import Move, MoveState
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot

Step = tuple[State, list[Action]]

POLICY: Final = "request"
PURPOSE: Final = "requested"

_LONGEST_ID: Final = 128  # characters; a longer one cannot be told to a sidecar
_NAMED: Final = 3  # nodes of which a refusal says why they cannot take the replica


def move_requested(state: State, event: ev.MoveRequested, now: float) -> Step:
    """Begin the move, or close it at once with the objection as its note; the same id again is ignored."""
    if any(move.id == event.id for move in (*state.moves.values(), *state.history)):
        return state, []
    if len(event.id) > _LONGEST_ID:
        return _refused(state, event, f"its name is longer than {_LONGEST_ID} characters", now), []
    target, why = answer_to(state, event.replica, event.target, now)
    if target is None:
        return _refused(state, event, why, now), []
    replica = state.replicas[event.replica]
    reason = event.reason or "it was asked for"
    proposal = Migrate(replica=replica.name, target=target, purpose=PURPOSE, reason=reason)
    hold = state.settings.deadlines.hold
    move = begun(proposal, replica, policy=POLICY, name=event.id, now=now, hold=hold)
    return state.with_move(move), orders(move, replica, state.jobs[replica.job])


def answer_to(state: State, name: str, target: str | None, now: float) -> tuple[str | None, str]:
    """Return where a replica would be moved if somebody asked for it now, else None and what is against it.

    With `target` None the node with the most open room is chosen. Nothing changes by the question.
    """
    replica = state.replicas.get(name)
    if replica is None:
        return None, f"there is no replica {name}"
    snapshot = state.snapshot(now)
    if target is None:
        objection = objection_to_request(replica, None, snapshot, state)
        if objection is not None:
            return None, objection.text
        target, why = _most_open(replica, snapshot)
        if target is None:
            return None, why
    objection = objection_to_request(replica, target, snapshot, state)
    if objection is None:
        move = Migrate(replica=name, target=target, purpose=PURPOSE, reason="it was asked for")
        objection = dry_run.objection(move, state.settings)
    return (target, "") if objection is None else (None, objection.text)


def _most_open(replica: Replica, snapshot: Snapshot) -> tuple[str | None, str]:
    """Return the node with the most open room of those that can take the replica, and else why none can."""
    best, most = None, -1.0
    why: list[str] = []
    for node in snapshot.ready_nodes:
        if node.name == replica.node:
            continue
        objection = snapshot.objection_to(node.name, replica.job)
        room = snapshot.open_room(node.name, replica.job)
        if objection is not None:
            why.append(objection)
        elif not replica.requests.fits(room):
            why.append(f"no room on {node.name}")
        elif (share := _share(room, node.capacity)) > most:
            best, most = node.name, share  # of equals the first by name
    if best is not None:
        return best, ""
    more = f"; and {len(why) - _NAMED} more" if len(why) > _NAMED else ""
    return None, "no other node can take it: " + ("; ".join(why[:_NAMED]) + more or "none is ready")


def _share(room: Resources, capacity: Resources) -> float:
    """Return which part of a node is open, on average over the kinds of resources that it has."""
    kinds = ((room.cpu, capacity.cpu), (room.memory, capacity.memory), (room.gpu, capacity.gpu))
    parts = [open_ / whole for open_, whole in kinds if whole > 0]
    return sum(parts) / len(parts) if parts else 0.0


def _refused(state: State, event: ev.MoveRequested, why: str, now: float) -> State:
    """Return the state whose history says that nothing came of the request, and why."""
    replica = state.replicas.get(event.replica)
    move = Move(
        id=event.id,
        replica=event.replica,
        source="" if replica is None or not replica.active else replica.node or "",
        target=event.target or "",
        policy=POLICY,
        purpose=PURPOSE,
        reason=event.reason or "it was asked for",
        state=MoveState.ROLLED_BACK,
        proposed_at=now,
        deadline=now,
        incarnation=None if replica is None else replica.incarnation,
        ended_at=now,
        note=why,
    )
    return msgspec.structs.replace(state, history=(*state.history, move)[-HISTORY:])
