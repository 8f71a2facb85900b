"""A dry run: the manager judges everything, orders nothing, and reports what it would order. Pure.

Changes in flight when a dry run begins continue to their end, as in a pause.
"""

from collections.abc import Mapping

import msgspec

from specon_manager.core.state import State
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Objection,
    Preempt,
    Proposal,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
    Stay,
)
from specon_manager.model.settings import Settings
from specon_sidecar.counts import format_count


def objection(proposal: Proposal, settings: Settings) -> Objection | None:
    """Return what would be ordered, for a proposal to which there is no objection; None: it is no dry run."""
    if not settings.dry_run:
        return None
    text = f"would be ordered: {describe_proposal(proposal)} ({proposal.reason})"
    return Objection(Refusal.DRY_RUN, text)


def withhold_defragmenting(state: State) -> State:
    """Return the state in which nothing is ordered where that holds for moves of its own accord alone."""
    if state.settings.defragment == "on":
        return state
    settings = msgspec.structs.replace(state.settings, dry_run=True)
    return msgspec.structs.replace(state, settings=settings)


def describe_proposal(proposal: Proposal) -> str:  # noqa: C901  (one case for each kind of proposal)
    """Return what a proposal does."""
    match proposal:
        case Admit():
            return f"start {proposal.replica} on {proposal.node}"
        case AdmitGang():
            return f"admit {proposal.job}: {_places(proposal.placement)}"
        case ScaleOut():
            return f"scale out {proposal.job}: {_places(proposal.placement)}"
        case ScaleIn():
            return f"scale in {proposal.job}: end {', '.join(sorted(proposal.replicas))}"
        case Preempt():
            gains = f" for {proposal.beneficiary}" if proposal.beneficiary else ""
            return f"preempt {proposal.job}{gains}"
        case Claim():
            if not proposal.placement:
                return f"give up the room that is kept for {proposal.job}"
            return f"keep room for {proposal.job}: {_places(proposal.placement)}"
        case Migrate():
            return f"move {proposal.replica} to {proposal.target}"
        case MigrateGang():
            return f"move all of {proposal.job}: {_places(proposal.placement)}"
        case Reweight():
            return f"give {proposal.replica} the weight {proposal.weight:g}"
        case Stay():
            return f"leave {proposal.replica} where it is"


def _places(placement: Mapping[str, str]) -> str:
    nodes: dict[str, int] = {}
    for node in placement.values():
        nodes[node] = nodes.get(node, 0) + 1
    parts = (f"{count} on {node}" for node, count in sorted(nodes.items()))
    return f"{format_count(len(placement), 'replica')}, {', '.join(parts)}"
