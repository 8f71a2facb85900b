"""The latest decisions and transactions, as entries of one list."""

from typing import Final

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.actions import Decision
from specon_manager.model.transactions import Kind, Transaction
from specon_manager.views.decisions import proposal_text
from specon_manager.views.names import printable, replica_label
from specon_manager.views.transaction_words import killed_words
from specon_manager.views.transactions import row_of
from specon_sidecar.counts import format_count

MOST: Final = 6


class Entry(Struct, frozen=True, kw_only=True):
    """A decision, or a transaction that is in flight or has ended."""

    at: float
    label: str
    what: str
    why: str
    state: str = ""
    """Of a transaction."""
    ended: bool = False
    """Whether it is one that has ended."""
    refused: bool = False


def latest(state: State) -> list[Entry]:
    """Return the newest entries first, the refusals after all others; moves in flight are told elsewhere."""
    flying = [each for each in state.transactions.values() if each.kind is not Kind.MOVE or each.stuck]
    found = [_transaction(state, each) for each in (*state.history, *flying)]
    found += [_decision(state, decision) for decision in state.decisions]
    found.sort(key=lambda entry: (entry.refused, -entry.at))
    return found[:MOST]


def _transaction(state: State, transaction: Transaction) -> Entry:
    row, ended = row_of(transaction, state), transaction.ended_at
    facts = [] if transaction.downtime is None else [f"downtime {transaction.downtime:.1f} s"]
    facts += (
        [] if transaction.steps_lost is None else [f"{format_count(transaction.steps_lost, 'step')} lost"]
    )
    facts += [killed_words(row.killed)] if row.killed else []
    facts += [f"stuck: {row.stuck}"] if row.stuck else []
    facts += [row.note] if row.note else []
    facts += [row.reason] if ended is None and not facts else []
    return Entry(
        at=transaction.proposed_at if ended is None else ended,
        label=row.label,
        what=printable(f"{row.what} {row.state}"),
        why=printable(", ".join(facts)),
        state=row.state,
        ended=row.ended,
    )


def _decision(state: State, decision: Decision) -> Entry:
    refused = decision.refusal is not None
    return Entry(
        at=decision.at,
        label=replica_label(state, decision.replica),
        what=printable(proposal_text(decision.proposal)) + " refused" * refused,
        why=printable(decision.reason),
        refused=refused,
    )
