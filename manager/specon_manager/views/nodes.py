"""A node on one line: how busy it is, who is there, who is coming."""

import math

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.cluster import Node
from specon_manager.views.names import printable, replica_label
from specon_manager.views.words import ShownState, word_for


class NodeRow(Struct, frozen=True, kw_only=True):
    """A node in words and numbers."""

    name: str
    ready: bool
    share: float
    """The part of its cores that is in use, measured."""
    cores: float
    accelerator: str
    """The model of its GPUs; empty where it has none, or nobody says."""
    coming: tuple[str, ...]
    """Whom a transaction brings."""
    here: tuple[tuple[str, ShownState], ...]
    """Who is there, each with the word that says most about it."""


def node_row(state: State, node: Node) -> NodeRow:
    """Return the row of a node."""
    here = [replica for replica in state.replicas.values() if replica.active and replica.node == node.name]
    names = {replica.name for replica in here}
    coming = [
        name
        for each in state.transactions.values()
        for name, wanted in sorted(each.wanted.items())
        if wanted == node.name and name not in names
    ]
    used, cores = node.usage.cpu, node.capacity.cpu
    return NodeRow(
        name=printable(node.name),
        ready=node.ready,
        share=used / cores if cores > 0 and math.isfinite(used) else 0.0,
        cores=cores,
        accelerator=printable(node.accelerator) if node.capacity.gpu else "",
        coming=tuple(replica_label(state, name) for name in coming),
        here=tuple((replica_label(state, replica.name), word_for(state, replica)) for replica in here),
    )
