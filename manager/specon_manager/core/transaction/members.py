"""The replicas that a transaction is about: which must go, which are wanted, which can come back."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase, Replica, role_of
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.standing import unready
from specon_manager.model.transactions import IN_PLACE, Kind, Transaction, TransactionState

Purpose = Literal["preempt", "scale-in", "restart", "put-back"]
_COME: Final = frozenset({TransactionState.COMING, TransactionState.VERIFYING})
"""Before these all that begins again has still to start, also where it runs already."""


def records(state: State, transaction: Transaction) -> list[Replica]:
    """Return the records of the replicas that it is about and that are still known, by name."""
    found = (state.replicas.get(name) for name in transaction.concerned)
    return [record for record in found if record is not None]


def wanted_replicas(state: State, transaction: Transaction) -> list[Replica]:
    """Return the records of the replicas that are to run when the present attempt succeeds, by name."""
    return [record for record in records(state, transaction) if record.name in transaction.wanted]


def must_go(transaction: Transaction, replica: Replica) -> bool:
    """Whether what occupies a node as this replica has to end before anything starts.

    An incarnation that came after the one that was told to end is the wanted one, unless all of the
    transaction starts again or nothing of the replica is to run.
    """
    if not replica.active or _ends_for_good(replica):
        return False
    node = transaction.wanted.get(replica.name)
    if node is None or transaction.restart:
        return True
    if transaction.ending and replica.incarnation is not None:
        told = transaction.ending.get(replica.name)
        return told is not None and told in {"", replica.incarnation}
    return node not in {"", replica.node}


def ending_replicas(state: State, transaction: Transaction) -> list[Replica]:
    """Return the records of all that it may tell to end, by name.

    Where it is about the whole job, that is also what its owner has started beside it in the meantime, and
    the replicas told to end before its description named them no more.
    """
    job = state.jobs.get(transaction.job)
    if not transaction.whole or job is None:
        return records(state, transaction)
    dropped = (name for name in job.dropped if state.replicas[name].leaving is not None)
    names = sorted({*transaction.concerned, *job.spec.replicas, *dropped})
    return [state.replicas[name] for name in names if name in state.replicas]


def leavers(state: State, transaction: Transaction) -> list[Replica]:
    """Return the records of what has to end and is not gone yet, by name."""
    return [record for record in ending_replicas(state, transaction) if must_go(transaction, record)]


def has_unwanted(state: State, transaction: Transaction) -> bool:
    """Whether an earlier incarnation of anything that it is about still lives, and is told to end."""
    return bool(state.unwanted) and any(map(state.has_unwanted, transaction.concerned))


def drop_newcomers(state: State, transaction: Transaction) -> State:
    """Let what came by a transaction that was turned back, and has crashed since, be absent again."""
    newcomers = transaction.after.keys() - transaction.before.keys() if transaction.attempt > 1 else set()
    for replica in records(state, transaction):
        if replica.name in newcomers and replica.phase is Phase.PENDING and not _ends_for_good(replica):
            absent = msgspec.structs.replace(replica, phase=Phase.ABSENT, lost_at=None, holds=False)
            state = state.with_replica(absent)
    return state


def is_untouched(state: State, transaction: Transaction) -> bool:
    """Whether everything that ran when it began still runs, as the same incarnation where that is known."""
    if transaction.attempt > 1:
        return False
    for name in transaction.before:
        record = state.replicas.get(name)
        if record is None or record.phase is not Phase.RUNNING:
            return False
        if transaction.ending.get(name) == "":
            return False  # told to end before it was seen, it may end at any time
        witness = transaction.witnesses.get(name)
        if witness is not None and witness.incarnation not in {None, record.incarnation}:
            return False
    return True


def purpose_of(transaction: Transaction, name: str) -> Purpose:
    """Return why a replica is told to end, and so what becomes of it then."""
    if name in transaction.wanted:
        return "restart"
    if transaction.wanted:
        return "scale-in"
    return "preempt" if transaction.kind is Kind.PREEMPT else "put-back"


def node_lost(state: State, transaction: Transaction) -> str | None:
    """Return the node, in words, on which something is to start and that takes nothing any more."""
    if transaction.purpose in IN_PLACE:
        return None  # it starts nothing: others want its node to be empty
    for name in sorted(transaction.wanted):
        replica, node = state.replicas.get(name), transaction.wanted[name]
        if replica is None or not node or replica.ended:
            continue
        begins_anew = transaction.restart and transaction.state not in _COME
        if replica.phase is Phase.RUNNING and replica.node == node and not begins_anew:
            continue
        if (lost := unready(node, name, state.nodes)) is not None:
            return lost
    return None


def no_way_back(state: State, transaction: Transaction, now: float) -> str | None:
    """Return why what ran before cannot all run again where it ran; None where it can.

    What left its node to make room has lost its own there, and another job may have it by now.
    """
    snapshot = state.snapshot(now)
    needed: dict[str, Resources] = {}
    for name, node in transaction.before.items():
        replica = state.replicas.get(name)
        if replica is None or not node or replica.ended or (replica.active and replica.node == node):
            continue
        known = state.nodes.get(node)
        if known is None or not known.ready:
            return f"node {node}, where {name} ran before, is not there any more"
        if snapshot.place(replica) != node:
            needed[node] = needed.get(node, NOTHING) + replica.requests
    if transaction.keeps_way_back:
        return None
    for node, amount in sorted(needed.items()):
        if not amount.fits(snapshot.room(node)):
            return f"its room on {node} has been taken meanwhile"
    return None


def is_described(job: Job, transaction: Transaction) -> bool:
    """Whether the job still names every replica that the transaction is about."""
    named = set(job.spec.replicas)
    return all(name in named for name in transaction.concerned)


def find_edited_workers(state: State, job: Job, transaction: Transaction) -> int | None:
    """Return the number of workers that its owner asks for by now, where it is neither old nor new.

    Where the names alone say how many there are, a name that came meanwhile is another number.
    """
    present, kind = job.spec.present, transaction.kind
    if not job.owned or not transaction.whole:
        return None
    if present is None:
        came = kind in {Kind.MOVE, Kind.RESTART} and _has_arrived(state, job, transaction)
        return len(job.spec.worker_names) if came else None
    if kind not in {Kind.SCALE_IN, Kind.SCALE_OUT, Kind.MOVE, Kind.RESTART}:
        return None
    known = {workers(transaction.before)}
    if transaction.changing_at is not None:
        known.add(workers(transaction.after))
    return None if present in known else present


def _has_arrived(state: State, job: Job, transaction: Transaction) -> bool:
    """Whether the job has a worker that was not there when all of it was to end."""
    others = (state.replicas[name] for name in job.spec.worker_names if name not in transaction.concerned)
    return any(each.active or each.phase is Phase.AWAITED for each in others)


def workers(names: Iterable[str]) -> int:
    """Return how many of these replicas are workers."""
    return sum(role_of(name) != "ps" for name in names)


def _ends_for_good(replica: Replica) -> bool:
    """Whether the replica is to end with its job, whatever becomes of the transaction."""
    return replica.leaving is not None and replica.leaving.purpose in {"complete", "fail"}
