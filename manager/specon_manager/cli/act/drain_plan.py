"""Which replicas are to leave a node, and what each of them may do, whatever is in flight now. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.cli.remote.remote import Wanted
from specon_manager.core.gang import is_gang
from specon_manager.core.requested_moves import PURPOSE, answer
from specon_manager.core.state import State
from specon_manager.core.transaction.begin import record_of
from specon_manager.model.actions import Migrate, MigrateGang
from specon_manager.model.settings import Budgets

_UNBOUNDED: Final = Budgets(moves_at_once=1_000_000, moves_at_once_per_node=1_000_000)


class Leaver(Struct, frozen=True, kw_only=True):
    """What can leave, as it is asked for: a replica, or all of a gang that has some there."""

    wanted: Wanted
    whole: bool
    """Whether all of the job moves, whatever is named."""
    placement: Mapping[str, str]
    """Node by replica; empty where the manager chooses later."""

    @property
    def subject(self) -> str:
        """The replica, or the job where all of it moves."""
        return self.wanted.job if self.whole else self.wanted.name


class Leaves(Struct, frozen=True, kw_only=True):
    """What would become of each replica of a node."""

    leavers: tuple[Leaver, ...]
    """Those that can leave, all of them at the same time."""
    stay: Mapping[str, str]
    """Reason by replica that cannot."""
    leaving: tuple[str, ...]
    """Those that something in flight takes away already."""


def replicas_on_node(state: State, node: str) -> tuple[str, ...]:
    """Return the replicas that are on a node, and those that something in flight brings there, by name."""
    here = {each.name for each in state.replicas.values() if each.active and each.node == node}
    coming = {
        name
        for transaction in state.transactions.values()
        for name, wanted in transaction.wanted.items()
        if wanted == node
    }
    return tuple(sorted(here | coming))


def judge_moves(state: State, node: str, to: tuple[str, ...], now: float) -> Leaves:
    """Judge the moves of all replicas, one after the other, as if budgets allowed all of them at once.

    They go `to` these nodes, or (none) where the manager chooses. What trains as one goes as a whole.
    """
    settings = msgspec.structs.replace(state.settings, budgets=_UNBOUNDED)
    state = msgspec.structs.replace(state, settings=settings)
    leavers: dict[str, Leaver] = {}
    stay: dict[str, str] = {}
    leaving = []
    for name in replicas_on_node(state, node):
        job, transaction = state.jobs[state.replicas[name].job], state.transaction_of(name)
        whole = is_gang(state, job)
        subject = job.name if whole else name
        if subject in leavers:
            continue
        if transaction is not None and transaction.wanted.get(name) != node:
            leaving.append(name)
            continue
        if transaction is not None and transaction.before.get(name) != node:
            stay[name] = f"{transaction.id} is bringing it there"
            continue
        wishes = [_gang_wish(state, name, node, to)] if whole else _wishes(job.name, name, to)
        if transaction is not None or state.whole_transaction_of(job.name) is not None:
            # Its move is queued until that has ended.
            leavers[subject] = Leaver(wanted=wishes[0], whole=whole, placement={})
            continue
        answers = [(wish, *answer(state, wish.request(now), now)) for wish in wishes]
        wanted, placement, why = next((each for each in answers if each[1] is not None), answers[0])
        if placement is None:
            stay[name] = f"all of {job.name} would have to move: {why}" if whole else why
            continue
        leavers[subject] = Leaver(wanted=wanted, whole=whole, placement=placement)
        move = Migrate(replica=name, target=placement[name], purpose=PURPOSE, reason="drain")
        gang = MigrateGang(job=job.name, placement=placement, purpose=PURPOSE, reason="drain")
        record = record_of(gang if whole else move, state.jobs, state.replicas, name=subject, now=now)
        state = state.with_transaction(record)
    return Leaves(leavers=tuple(leavers.values()), stay=stay, leaving=tuple(leaving))


def _wishes(job: str, replica: str, to: tuple[str, ...]) -> list[Wanted]:
    """Return what could be asked for one replica: each of the nodes, or what the manager chooses."""
    named = [Wanted(job=job, replica=replica, targets=(each,)) for each in to]
    return named or [Wanted(job=job, replica=replica)]


def _gang_wish(state: State, name: str, node: str, to: tuple[str, ...]) -> Wanted:
    """Return what to ask for so that all of a gang leave the node, and no others.

    One replica stands for all on its node. Where they go `to` some nodes, the others may stay on theirs.
    """
    job = state.jobs[state.replicas[name].job]
    if not to:
        return Wanted(job=job.name, replica=name)
    members = (state.replicas[each] for each in job.spec.replicas)
    others = (each.node for each in members if each.active and each.node and each.node != node)
    return Wanted(job=job.name, targets=tuple(dict.fromkeys((*to, *others))))
