"""Rules for proposals about gangs, whichever policy makes them."""

import msgspec

from specon_manager.model.actions import AdmitGang, ScaleIn, ScaleOut


def broken_gang_rules(snapshot, proposals):
    """Return the proposals that start a part of a gang, or take what it cannot do without."""
    broken = []
    for proposal in proposals:
        spec = snapshot.jobs[proposal.job].spec
        if isinstance(proposal, AdmitGang):
            workers = len(proposal.placement) - len(spec.ps)
            good = (
                set(spec.ps) <= set(proposal.placement)
                and spec.fewest_workers <= workers <= spec.wanted_workers
            )
        elif isinstance(proposal, ScaleIn):
            left = len(snapshot.workers(proposal.job)) - len(proposal.replicas)
            kept = {*spec.ps, spec.worker_names[0]}
            good = not set(proposal.replicas) & kept and left >= spec.fewest_workers
        elif isinstance(proposal, ScaleOut):
            workers = len(snapshot.workers(proposal.job)) + len(proposal.placement)
            good = workers <= len(spec.worker_names)
        else:
            good = True
        if not good:
            broken.append(proposal)
    return broken


def turn_records(state):
    """Return the state with its records in the opposite order."""
    return msgspec.structs.replace(
        state,
        nodes=dict(reversed(state.nodes.items())),
        jobs=dict(reversed(state.jobs.items())),
        replicas=dict(reversed(state.replicas.items())),
    )
