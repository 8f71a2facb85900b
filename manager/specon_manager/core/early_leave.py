"""Replicas leave a node that is about to be emptied, or loses a device of theirs, before that. Pure.

They leave as if someone had asked for it: budgets hold, gain and cost do not count. The replica with the most
left goes first. A replica that ends before the node is emptied stays, and so does one that has no room
elsewhere: a later eviction is answered by itself.
"""

from typing import Final

import msgspec

from specon_manager.core.requested_moves import judge_request
from specon_manager.core.state import State, Step
from specon_manager.core.transaction.begin import begin
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, Refusal
from specon_manager.model.cluster import Node, Phase, Replica, Warned
from specon_manager.model.renewal import Chosen
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import resting
from specon_manager.model.transactions import Request
from specon_manager.policies.remaining_work import remaining_seconds

POLICY: Final = "early-warning"
_LOOKED_AT: Final = 16
"""Replicas that are judged in one Tick."""
_DEVICE: Final = "device-taint"
_warned: Final = Chosen[Node](lambda node: bool(node.warned))
_warned_alone: Final = Chosen[Replica](
    lambda replica: replica.warned is not None and _warning_of(replica) is not None
)
_WORDS: Final = {
    "annotation": "its maintenance is announced",
    "cordon": "it is cordoned",
    "taint": "a taint says that it is to go",
    "condition": "a condition says that it is to be drained",
}


def replica_warned(state: State, event: ev.ReplicaWarned, now: float) -> Step:
    """Take note that a replica is about to lose what it needs, or is no longer."""
    del now
    replica = state.replicas.get(event.replica)
    if replica is None or replica.incarnation != event.incarnation or _DEVICE not in state.settings.warnings:
        return state, []
    warned = Warned(incarnation=event.incarnation, why=event.why, leaves_at=event.leaves_at)
    return state.with_replica(msgspec.structs.replace(replica, warned=warned if event.why else None)), []


def awaits_budget(state: State) -> bool:
    """Whether replicas may wait for the end of other moves before they leave."""
    return state.pause is None and bool(_warned(state.nodes) or _warned_alone(state.replicas))


def leave_early(state: State, now: float) -> Step:
    """Begin the moves of replicas that are to leave, as many as budgets allow."""
    actions: list[Action] = []
    if not awaits_budget(state):
        return state, actions
    for replica in _leavers(state, state.snapshot(now))[:_LOOKED_AT]:
        if state.transaction_of(replica.name) is not None or replica.node is None:
            continue  # its gang takes it along
        by = state.nodes[replica.node].warned
        warning = _warning_of(replica)
        why = "" if warning is None else warning.why
        why = f"{replica.node} is about to be emptied: {_WORDS[by]}" if by else why
        request = Request(id="", replica=replica.name, leave=replica.node, reason=why, at=now)
        move, objection = judge_request(state, request, now, may_yield=False)
        if objection is None and move is not None:
            state, ordered = begin(state, move, now, policy=POLICY)
            actions += ordered
        elif objection is not None and objection.refusal in {Refusal.CLUSTER_BUDGET, Refusal.DRY_RUN}:
            break
    return state, actions


def _leavers(state: State, snapshot: Snapshot) -> list[Replica]:
    """Return the replicas that are to leave, the most remaining time first; of equals by name."""
    found: list[tuple[float, str]] = []
    for replica in state.replicas.values():
        node = state.nodes.get(replica.node or "")
        warning = _warning_of(replica)
        if node is None or not (node.warned or warning) or replica.phase is not Phase.RUNNING:
            continue
        job = state.jobs[replica.job]
        if snapshot.now < replica.cooldown_until or resting(job, snapshot) is not None:
            continue  # a move of it failed a moment ago
        left = remaining_seconds(job, snapshot)
        ends = [node.leaves_at] if node.warned else []
        ends += [] if warning is None else [warning.leaves_at]
        if any(at is None or snapshot.now + left > at for at in ends):
            found.append((-left, replica.name))
    return [state.replicas[name] for _, name in sorted(found)]


def _warning_of(replica: Replica) -> Warned | None:
    """Return the announcement about the incarnation that runs."""
    warned = replica.warned
    return warned if warned is not None and warned.incarnation == replica.incarnation else None
