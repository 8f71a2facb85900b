"""Decisions as rows: what was proposed, and whether it was ordered or why not."""

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.actions import Decision, Refusal
from specon_manager.views.names import job_label, printable, replica_label
from specon_manager.views.times import iso


class DecisionRow(Struct, frozen=True, kw_only=True):
    """A decision on a replica or on its job."""

    at: str | None
    about: str
    label: str
    """What it is called."""
    policy: str
    proposal: str
    ordered: bool
    refusal: str | None
    """A word for why it was refused."""
    reason: str


def decision_row(state: State, decision: Decision) -> DecisionRow:
    """Return a decision as a row."""
    about = decision.replica
    return DecisionRow(
        at=iso(decision.at),
        about=about,
        label=job_label(about) if about in state.jobs else replica_label(state, about),
        policy=decision.policy,
        proposal=decision.proposal,
        ordered=decision.refusal is None,
        refusal=None if decision.refusal is None else str(decision.refusal),
        reason=decision.reason,
    )


def decisions_on(state: State, about: set[str]) -> tuple[DecisionRow, ...]:
    """Return what was decided on these replicas and jobs, oldest first."""
    return tuple(decision_row(state, each) for each in state.decisions if each.replica in about)


def describe_decision(row: DecisionRow) -> str:
    """Return a decision on one line."""
    if row.refusal == str(Refusal.DRY_RUN):
        return printable(f"{row.policy} proposed {row.proposal}: dry run: {row.reason}")
    verdict = "ordered" if row.ordered else f"refused ({row.refusal})"
    return printable(f"{row.policy} proposed {row.proposal}: {verdict}: {row.reason}")
