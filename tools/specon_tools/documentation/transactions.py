"""The table of a transaction's states, as `core/transaction/table.py` has it."""

from collections.abc import Iterator

from specon_manager.core.transaction.table import SKIPPED, TRANSITIONS, Outcome, following
from specon_manager.model.transactions import FINAL_STATES, UNTOUCHED_STATES, Kind, TransactionState


def table() -> str:
    """Return what follows each state, and which kinds of transactions skip it, as Markdown."""
    lines = ["| state | result | then | on the way back | skipped by |", "|---|---|---|---|---|"]
    for state in TransactionState:
        if state in FINAL_STATES:
            continue
        skipped = ", ".join(kind for kind in Kind if state in SKIPPED[kind])
        for number, (outcome, there, back) in enumerate(_rows(state)):
            first = f"*{state}*" if number == 0 else ""
            lines.append(f"| {first} | {outcome} | {there} | {back} | {skipped if number == 0 else ''} |")
    return "\n".join(lines) + "\n"


def _rows(state: TransactionState) -> Iterator[tuple[Outcome, str, str]]:
    for outcome in Outcome:
        if (state, outcome) not in TRANSITIONS:
            continue
        back = "" if state in UNTOUCHED_STATES else _next(2, state, outcome)
        yield outcome, _next(1, state, outcome), back


def _next(attempt: int, state: TransactionState, outcome: Outcome) -> str:
    """Return the next state of a move, which skips none; what turns back says so."""
    found = following(Kind.MOVE, attempt, state, outcome)
    if found is None:
        return ""
    target, then = found
    return f"{target}, way back" if then > attempt else str(target)
