"""The state machine of a move: one table, and what each new state orders.

Design: a move is a transaction. Only a verified checkpoint permits the eviction, the new incarnation is
ordered only once the old one is gone, and done means a step after the checkpoint's.
"""

from typing import Final

import msgspec

from specon_manager.model.actions import (
    Action,
    EvictReplica,
    HoldRoom,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.moves import ASKING_STATES, FINAL_STATES, Move, MoveOutcome, MoveState
from specon_manager.model.settings import Deadlines
from specon_sidecar.wire import Checkpoint

_S, _O = MoveState, MoveOutcome

TRANSITIONS: Final[dict[tuple[MoveState, MoveOutcome], MoveState]] = {
    (_S.PROPOSED, _O.ROOM_HELD): _S.RESERVED,
    (_S.PROPOSED, _O.ROOM_REFUSED): _S.ROLLED_BACK,
    (_S.PROPOSED, _O.GONE): _S.ROLLED_BACK,
    (_S.PROPOSED, _O.FINISHED): _S.ROLLED_BACK,
    (_S.PROPOSED, _O.OVERDUE): _S.ROLLED_BACK,
    (_S.RESERVED, _O.CHECKPOINT_ASKED): _S.CHECKPOINTING,
    # The word that the request was fetched may be lost; its answer says as much.
    (_S.RESERVED, _O.CHECKPOINT_VERIFIED): _S.EVICTING,
    (_S.RESERVED, _O.CHECKPOINT_REFUSED): _S.ROLLED_BACK,
    (_S.RESERVED, _O.GONE): _S.ROLLED_BACK,
    (_S.RESERVED, _O.FINISHED): _S.ROLLED_BACK,
    (_S.RESERVED, _O.OVERDUE): _S.ROLLED_BACK,
    (_S.CHECKPOINTING, _O.CHECKPOINT_VERIFIED): _S.EVICTING,
    (_S.CHECKPOINTING, _O.CHECKPOINT_REFUSED): _S.ROLLED_BACK,
    (_S.CHECKPOINTING, _O.GONE): _S.ROLLED_BACK,
    (_S.CHECKPOINTING, _O.FINISHED): _S.ROLLED_BACK,
    (_S.CHECKPOINTING, _O.OVERDUE): _S.ROLLED_BACK,
    (_S.EVICTING, _O.GONE): _S.RESTORING,
    (_S.EVICTING, _O.FINISHED): _S.ROLLED_BACK,
    (_S.EVICTING, _O.EVICTION_REFUSED): _S.ROLLED_BACK,  # on the first attempt: it trains where it was
    (_S.EVICTING, _O.OVERDUE): _S.EVICTING,
    (_S.RESTORING, _O.STARTED): _S.VERIFYING,
    (_S.RESTORING, _O.START_REFUSED): _S.RESTORING,
    # Perhaps it did start and nobody said so: make sure that nothing lives before starting elsewhere.
    (_S.RESTORING, _O.OVERDUE): _S.EVICTING,
    (_S.VERIFYING, _O.PROGRESSED): _S.SUCCEEDED,
    (_S.VERIFYING, _O.FINISHED): _S.SUCCEEDED,
    (_S.VERIFYING, _O.GONE): _S.RESTORING,
    (_S.VERIFYING, _O.OVERDUE): _S.EVICTING,
    # Nothing was ended yet: it stays where it is.
    (_S.PROPOSED, _O.TARGET_LOST): _S.ROLLED_BACK,
    (_S.RESERVED, _O.TARGET_LOST): _S.ROLLED_BACK,
    (_S.CHECKPOINTING, _O.TARGET_LOST): _S.ROLLED_BACK,
    **{(state, _O.JOB_GONE): _S.ROLLED_BACK for state in MoveState if state not in FINAL_STATES},
}
"""The move's next state by state and outcome; a pair that is not here leaves the move as it is."""

_FAILED_RESTORE: Final = frozenset(
    {
        (_S.RESTORING, _O.START_REFUSED),
        (_S.RESTORING, _O.OVERDUE),
        (_S.VERIFYING, _O.GONE),
        (_S.VERIFYING, _O.OVERDUE),
    }
)
"""What uses up an attempt: the first is on the target, the second back on the source."""
_ATTEMPTS: Final = 2


def advance(
    move: Move, outcome: MoveOutcome, now: float, deadlines: Deadlines, *, grace: float, note: str = ""
) -> Move | None:
    """Return the move after `outcome`, or None where the outcome means nothing in its state.

    `grace` is the grace period of the replica in seconds, `note` the detail that is kept with a final state.
    """
    following = TRANSITIONS.get((move.state, outcome))
    if following is None:
        return None
    attempt, kept = move.attempt, ""
    failed = (move.state, outcome) in _FAILED_RESTORE
    if failed:
        attempt += 1
        if attempt > _ATTEMPTS:
            following = _S.FAILED
    elif following is _S.SUCCEEDED and (move.attempt > 1 or move.target == move.source):
        # It trains again, but not where the move wanted it.
        following = _S.ROLLED_BACK
        note = note or move.note or f"restored on {move.source}"
    elif following is _S.SUCCEEDED:
        kept = move.note
    patience = {
        _S.RESERVED: deadlines.checkpoint,
        _S.CHECKPOINTING: max(0.0, move.deadline - now),  # counted from the request
        _S.EVICTING: grace + deadlines.eviction_margin,
        _S.RESTORING: deadlines.start,
        _S.VERIFYING: deadlines.verify,
    }.get(following, 0.0)
    return msgspec.structs.replace(
        move,
        state=following,
        attempt=min(attempt, _ATTEMPTS),
        deadline=now + patience,
        ended_at=now if following in FINAL_STATES else None,
        evicted_at=now if following is _S.EVICTING and move.evicted_at is None else move.evicted_at,
        gone_at=now if following is _S.RESTORING and move.gone_at is None else move.gone_at,
        restarted_at=now if following is _S.VERIFYING else move.restarted_at,
        note=(note or str(outcome)) if failed or following in {_S.ROLLED_BACK, _S.FAILED} else kept,
    )


def orders(move: Move, replica: Replica, job: Job) -> list[Action]:
    """Return what the present state of the move orders.

    Every order may be carried out twice: after a crash of the manager this function is asked again.
    """
    if move.state is _S.PROPOSED:
        why = f"move {move.id}: {move.reason}"
        return [
            HoldRoom(
                move=move.id, replica=move.replica, node=move.target, requests=replica.requests, reason=why
            )
        ]
    if move.state in ASKING_STATES and move.incarnation is not None:
        return [
            RequestCheckpoint(
                id=move.id,
                replica=move.replica,
                incarnation=move.incarnation,
                deadline=move.deadline,
                reason=f"move {move.id} to {move.target} needs a checkpoint",
            )
        ]
    if move.state is _S.EVICTING:
        why = f"move {move.id}: " + (
            f"checkpoint of step {move.checkpoint.step} is verified"
            if move.attempt == 1 and move.checkpoint is not None
            else move.note
        )
        return [
            EvictReplica(
                replica=move.replica,
                incarnation=move.incarnation,
                grace_seconds=job.spec.grace_seconds,
                reason=why,
            )
        ]
    if move.state is _S.RESTORING:
        return [
            StartReplica(
                replica=move.replica,
                start=replica.starts,
                node=move.destination,
                template=job.spec.template,
                reason=f"move {move.id}: restore on {move.destination}, attempt {move.attempt}",
            )
        ]
    return []


def closing_orders(before: Move, after: Move) -> list[Action]:
    """Return what is given back when a move leaves its target for good: the request and the room."""
    closing: list[Action] = []
    if before.state in ASKING_STATES and after.state not in ASKING_STATES:
        closing.append(
            WithdrawRequest(id=after.id, replica=after.replica, reason=f"move {after.id}: {after.state}")
        )
    gives_up_target = before.attempt == 1 and after.attempt > 1
    if gives_up_target or (not after.in_flight and before.attempt == 1):
        why = f"move {after.id}: {after.state}" + (f", {after.note}" if after.note else "")
        closing.append(ReleaseRoom(move=after.id, replica=after.replica, node=after.target, reason=why))
    return closing


def may_evict(move: Move, checkpoint: Checkpoint | None) -> bool:
    """Whether the checkpoint permits the eviction: verified, and not older than the move's own knowledge."""
    if checkpoint is None or not checkpoint.verified:
        return False
    return move.checkpoint is None or checkpoint.step >= move.checkpoint.step
