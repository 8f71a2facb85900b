"""Nodes come, change and go; a move whose target is lost before anything was ended stays where it is."""

import msgspec

from specon_manager.core import transaction
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Node
from specon_manager.model.moves import MoveOutcome

Step = tuple[State, list[Action]]


def node_observed(state: State, event: ev.NodeObserved, now: float) -> Step:
    """Take note of a node as it is now."""
    node = Node(
        name=event.node,
        capacity=event.capacity,
        usage=event.usage,
        ready=event.ready,
        labels=event.labels,
        taints=event.taints,
    )
    if state.nodes.get(event.node) == node:
        return state, []
    state = msgspec.structs.replace(state, nodes={**state.nodes, node.name: node})
    return (state, []) if node.ready else _target_lost(state, node.name, "is not ready", now)


def node_gone(state: State, event: ev.NodeGone, now: float) -> Step:
    """Forget a node. What ran there is gone when its backend says so."""
    if event.node not in state.nodes:
        return state, []
    nodes = {name: node for name, node in state.nodes.items() if name != event.node}
    return _target_lost(msgspec.structs.replace(state, nodes=nodes), event.node, "is gone", now)


def _target_lost(state: State, node: str, what: str, now: float) -> Step:
    actions: list[Action] = []
    for move in [move for move in state.moves.values() if move.target == node]:
        note = f"the target {node} {what}"
        state, ordered = transaction.happened(state, move, MoveOutcome.TARGET_LOST, now, note=note)
        actions += ordered
    return state, actions
