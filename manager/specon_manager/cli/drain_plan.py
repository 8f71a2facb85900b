"""Which replicas are to leave a node, and what each of them may do, whatever is in flight now. Pure."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from specon_manager.core.plan import begun
from specon_manager.core.requested_moves import PURPOSE, answer_to
from specon_manager.core.state import State
from specon_manager.model.actions import Migrate
from specon_manager.model.cluster import Phase
from specon_manager.model.settings import Budgets

_MANY = 1_000_000


class Leaves(Struct, frozen=True, kw_only=True):
    """What would become of each replica of a node."""

    targets: Mapping[str, str]
    """Node by replica that can leave; all of them fit at the same time."""
    stay: Mapping[str, str]
    """Reason by replica that cannot."""
    leaving: tuple[str, ...]
    """Those that a move in flight takes away already."""


def on_node(state: State, node: str) -> tuple[str, ...]:
    """Return the replicas that are on a node, and those that a move is bringing there, by name."""
    return tuple(
        sorted(
            replica.name
            for replica in state.replicas.values()
            if (replica.active and replica.node == node)
            or (replica.name in state.moves and state.moves[replica.name].destination == node)
        )
    )


def leaves(state: State, node: str, target: str | None, now: float) -> Leaves:
    """Judge a move of each replica, one after the other, as if budgets allowed all of them at once."""
    without = msgspec.structs.replace(
        state.settings, budgets=Budgets(moves_at_once=_MANY, moves_at_once_per_node=_MANY)
    )
    state = msgspec.structs.replace(state, settings=without)
    targets: dict[str, str] = {}
    stay: dict[str, str] = {}
    leaving = []
    for name in on_node(state, node):
        move = state.moves.get(name)
        if move is not None and move.destination != node:
            leaving.append(name)
            continue
        if move is not None:
            stay[name] = f"move {move.id} is bringing it there"
            continue
        where, why = answer_to(state, name, target, now)
        if where is None:
            stay[name] = why
            continue
        targets[name] = where
        proposal = Migrate(replica=name, target=where, purpose=PURPOSE, reason="drain")
        replica = state.replicas[name]
        state = state.with_move(begun(proposal, replica, policy="", name=name, now=now, hold=0.0))
    return Leaves(targets=targets, stay=stay, leaving=tuple(leaving))


def still_there(state: State, node: str, besides: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the replicas on the node that no move takes away, but those named."""
    skipped = set(besides)
    return tuple(
        name
        for name in on_node(state, node)
        if name not in skipped and (name not in state.moves or state.moves[name].destination == node)
    )


def is_up(state: State, name: str) -> bool:
    """Whether a replica runs, so that it could be asked for a checkpoint."""
    replica = state.replicas.get(name)
    return replica is not None and replica.phase is Phase.RUNNING
