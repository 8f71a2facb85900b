"""All proposals for a snapshot: by the policy, for weights, and for the job that starves. Pure."""

from specon_manager.core import starvation
from specon_manager.core.gang_assembly import gather_gangs
from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.cpu_lending import ease
from specon_manager.policies.table import policy_named, settings_of


def proposals(snapshot: Snapshot) -> list[Proposal]:
    """Return what the policy of the settings proposes, with whole gangs, and what the manager adds to it.

    Raises ValueError naming a policy or a parameter that is not known.
    """
    policy = policy_named(snapshot.settings.policy)
    proposed = policy.propose(snapshot, settings_of(policy, snapshot.settings.parameters))
    found = [*ease(snapshot), *gather_gangs(proposed, snapshot)]
    if (admission := starvation.admission(snapshot, found)) is not None:
        found.append(admission)
    return found
