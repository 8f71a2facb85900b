"""Which replicas are to leave a node, and what each of them may do, whatever is in flight now. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.requested_moves import PURPOSE, answer_to, answer_to_job
from specon_manager.core.state import State
from specon_manager.core.transaction.begin import record_of
from specon_manager.model.actions import Migrate, MigrateGang
from specon_manager.model.settings import Budgets

_MOST: Final = 100
"""Nodes that a request for a gang names."""
_UNBOUNDED: Final = Budgets(moves_at_once=1_000_000, moves_at_once_per_node=1_000_000)


class Leaves(Struct, frozen=True, kw_only=True):
    """What would become of each replica of a node."""

    targets: Mapping[str, str]
    """Node by replica that can leave, all of them at the same time; "" where the manager chooses later."""
    gangs: Mapping[str, Mapping[str, str]]
    """Node by replica, by job that can leave as a whole; none where the manager chooses later."""
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


def leaves(state: State, node: str, to: Collection[str], now: float) -> Leaves:
    """Judge the moves of all replicas, one after the other, as if budgets allowed all of them at once.

    They go `to` one of these nodes, or (none) where the manager chooses. A job that trains as one goes whole.
    """
    settings = msgspec.structs.replace(state.settings, budgets=_UNBOUNDED)
    state = msgspec.structs.replace(state, settings=settings)
    targets: dict[str, str] = {}
    stay: dict[str, str] = {}
    leaving = []
    gangs: dict[str, list[str]] = {}
    for name in on_node(state, node):
        job, transaction = state.jobs[state.replicas[name].job], state.transaction_of(name)
        if transaction is not None and transaction.wanted.get(name) != node:
            leaving.append(name)
        elif transaction is not None and transaction.before.get(name) != node:
            stay[name] = f"{transaction.id} is bringing it there"
        elif job.spec.coupled and len(job.spec.replicas) > 1:
            gangs.setdefault(job.name, []).append(name)
        elif transaction is not None or state.whole_of(job.name) is not None:
            targets[name] = next(iter(to), "")  # its move is queued until that has ended
        else:
            answers = [answer_to(state, name, target, now) for target in (to or (None,))]
            where, why = next((each for each in answers if each[0] is not None), answers[0])
            if where is None:
                stay[name] = why
                continue
            targets[name] = where
            move = Migrate(replica=name, target=where, purpose=PURPOSE, reason="drain")
            state = state.with_transaction(record_of(move, state.jobs, state.replicas, name=name, now=now))
    placements: dict[str, Mapping[str, str]] = {}
    for job_name, names in gangs.items():
        if state.transactions_of(job_name):
            placements[job_name] = {}
            continue
        placement, why = answer_to_job(state, job_name, elsewhere(state, node, to), now)
        if placement is None:
            stay |= dict.fromkeys(names, f"all of {job_name} would have to move: {why}")
            continue
        placements[job_name] = placement
        whole = MigrateGang(job=job_name, placement=placement, purpose=PURPOSE, reason="drain")
        state = state.with_transaction(record_of(whole, state.jobs, state.replicas, name=job_name, now=now))
    return Leaves(targets=targets, gangs=placements, stay=stay, leaving=tuple(leaving))


def elsewhere(
    state: State, node: str, to: Collection[str], placement: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the nodes that a gang may go to when it leaves one: those of its placement first."""
    ready = (name for name, each in sorted(state.nodes.items()) if each.ready and name != node)
    return tuple(dict.fromkeys((*(placement or {}).values(), *(to or ready))))[:_MOST]
