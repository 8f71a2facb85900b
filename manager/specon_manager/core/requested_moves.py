"""Moves that a person or another program asks for: begun, kept waiting, or refused in words.

What stands in the way for a moment only (others in flight) keeps a request waiting; anything else refuses it.
"""

from typing import Final

import msgspec

from specon_manager.core import dry_run
from specon_manager.core.plan import objection_to_request
from specon_manager.core.state import HISTORY, State, Step
from specon_manager.core.transaction.begin import begin
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, Migrate, Objection, Refusal
from specon_manager.model.cluster import Replica, job_of
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import Kind, Request, Transaction, TransactionState

POLICY: Final = "request"
PURPOSE: Final = "requested"

_LONGEST_ID: Final = 120  # characters; with the number of a request it must fit what a sidecar takes
_MOST: Final = 1000  # requests that wait
_NAMED: Final = 3  # nodes of which a refusal says why they cannot take the replica
_PASSING: Final = frozenset({Refusal.CLUSTER_BUDGET, Refusal.NODE_BUDGET, Refusal.IN_FLIGHT})
"""What is over as soon as something in flight is."""


def move_requested(state: State, event: ev.MoveRequested, now: float) -> Step:
    """Begin the move, let it wait, or close it at once with the objection as its note.

    The same request again is ignored; another one under an id that is in use is refused by the caller, who
    finds that id in the state with another replica.
    """
    if _is_known(state, event.id):
        return state, []
    request = Request(
        id=event.id,
        replica=event.replica,
        target=event.target,
        reason=event.reason or "it was asked for",
        at=now,
    )
    if len(event.id) > _LONGEST_ID:
        return _refused(state, request, f"its name is longer than {_LONGEST_ID} characters", now), []
    if len(state.requests) >= _MOST:
        return _refused(state, request, f"{_MOST} requests wait already", now), []
    return _tried(state, request, now)


def request_withdrawn(state: State, event: ev.RequestWithdrawn, now: float) -> Step:
    """Refuse a request that somebody wants no more; one that has begun goes on."""
    request = state.requests.get(event.id)
    if request is None:
        return state, []
    return _refused(state, request, event.reason or "it was withdrawn before it began", now), []


def try_requests(state: State, now: float) -> Step:
    """Begin what waits and may, oldest first; refuse what has waited for too long."""
    actions: list[Action] = []
    for request in list(state.requests.values()):
        if now - request.at >= state.settings.deadlines.request:
            why = f"it has waited for {now - request.at:.0f} s: {request.waits_for}"
            state = _refused(state, request, why, now)
            continue
        state, ordered = _tried(state, request, now)
        actions += ordered
    return state, actions


def answer_to(state: State, name: str, target: str | None, now: float) -> tuple[str | None, str]:
    """Return where a replica would be moved if somebody asked for it now, else None and what is against it.

    With `target` None the node with the most open room is chosen. Nothing changes by the question.
    """
    chosen, objection = _judged(state, name, target, now)
    return (chosen, "") if objection is None else (None, objection.text)


def _is_known(state: State, name: str) -> bool:
    return (
        name in state.transactions or name in state.requests or any(each.id == name for each in state.history)
    )


def _tried(state: State, request: Request, now: float) -> Step:
    target, objection = _judged(state, request.replica, request.target, now)
    if objection is None and target is not None:
        requests = {name: each for name, each in state.requests.items() if name != request.id}
        proposal = Migrate(replica=request.replica, target=target, purpose=PURPOSE, reason=request.reason)
        state = msgspec.structs.replace(state, requests=requests)
        return begin(state, proposal, now, name=request.id, policy=POLICY)
    assert objection is not None
    if objection.refusal not in _PASSING:
        return _refused(state, request, objection.text, now), []
    if request.waits_for == objection.text and request.id in state.requests:
        return state, []
    waiting = msgspec.structs.replace(request, waits_for=objection.text)
    return msgspec.structs.replace(state, requests={**state.requests, request.id: waiting}), []


def _judged(state: State, name: str, target: str | None, now: float) -> tuple[str | None, Objection | None]:
    replica = state.replicas.get(name)
    if replica is None:
        return None, Objection(Refusal.UNKNOWN_REPLICA, f"there is no replica {name}")
    snapshot = state.snapshot(now)
    if target is None:
        objection = objection_to_request(replica, None, snapshot, state)
        if objection is not None:
            return None, objection
        target, why = _most_open(replica, snapshot)
        if target is None:
            return None, Objection(Refusal.NO_ROOM, why)
    objection = objection_to_request(replica, target, snapshot, state)
    if objection is None:
        move = Migrate(replica=name, target=target, purpose=PURPOSE, reason="it was asked for")
        objection = dry_run.objection(move, state.settings)
    return target, objection


def _most_open(replica: Replica, snapshot: Snapshot) -> tuple[str | None, str]:
    """Return the node with the most open room of those that can take the replica, and else why none can."""
    best, most = None, -1.0
    why: list[str] = []
    for node in snapshot.ready_nodes:
        if node.name == replica.node:
            continue
        objection = snapshot.objection_to(node.name, replica.job)
        room = snapshot.open_room(node.name, replica.job)
        shares = room.shares(node.capacity)
        share = sum(shares) / len(shares) if shares else 0.0
        if objection is not None:
            why.append(objection)
        elif not replica.requests.fits(room):
            why.append(f"no room on {node.name}")
        elif share > most:
            best, most = node.name, share  # of equals the first by name
    if best is not None:
        return best, ""
    more = f"; and {len(why) - _NAMED} more" if len(why) > _NAMED else ""
    return None, "no other node can take it: " + ("; ".join(why[:_NAMED]) + more or "none is ready")


def _refused(state: State, request: Request, why: str, now: float) -> State:
    """Return the state whose history says that nothing came of the request, and why."""
    replica = state.replicas.get(request.replica)
    source = "" if replica is None or not replica.active else replica.node or ""
    over = Transaction(
        id=request.id,
        kind=Kind.MOVE,
        job=job_of(request.replica),
        before={request.replica: source},
        after={request.replica: request.target or ""},
        policy=POLICY,
        purpose=PURPOSE,
        reason=request.reason,
        state=TransactionState.REFUSED,
        proposed_at=request.at,
        deadline=now,
        ended_at=now,
        note=why,
    )
    requests = {name: each for name, each in state.requests.items() if name != request.id}
    return msgspec.structs.replace(state, requests=requests, history=(*state.history, over)[-HISTORY:])
