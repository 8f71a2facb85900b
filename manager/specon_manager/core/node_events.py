"""Nodes come, change and go; transactions in flight to or from them are looked at when things settle."""

import msgspec

from specon_manager.core.state import State, Step
from specon_manager.model import events as ev
from specon_manager.model.cluster import Node


def node_observed(state: State, event: ev.NodeObserved, now: float) -> Step:
    """Take note of a node as it is now."""
    del now
    warned = next((each for each in event.warnings if each in state.settings.warnings), "")
    node = Node(
        name=event.node,
        capacity=event.capacity,
        usage=event.usage,
        ready=event.ready and not warned,
        labels=event.labels,
        taints=event.taints,
        warned=warned,
        leaves_at=event.leaves_at,
    )
    if state.nodes.get(event.node) == node:
        return state, []
    return msgspec.structs.replace(state, nodes={**state.nodes, node.name: node}), []


def node_gone(state: State, event: ev.NodeGone, now: float) -> Step:
    """Forget a node. What ran there is gone when its backend says so."""
    del now
    if event.node not in state.nodes:
        return state, []
    nodes = {name: node for name, node in state.nodes.items() if name != event.node}
    return msgspec.structs.replace(state, nodes=nodes), []
