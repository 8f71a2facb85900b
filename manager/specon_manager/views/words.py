"""The words of every screen: what a replica is, and where a transaction stands, in plain English."""

from collections.abc import Mapping
from typing import Final

from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category

ASKED: Final = "Asked"
"""State of a request for a move that nobody has looked at yet."""
QUEUED: Final = "Queued"
"""State of a request for a move that waits for what is in flight."""

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


def word_for(replica: Replica) -> Category | Phase:
    """Return the word that says most about a replica: its category while it runs, else its phase."""
    return replica.progress.category if replica.phase is Phase.RUNNING else replica.phase
