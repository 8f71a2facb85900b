"""The words of every screen: what a replica is, and where a transaction stands, in plain English."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.hanging import hangs
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category

ASKED: Final = "Asked"
"""State of a request for a move that nobody has looked at yet."""
QUEUED: Final = "Queued"
"""State of a request for a move that waits for the transactions in flight."""

_S = TransactionState
_WORDS: Final[Mapping[str, str]] = {
    ASKED: "asked for",
    QUEUED: "queued",
    _S.PROPOSED: "holding room",
    _S.RESERVED: "asking to save",
    _S.CHECKPOINTING: "saving",
    _S.LEAVING: "stopping",
    _S.COMING: "starting",
    _S.VERIFYING: "proving",
    _S.SUCCEEDED: "succeeded",
    _S.ROLLED_BACK: "rolled back",
    _S.FAILED: "failed",
    _S.REFUSED: "refused",
}


def word_of_state(state: str) -> str:
    """Return the state of a transaction, or of a request, in plain English; another word as it is."""
    return _WORDS.get(state, state)


class Trouble(StrEnum):
    """What says more about a replica than its category."""

    HUNG = "hung"


ShownState = Category | Phase | Trouble


def word_for(state: State, replica: Replica) -> ShownState:
    """Return the word that says most about a replica: that it hangs, its category, or its phase."""
    if is_hung(state, replica):
        return Trouble.HUNG
    return replica.progress.category if replica.phase is Phase.RUNNING else replica.phase


def is_hung(state: State, replica: Replica) -> bool:
    """Whether a replica hangs, as everybody else sees it who asks."""
    known = replica.progress.hang is not None and replica.job in state.jobs
    return known and hangs(replica, state.snapshot(0.0))
