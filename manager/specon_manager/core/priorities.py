"""Priorities: nobody is ended for a job that its owner ranks below. Pure."""

from specon_manager.model.actions import Objection, Preempt, Refusal
from specon_manager.model.snapshot import Snapshot


def objection(proposal: Preempt, snapshot: Snapshot) -> Objection | None:
    """Return why a job is not preempted for another, None where nothing of their priorities is against it.

    A preemption that names nobody who gains from it, or someone unknown, is not a matter of priorities.
    """
    victim, gains = snapshot.jobs.get(proposal.job), snapshot.jobs.get(proposal.beneficiary)
    if victim is None or gains is None or victim.spec.priority <= gains.spec.priority:
        return None
    text = f"its priority, {victim.spec.priority}, is above that of {gains.name}, {gains.spec.priority}"
    return Objection(Refusal.PRIORITY, text)
