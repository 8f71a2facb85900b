"""Replicas leave a node that is about to be emptied before they are evicted. Pure.

They leave as if someone had asked for it: budgets hold, gain and cost do not count. The replica with the most
left goes first. A replica that ends before the node is emptied stays, and so does one that has no room
elsewhere: a later eviction is answered by itself.
"""

from typing import Final

from specon_manager.core.requested_moves import judge_request
from specon_manager.core.state import State, Step
from specon_manager.core.transaction.begin import begin
from specon_manager.model.actions import Action, Refusal
from specon_manager.model.cluster import Node, Phase, Replica
from specon_manager.model.renewal import Chosen
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import resting
from specon_manager.model.transactions import Request
from specon_manager.policies.remaining_work import remaining_seconds

POLICY: Final = "early-warning"
_LOOKED_AT: Final = 16
"""Replicas that are judged in one Tick."""
_warned: Final = Chosen[Node](lambda node: bool(node.warned))
_WORDS: Final = {
    "annotation": "its maintenance is announced",
    "cordon": "it is cordoned",
    "taint": "a taint says that it is to go",
    "condition": "a condition says that it is to be drained",
}


def awaits_budget(state: State) -> bool:
    """Whether replicas may wait for the end of other moves before they leave."""
    return state.pause is None and bool(_warned(state.nodes))


def leave_early(state: State, now: float) -> Step:
    """Begin the moves of what is to leave, as many as budgets allow."""
    actions: list[Action] = []
    if not awaits_budget(state):
        return state, actions
    for replica in _leavers(state, state.snapshot(now))[:_LOOKED_AT]:
        if state.transaction_of(replica.name) is not None or replica.node is None:
            continue  # its gang takes it along
        why = f"{replica.node} is about to be emptied: {_WORDS[state.nodes[replica.node].warned]}"
        request = Request(id="", replica=replica.name, leave=replica.node, reason=why, at=now)
        move, objection = judge_request(state, request, now, may_yield=False)
        if objection is None and move is not None:
            state, ordered = begin(state, move, now, policy=POLICY)
            actions += ordered
        elif objection is not None and objection.refusal in {Refusal.CLUSTER_BUDGET, Refusal.DRY_RUN}:
            break
    return state, actions


def _leavers(state: State, snapshot: Snapshot) -> list[Replica]:
    """Return what is to leave, the one first that has the most left; by name where that is the same."""
    found: list[tuple[float, str]] = []
    for replica in state.replicas.values():
        node = state.nodes.get(replica.node or "")
        if node is None or not node.warned or replica.phase is not Phase.RUNNING or replica.ended:
            continue
        job = state.jobs[replica.job]
        if snapshot.now < replica.cooldown_until or resting(job, snapshot) is not None:
            continue  # a move of it failed a moment ago
        left = remaining_seconds(job, snapshot)
        if node.leaves_at is None or snapshot.now + left > node.leaves_at:
            found.append((-left, replica.name))
    return [state.replicas[name] for _, name in sorted(found)]
