"""Decisions as rows: the proposal, and whether it was ordered or why not."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.actions import Decision, Refusal
from specon_manager.views.names import job_label, printable, replica_label
from specon_manager.views.times import iso

_PROPOSALS: Final[Mapping[str, tuple[str, str]]] = {
    "Admit": ("start", "on"),
    "AdmitGang": ("start", "on"),
    "Migrate": ("move", "to"),
    "MigrateGang": ("move of the whole job", "to"),
    "Stay": ("stay", "on"),
    "ScaleOut": ("more workers", "on"),
    "ScaleIn": ("fewer workers", "on"),
    "Preempt": ("preemption", "on"),
    "Claim": ("room kept for it", "on"),
    "Reweight": ("change of turns", "on"),
}
"""Of each kind of proposal its name in plain English, and the word before its node."""


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
    """Return the decisions on these replicas and jobs, oldest first."""
    return tuple(decision_row(state, each) for each in state.decisions if each.replica in about)


def proposal_text(proposal: str) -> str:
    """Return a proposal as it is on record, such as `Migrate node-1`, in plain English."""
    kind, _, node = proposal.partition(" ")
    words, before = _PROPOSALS.get(kind, (kind, ""))
    return " ".join(part for part in (words, before if node else "", node) if part)


def describe_decision(row: DecisionRow) -> str:
    """Return a decision on one line."""
    proposal = proposal_text(row.proposal)
    if row.refusal == str(Refusal.DRY_RUN):
        return printable(f"{row.policy} proposed {proposal}: dry run: {row.reason}")
    verdict = "ordered" if row.ordered else f"refused ({row.refusal})"
    return printable(f"{row.policy} proposed {proposal}: {verdict}: {row.reason}")
