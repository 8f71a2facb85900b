"""States and kinds as users see them: by the names of the first schemas, whatever they are inside. Pure.

Helm does not upgrade custom resource definitions, so a server may know the schemas of version 0.1 for ever.
What those refuse is told by other words, and read back from these.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from specon_manager.model.transactions import Kind, TransactionState

REFUSED: Final = "refused: "
"""With this the message of a Migration begins whose state the server's schema does not know."""


class MoveState(StrEnum):
    """`Migration.status.state`."""

    PROPOSED = "Proposed"
    RESERVED = "Reserved"
    CHECKPOINTING = "Checkpointing"
    EVICTING = "Evicting"
    RESTORING = "Restoring"
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"
    REFUSED = "Refused"


class ChangeKind(StrEnum):
    """`TrainingJob.status.change.kind`."""

    ADMIT = "admit"
    SCALE_OUT = "scale-out"
    SCALE_IN = "scale-in"
    PREEMPT = "preempt"
    MOVE = "move"


class ChangeState(StrEnum):
    """`TrainingJob.status.change.state`, and that of the change that ended last."""

    CHECKPOINTING = "Checkpointing"
    LEAVING = "Leaving"
    COMING = "Coming"
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


_MOVE_STATES: Final[Mapping[TransactionState, MoveState]] = {
    TransactionState.LEAVING: MoveState.EVICTING,
    TransactionState.COMING: MoveState.RESTORING,
    **{
        state: MoveState(state.value)
        for state in TransactionState
        if state not in {TransactionState.LEAVING, TransactionState.COMING}
    },
}
_OF_MOVES: Final = {told: state for state, told in _MOVE_STATES.items()}


def move_state(state: TransactionState) -> MoveState:
    """Return how a Migration says that its move is in that state."""
    return _MOVE_STATES[state]


def state_of_move(told: MoveState) -> TransactionState:
    """Return the state that a Migration tells of."""
    return _OF_MOVES[told]


def change_kind(kind: Kind) -> ChangeKind:
    """Return how a TrainingJob calls that kind.

    A gang that is put back is preempted, by nobody; one that is restarted is moved to where it is.
    """
    known = {Kind.PUT_BACK: ChangeKind.PREEMPT, Kind.RESTART: ChangeKind.MOVE}
    return known.get(kind) or ChangeKind(kind.value)


def to_first_kind(kind: Kind) -> ChangeKind:
    """Return the same in the words of version 0.1, which knows no move of a gang."""
    return ChangeKind.PREEMPT if change_kind(kind) is ChangeKind.MOVE else change_kind(kind)


def change_state(state: TransactionState) -> ChangeState:
    """Return how a TrainingJob says that something is in that state."""
    early = {TransactionState.PROPOSED, TransactionState.RESERVED}
    if state in early:
        return ChangeState.CHECKPOINTING
    return ChangeState.ROLLED_BACK if state is TransactionState.REFUSED else ChangeState(state.value)
