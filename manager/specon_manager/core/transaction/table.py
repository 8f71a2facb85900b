"""The state machine of transactions: one table for all kinds.

Only a verified checkpoint permits an end, the new incarnation is ordered only once the old one is gone, and
done means a step after the checkpoint's. Trouble before anything was told to end leaves everything as it was;
trouble after that turns the transaction back once; trouble on the way back ends it as Failed.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from specon_manager.model.settings import Deadlines
from specon_manager.model.transactions import Kind, TransactionState

HUNG_GRACE: Final = 2.0
"""How long what hangs may take to end by itself at most, seconds: it has nothing left to save."""


class Outcome(StrEnum):
    """What may become of the present state, read off the records of replicas."""

    HELD = "room is held"
    ASKED = "the sidecars know of the request"
    SAVED = "every checkpoint is verified"
    LEFT = "nothing is left of what had to go"
    CAME = "every wanted replica runs"
    PROVEN = "it is shown to train on"
    REFUSED = "it cannot be, and nothing was ended"
    LOST = "something that is wanted cannot come, or is gone"
    OVERDUE = "it took too long"
    STALE = "the checkpoints grew old before they were acted upon"
    ANEW = "it did not resume from its checkpoint"
    FINISHED = "the training finished"
    GIVEN_UP = "its owner wants something else by now"


_S, _O = TransactionState, Outcome

TRANSITIONS: Final[Mapping[tuple[TransactionState, Outcome], TransactionState]] = {
    (_S.PROPOSED, _O.HELD): _S.RESERVED,
    (_S.RESERVED, _O.ASKED): _S.CHECKPOINTING,
    # The word that a request was fetched may be lost; its answer says as much.
    (_S.RESERVED, _O.SAVED): _S.LEAVING,
    (_S.CHECKPOINTING, _O.SAVED): _S.LEAVING,
    (_S.CHECKPOINTING, _O.LEFT): _S.COMING,  # an order to end that was believed lost was carried out
    (_S.LEAVING, _O.LEFT): _S.COMING,
    (_S.COMING, _O.CAME): _S.VERIFYING,
    (_S.VERIFYING, _O.PROVEN): _S.SUCCEEDED,
    (_S.LEAVING, _O.STALE): _S.CHECKPOINTING,
    (_S.LEAVING, _O.OVERDUE): _S.LEAVING,
    # Nothing was ended: it stays as it is.
    **{(state, _O.REFUSED): _S.ROLLED_BACK for state in (_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING)},
    **{(state, _O.OVERDUE): _S.ROLLED_BACK for state in (_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING)},
    (_S.LEAVING, _O.REFUSED): _S.ROLLED_BACK,
    # The way back. A replica ordered and not seen may live: it must be gone before anything starts elsewhere.
    (_S.CHECKPOINTING, _O.LOST): _S.LEAVING,
    (_S.LEAVING, _O.LOST): _S.LEAVING,
    (_S.COMING, _O.LOST): _S.LEAVING,
    (_S.COMING, _O.OVERDUE): _S.LEAVING,
    (_S.VERIFYING, _O.LOST): _S.LEAVING,
    (_S.VERIFYING, _O.OVERDUE): _S.LEAVING,
    # To end it once more would lose what it has trained since, and prove nothing.
    (_S.VERIFYING, _O.ANEW): _S.FAILED,
    **{
        (state, _O.FINISHED): _S.SUCCEEDED if state is _S.VERIFYING else _S.ROLLED_BACK
        for state in (_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING, _S.LEAVING, _S.COMING, _S.VERIFYING)
    },
    **{
        (state, _O.GIVEN_UP): _S.ROLLED_BACK
        for state in (_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING, _S.LEAVING, _S.COMING, _S.VERIFYING)
    },
}
"""The next state by state and outcome, on the way there; a pair that is not here changes nothing."""

TURNS: Final = frozenset(
    {
        (_S.CHECKPOINTING, _O.LOST),
        (_S.LEAVING, _O.LOST),
        (_S.COMING, _O.LOST),
        (_S.COMING, _O.OVERDUE),
        (_S.VERIFYING, _O.LOST),
        (_S.VERIFYING, _O.OVERDUE),
    }
)
"""What turns a transaction back; what does so on the way back ends it as Failed."""

SKIPPED: Final[Mapping[Kind, frozenset[TransactionState]]] = {
    Kind.MOVE: frozenset(),
    Kind.SCALE_OUT: frozenset({_S.PROPOSED, _S.RESERVED}),
    Kind.SCALE_IN: frozenset({_S.PROPOSED, _S.RESERVED}),
    Kind.PREEMPT: frozenset({_S.PROPOSED, _S.RESERVED, _S.COMING, _S.VERIFYING}),
    Kind.RESTART: frozenset({_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING}),  # what hangs saves nothing
    Kind.PUT_BACK: frozenset({_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING, _S.COMING, _S.VERIFYING}),
    Kind.ADMIT: frozenset({_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING, _S.LEAVING, _S.VERIFYING}),
}
"""The states that a kind does not need on the way there; on the way back none is skipped."""

_FORWARD: Final = (_S.PROPOSED, _S.RESERVED, _S.CHECKPOINTING, _S.LEAVING, _S.COMING, _S.VERIFYING)
_THEN: Final[Mapping[TransactionState, TransactionState]] = {
    _S.PROPOSED: _S.RESERVED,
    _S.RESERVED: _S.CHECKPOINTING,
    _S.CHECKPOINTING: _S.LEAVING,
    _S.LEAVING: _S.COMING,
    _S.COMING: _S.VERIFYING,
    _S.VERIFYING: _S.SUCCEEDED,
}


def first_state(kind: Kind) -> TransactionState:
    """Return the state in which a transaction of this kind begins."""
    return next(state for state in _FORWARD if state not in SKIPPED[kind])


def following(
    kind: Kind, attempt: int, state: TransactionState, outcome: Outcome
) -> tuple[TransactionState, int] | None:
    """Return the next state and attempt, None where the outcome means nothing in this state."""
    target = TRANSITIONS.get((state, outcome))
    if target is None:
        return None
    if (state, outcome) in TURNS:
        return (_S.LEAVING, 2) if attempt == 1 else (_S.FAILED, attempt)
    while attempt == 1 and target in SKIPPED[kind]:
        target = _THEN[target]
    if target is _S.SUCCEEDED and attempt > 1:
        target = _S.ROLLED_BACK  # it trains again, but not as it was wanted
    return target, attempt


def patience(
    kind: Kind, state: TransactionState, deadlines: Deadlines, *, grace: float, alone: bool
) -> float:
    """Return how long a state may last, seconds; `alone`: whether one replica is all that it is about."""
    return {
        _S.PROPOSED: deadlines.hold,
        _S.RESERVED: deadlines.checkpoint,
        # A job that is preempted has its grace period to save; then what it saved before has to do.
        _S.CHECKPOINTING: grace if kind is Kind.PREEMPT else deadlines.checkpoint,
        _S.LEAVING: (min(grace, HUNG_GRACE) if kind is Kind.RESTART else grace) + deadlines.eviction_margin,
        _S.COMING: deadlines.start if alone else deadlines.ready,
        _S.VERIFYING: deadlines.verify,
    }.get(state, 0.0)
