"""What was ordered and not yet seen: orders are not given twice, and what stays away is noticed."""

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.moves import Move


def overdue_moves(state: State, now: float) -> list[Move]:
    """Return the moves whose present state has lasted too long, oldest first."""
    late = [move for move in state.moves.values() if now >= move.deadline]
    return sorted(late, key=lambda move: (move.proposed_at, move.id))


def overdue_replicas(state: State, now: float) -> tuple[list[Replica], list[Replica]]:
    """Return what is late outside of moves, by name: the starts, and the ends that were told.

    The first were ordered to start and did not; the second were told to end and are still there, or are to be
    told now.
    """
    starts, ends = [], []
    for replica in state.replicas.values():
        if replica.job in state.changes:
            continue  # those have deadlines of their own
        if replica.leaving is not None:
            if now >= replica.leaving.deadline and replica.active and replica.name not in state.moves:
                ends.append(replica)
        elif (
            replica.phase is Phase.STARTING
            and replica.deadline is not None
            and now >= replica.deadline
            and replica.name not in state.moves
        ):
            starts.append(replica)
    return sorted(starts, key=_by_name), sorted(ends, key=_by_name)


def _by_name(replica: Replica) -> str:
    return replica.name
