"""What is true of the manager's state after every event, and of whatever it orders."""

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from specon_manager.core.migration import TRANSITIONS
from specon_manager.core.state import State
from specon_manager.model.actions import Action, EvictReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.moves import FINAL_STATES, MoveState


def check(before: State, after: State, actions: Sequence[Action], *, crowded: Collection[str]) -> None:
    """Check one step; `crowded` are the nodes on which something runs that was ordered elsewhere."""
    for action in actions:
        if isinstance(action, EvictReplica):
            _check_eviction(after, action)
    _check_moves(before, after)
    _check_replicas(after)
    _check_capacity(after, crowded)
    _check_budgets(after)
    flat = after.flattened()
    assert msgspec.json.decode(msgspec.json.encode(flat), type=State) == flat


def _check_eviction(state: State, action: EvictReplica) -> None:
    """Evict what is wanted for a move only, and then only with a verified checkpoint."""
    replica = state.replicas[action.replica]
    if replica.incarnation is None or action.incarnation not in {None, replica.incarnation}:
        return
    move = state.moves.get(action.replica)
    assert move is not None, f"{action} without a move"
    assert move.state is MoveState.EVICTING, f"{action} while {move.id} is {move.state}"
    spec = state.jobs[replica.job].spec
    if move.attempt == 1 and spec.checkpointing != "on-termination":
        assert move.checkpoint is not None, f"{move.id} evicts without a checkpoint"
        assert move.checkpoint.verified, f"{move.id} evicts without a verified checkpoint"


def _check_moves(before: State, after: State) -> None:
    """See that moves go along the table, do not vanish, and succeed only with the proof."""
    ended = {move.id: move for move in after.history}
    for replica, move in before.moves.items():
        now = after.moves.get(replica)
        now = now if now is not None and now.id == move.id else ended.get(move.id)
        assert now is not None, f"{move.id} vanished"
        if now.state is not move.state:
            allowed = {to for (origin, _), to in TRANSITIONS.items() if origin is move.state}
            allowed |= {MoveState.ROLLED_BACK, MoveState.FAILED} if move.attempt > 1 else set()
            assert now.state in allowed, f"{move.id}: {move.state} -> {now.state}"
        if now.state is MoveState.SUCCEEDED:
            record = after.replicas[replica]
            assert now.checkpoint is not None
            proven = record.progress.step is not None and record.progress.step > now.checkpoint.step
            assert record.phase is Phase.SUCCEEDED or proven
    identities = [move.id for move in (*after.moves.values(), *after.history)]
    assert len(identities) == len(set(identities))
    assert all(move.replica == replica for replica, move in after.moves.items())
    assert not any(move.state in FINAL_STATES for move in after.moves.values())
    assert all(move.state in FINAL_STATES for move in after.history)


def _check_replicas(state: State) -> None:
    for replica in state.replicas.values():
        moving = replica.name in state.moves
        assert not (moving and not replica.active), f"{replica.name} moves while {replica.phase}"
        assert (replica.incarnation is not None) == (replica.phase is Phase.RUNNING), replica
        assert not replica.active or replica.node in state.nodes
        assert replica.ended == (replica.ended_at is not None)
    for job in state.jobs.values():
        over = all(state.replicas[name].ended for name in job.spec.replicas)
        assert over == (job.ended_at is not None)


def _check_capacity(state: State, crowded: Collection[str]) -> None:
    """Every replica fits where it is, where its move will bring it, and where it must go back to."""
    for node in state.nodes.values():
        if node.name in crowded:
            continue
        here = []
        for replica in state.replicas.values():
            places = {replica.node} if replica.active else set()
            move = state.moves.get(replica.name)
            if move is not None:
                places |= {move.destination, move.source}
            if node.name in places:
                here.append(replica)
        for what in ("cpu", "memory", "gpu"):
            total = sum(getattr(replica.requests, what) for replica in here)
            assert total <= getattr(node.capacity, what) + 1e-9, f"{node.name} holds {total} {what}"


def _check_budgets(state: State) -> None:
    budgets = state.settings.budgets
    assert len(state.moves) <= budgets.moves_at_once
    busy = Counter(node for move in state.moves.values() for node in {move.source, move.target})
    assert all(count <= budgets.moves_at_once_per_node for count in busy.values()), busy
    assert all(replica.moves <= budgets.moves_per_replica for replica in state.replicas.values())
