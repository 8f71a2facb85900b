"""Moves that a person or another program asks for: begun, kept waiting, or refused in words.

A temporary obstacle keeps a request waiting: others in flight, or no word yet of a job that has just started.
Any other obstacle refuses it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from specon_manager.core import dry_run, gang_targets
from specon_manager.core.move_objections import objection_to_gang_request, objection_to_request
from specon_manager.core.state import HISTORY, State, Step
from specon_manager.core.transaction.begin import begin
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, Migrate, MigrateGang, Objection, Refusal
from specon_manager.model.cluster import Job, Replica, job_of
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import trains_as_one
from specon_manager.model.transactions import (
    HAS_LEFT,
    HAS_WAITED,
    MAY_GO,
    YIELDING,
    Kind,
    Request,
    Transaction,
    TransactionState,
)

RequestedMove = Migrate | MigrateGang

POLICY: Final = "request"
PURPOSE: Final = "requested"
LEAVING: Final = "leave"
"""Purpose of a move off a node that someone else wants to be empty."""

_LONGEST_ID: Final = 120  # characters; with the number of a request it must fit what a sidecar takes
_MOST: Final = 10_000  # requests that wait: a drain of many nodes asks for one move of each pod
_MOST_OF_ONE: Final = 8
"""Requests that wait for one replica or one job, so that its owner takes no other's place."""
_NAMED: Final = 3  # nodes for which a refusal says why they cannot take the replica
_PASSING: Final = frozenset(
    {Refusal.CLUSTER_BUDGET, Refusal.NODE_BUDGET, Refusal.IN_FLIGHT, Refusal.JUST_STARTED}
)
"""Objections that end with a transaction in flight, or with the first report of a started job."""
_NO_OTHER_NODE: Final = frozenset({Refusal.NO_ROOM, Refusal.NOT_ELIGIBLE, Refusal.NODE_NOT_READY})
"""Why none of the nodes can take a replica."""


def move_requested(state: State, event: ev.MoveRequested, now: float) -> Step:
    """Begin the move, let it wait, or close it at once with the objection as its note.

    The same request again is ignored; another one under an id that is in use is refused by the caller, who
    finds that id in the state with another replica.
    """
    if is_known(state, event.id):
        return state, []
    request = Request(
        id=event.id,
        replica=event.replica,
        target=event.target,
        job=event.job,
        targets=event.targets,
        leave=event.leave,
        reason=event.reason or "it was asked for",
        at=now,
    )
    if len(event.id) > _LONGEST_ID:
        return record_refusal(state, request, f"its name is longer than {_LONGEST_ID} characters", now), []
    if (full := _no_more(state, request)) is not None:
        return record_refusal(state, request, full, now), []
    if (same := _same_request(state, request)) is not None:
        return record_refusal(
            state, request, f"{same.id} asks for the same, and waits: {same.waits_for}", now
        ), []
    return _try(state, request, now)


def request_withdrawn(state: State, event: ev.RequestWithdrawn, now: float) -> Step:
    """Refuse a request that someone wants no more; one that has begun continues."""
    request = state.requests.get(event.id)
    if request is None:
        return state, []
    return record_refusal(state, request, event.reason or "it was withdrawn before it began", now), []


def try_requests(state: State, now: float) -> Step:
    """Begin what waits and may, oldest first; refuse what has waited for too long."""
    actions: list[Action] = []
    for request in list(state.requests.values()):
        if now - request.at >= state.settings.deadlines.request:
            why = f"{HAS_WAITED}{now - request.at:.0f} s: {request.waits_for}"
            state = record_refusal(state, request, why, now)
            continue
        state, ordered = _try(state, request, now)
        actions += ordered
    return state, actions


def answer_to(state: State, name: str, target: str | None, now: float) -> tuple[str | None, str]:
    """Return where a replica would be moved if someone asked for it now, else None and the objection.

    With `target` None the node with the most open room is chosen. Nothing changes by the question.
    """
    placement, why = answer(state, Request(id="", replica=name, target=target, at=now), now)
    return (None if placement is None else placement[name]), why


def answer_to_job(
    state: State, job: str, targets: tuple[str, ...], now: float
) -> tuple[Mapping[str, str] | None, str]:
    """Return where a whole job would be moved, node by replica, else None and the objection.

    Without `targets` it leaves all nodes that it is on. Nothing changes by the question.
    """
    return answer(state, Request(id="", job=job, targets=targets, at=now), now)


def answer(state: State, request: Request, now: float) -> tuple[Mapping[str, str] | None, str]:
    """Return the node by replica that a request would come to now, else None and the objection."""
    move, objection = judge_request(state, request, now)
    if objection is not None or move is None:
        return None, "" if objection is None else objection.text
    return ({move.replica: move.target} if isinstance(move, Migrate) else move.placement), ""


def is_known(state: State, name: str) -> bool:
    """Return whether something of that id is in flight, waits or is over."""
    return (
        name in state.transactions or name in state.requests or any(each.id == name for each in state.history)
    )


def _no_more(state: State, request: Request) -> str | None:
    """Return why no further request may wait, in words; None where it may."""
    if len(state.requests) >= _MOST:
        return f"{_MOST} requests wait already"
    subject = request.job or request.replica
    if sum((each.job or each.replica) == subject for each in state.requests.values()) >= _MOST_OF_ONE:
        return f"{_MOST_OF_ONE} requests wait for {subject} already"
    return None


def _same_request(state: State, request: Request) -> Request | None:
    """Return the one that waits for the same move: asking again would move it again.

    A request to leave a node is answered on its own: it is made for the node, not for the replica.
    """

    def wanted(one: Request) -> tuple[object, ...]:
        return one.replica, one.target, one.job, one.targets, one.leave

    if request.leave:
        return None
    return next((each for each in state.requests.values() if wanted(each) == wanted(request)), None)


def _try(state: State, request: Request, now: float) -> Step:
    move, objection = judge_request(state, request, now)
    if objection is None and move is not None:
        requests = {name: each for name, each in state.requests.items() if name != request.id}
        state = msgspec.structs.replace(state, requests=requests)
        return begin(state, move, now, name=request.id, policy=POLICY)
    assert objection is not None
    if objection.refusal not in _PASSING:
        return record_refusal(state, request, objection.text, now), []
    if request.waits_for == objection.text and request.id in state.requests:
        return state, []
    waiting = msgspec.structs.replace(request, waits_for=objection.text)
    return msgspec.structs.replace(state, requests={**state.requests, request.id: waiting}), []


def judge_request(
    state: State, request: Request, now: float, *, may_yield: bool = True
) -> tuple[RequestedMove | None, Objection | None]:
    """Return the move that a request comes to now, or what stands in its way.

    `may_yield`: whether a replica that must leave its node, and has room nowhere, is saved where it is.
    """
    snapshot = state.snapshot(now)
    if (gone := _object_gone(state, request)) is not None:
        return None, gone
    move, objection = _choose(state, request, snapshot)
    if may_yield and request.leave and objection is not None and objection.refusal in _NO_OTHER_NODE:
        move, objection = _yielding(state, request, snapshot, objection.text)
    return move, objection or (None if move is None else dry_run.objection(move, state.settings))


def _object_gone(state: State, request: Request) -> Objection | None:
    """Return that the replica is not on the node that it was to leave: with its gang it may have left.

    While a move of it is in flight nobody knows yet: it may come back.
    """
    replica = state.replicas.get(request.replica)
    if not request.leave or replica is None:
        return None
    if (moving := state.transaction_of(replica.name)) is not None:
        return Objection(Refusal.IN_FLIGHT, f"{moving.id} is in flight")
    if not replica.active:
        # Its pod may be there, and has not begun: whoever evicts it is not to be told that it has left.
        return Objection(Refusal.NOT_RUNNING, f"it is {replica.phase}, not running")
    if replica.node == request.leave:
        return None
    return Objection(Refusal.SAME_NODE, f"{HAS_LEFT}{request.leave}")


def _yielding(
    state: State, request: Request, snapshot: Snapshot, why: str
) -> tuple[RequestedMove | None, Objection | None]:
    """Return the move to where it is, which ends once the checkpoint is verified: then it may go."""
    replica = state.replicas[request.replica]
    job = state.jobs[replica.job]
    reason = f"{request.reason}; {why}"
    if not trains_as_one(job, snapshot):
        objection = objection_to_request(replica, None, snapshot, state)
        target = replica.node or ""
        return Migrate(replica=replica.name, target=target, purpose=YIELDING, reason=reason), objection
    if _may_go(state, job, snapshot.now):
        return None, Objection(Refusal.NO_ROOM, MAY_GO)
    members = (state.replicas[name] for name in job.spec.replicas)
    here = {each.name: each.node or "" for each in members if each.active}
    objection = objection_to_gang_request(job, None, snapshot, state)
    return MigrateGang(job=job.name, placement=here, purpose=YIELDING, reason=reason), objection


def _choose(
    state: State, request: Request, snapshot: Snapshot
) -> tuple[RequestedMove | None, Objection | None]:
    if not request.job:
        replica = state.replicas.get(request.replica)
        if replica is None:
            return None, Objection(Refusal.UNKNOWN_REPLICA, f"there is no replica {request.replica}")
        job = state.jobs[replica.job]
        if trains_as_one(job, snapshot):
            return _of_gang(state, request, job, snapshot)
        return _of_one(state, request, replica, request.target, snapshot)
    job_named = state.jobs.get(request.job)
    if job_named is None:
        return None, Objection(Refusal.UNKNOWN_JOB, f"there is no job {request.job}")
    present = [name for name in job_named.spec.replicas if state.replicas[name].active]
    if len(present) != 1:
        return _of_gang(state, request, job_named, snapshot)
    if len(request.targets) > 1:
        text = f"{request.job} has one replica, and cannot go to {len(request.targets)} nodes"
        return None, Objection(Refusal.NO_ROOM, text)
    target = request.targets[0] if request.targets else None
    return _of_one(state, request, state.replicas[present[0]], target, snapshot)


def _of_one(
    state: State, request: Request, replica: Replica, target: str | None, snapshot: Snapshot
) -> tuple[RequestedMove | None, Objection | None]:
    if target is None:
        objection = objection_to_request(replica, None, snapshot, state)
        if objection is not None:
            return None, objection
        target, why = _most_open(replica, snapshot)
        if target is None:
            return None, Objection(Refusal.NO_ROOM, why)
    objection = objection_to_request(replica, target, snapshot, state)
    return Migrate(
        replica=replica.name, target=target, purpose=_purpose(request), reason=request.reason
    ), objection


def _of_gang(
    state: State, request: Request, job: Job, snapshot: Snapshot
) -> tuple[RequestedMove | None, Objection | None]:
    """Return the move of a whole job: to the nodes that are named, or off those that it is on.

    Where one replica of it was named, that one goes to its target, or all that share its node leave it.
    """
    objection = objection_to_gang_request(job, None, snapshot, state)
    if objection is not None:
        return None, objection
    if request.targets:
        placement, why = gang_targets.place_on_nodes(job, request.targets, snapshot)
    elif request.job:
        placement, why = gang_targets.anywhere(job, snapshot)
    elif request.target is not None:
        here = {name: state.replicas[name].node or "" for name in job.spec.replicas}
        active = {name: node for name, node in here.items() if state.replicas[name].active}
        placement, why = {**active, request.replica: request.target}, ""
    else:
        placement, why = gang_targets.place_off_node(
            job, state.replicas[request.replica].node or "", snapshot
        )
    if placement is None:
        return None, Objection(Refusal.NO_ROOM, why)
    objection = objection_to_gang_request(job, placement, snapshot, state)
    return MigrateGang(
        job=job.name, placement=placement, purpose=_purpose(request), reason=request.reason
    ), objection


def _may_go(state: State, job: Job, now: float) -> bool:
    """Whether all of a gang has just saved for one of it that was taken off its node."""
    age = state.settings.deadlines.checkpoint_age
    return any(
        over.job == job.name and over.note == MAY_GO and now - (over.ended_at or 0.0) <= age
        for over in reversed(state.history)
    )


def _purpose(request: Request) -> str:
    return LEAVING if request.leave else PURPOSE


def _most_open(replica: Replica, snapshot: Snapshot) -> tuple[str | None, str]:
    """Return the node with the most open room that can take the replica, else None and why none can."""
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


def record_refusal(state: State, request: Request, why: str, now: float) -> State:
    """Return the state whose history says that nothing came of the request, and why in words."""
    job = request.job or job_of(request.replica)
    known = state.jobs.get(job)
    named = known.spec.replicas if request.job and known is not None else (request.replica,)
    records = (state.replicas.get(name) for name in named if name)
    active = [record for record in records if record is not None and record.active]
    before = {name: "" for name in named if name and not request.job}
    before |= {record.name: record.node or "" for record in active}
    over = Transaction(
        id=request.id,
        kind=Kind.MOVE,
        job=job,
        before=before,
        after={} if request.job else {request.replica: request.target or ""},
        whole=bool(request.job),
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
