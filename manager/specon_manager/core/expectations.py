"""What was ordered and not yet seen: orders are not given twice, and what stays away is noticed."""

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.moves import Move


def overdue_moves(state: State, now: float) -> list[Move]:
    """Return the moves whose present state has lasted too long, oldest first."""
    late = [move for move in state.moves.values() if now >= move.deadline]
    return sorted(late, key=lambda move: (move.proposed_at, move.id))


def overdue_starts(state: State, now: float) -> list[Replica]:
    """Return the replicas that were ordered to start, outside of moves, and did not within their deadline."""
    return sorted(
        (
            replica
            for replica in state.replicas.values()
            if replica.phase is Phase.STARTING
            and replica.name not in state.moves
            and replica.deadline is not None
            and now >= replica.deadline
        ),
        key=lambda replica: replica.name,
    )
