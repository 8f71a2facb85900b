"""Which replicas are to leave a node, and what each of them may do, whatever is in flight now. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.requested_moves import PURPOSE, answer_to
from specon_manager.core.state import State
from specon_manager.core.transaction.begin import record_of
from specon_manager.model.actions import Migrate
from specon_manager.model.settings import Budgets

_UNBOUNDED: Final = Budgets(moves_at_once=1_000_000, moves_at_once_per_node=1_000_000)


class Leaves(Struct, frozen=True, kw_only=True):
    """What would become of each replica of a node."""

    targets: Mapping[str, str]
    """Node by replica that can leave, all of them at the same time; "" where the manager chooses later."""
    stay: Mapping[str, str]
    """Reason by replica that cannot."""
    leaving: tuple[str, ...]
    """Those that something in flight takes away already."""


def on_node(state: State, node: str) -> tuple[str, ...]:
    """Return the replicas that are on a node, and those that something in flight brings there, by name."""
    here = {each.name for each in state.replicas.values() if each.active and each.node == node}
    coming = {
        name
        for transaction in state.transactions.values()
        for name, wanted in transaction.wanted.items()
        if wanted == node
    }
    return tuple(sorted(here | coming))


def leaves(state: State, node: str, target: str | None, now: float) -> Leaves:
    """Judge a move of each replica, one after the other, as if budgets allowed all of them at once."""
    settings = msgspec.structs.replace(state.settings, budgets=_UNBOUNDED)
    state = msgspec.structs.replace(state, settings=settings)
    targets: dict[str, str] = {}
    stay: dict[str, str] = {}
    leaving = []
    for name in on_node(state, node):
        transaction = state.transaction_of(name)
        if transaction is not None and transaction.wanted.get(name) != node:
            leaving.append(name)
            continue
        if transaction is not None and transaction.before.get(name) != node:
            stay[name] = f"{transaction.id} is bringing it there"
            continue
        if transaction is not None or state.whole_of(state.replicas[name].job) is not None:
            targets[name] = target or ""  # its move is queued until that has ended
            continue
        where, why = answer_to(state, name, target, now)
        if where is None:
            stay[name] = why
            continue
        targets[name] = where
        move = Migrate(replica=name, target=where, purpose=PURPOSE, reason="drain")
        state = state.with_transaction(record_of(move, state.jobs, state.replicas, name=name, now=now))
    return Leaves(targets=targets, stay=stay, leaving=tuple(leaving))
