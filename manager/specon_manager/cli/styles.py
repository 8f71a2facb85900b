"""The colour of a word wherever it appears in a terminal."""

from collections.abc import Mapping
from typing import Final

from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from specon_manager.views.words import ASKED, QUEUED, Trouble
from specon_sidecar.classify import Category

STYLES: Final[Mapping[str, str]] = {
    Category.PROGRESSING: "green",
    Category.WATCHING: "yellow",
    Category.CONVERGED: "cyan",
    Trouble.HUNG: "bold red",
    Category.STALLED: "red",
    Category.DIVERGING: "red",
    Category.UNKNOWN: "dim",
    Category.NOT_CLASSIFIABLE: "dim",
    Phase.PENDING: "dim italic",
    Phase.AWAITED: "dim italic",
    Phase.STARTING: "italic",
    Phase.RUNNING: "default",
    Phase.SUCCEEDED: "bold green",
    Phase.FAILED: "bold red",
}
"""Of what a replica is: its category, or its phase."""

_OF_STATES: Final[Mapping[str, str]] = {
    ASKED: "dim",
    QUEUED: "dim",
    TransactionState.SUCCEEDED: "green",
    TransactionState.ROLLED_BACK: "yellow",
    TransactionState.FAILED: "red",
    TransactionState.REFUSED: "yellow",
}


def style_of_state(state: str, *, stuck: bool = False) -> str:
    """Return the colour of the state of a transaction; one in flight stands out."""
    return "bold red" if stuck else _OF_STATES.get(state, "bold magenta")
