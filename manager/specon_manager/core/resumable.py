"""From which checkpoint a new incarnation of a replica may continue. Pure."""

from specon_manager.core.state import State
from specon_sidecar.wire import Checkpoint


def resumable(state: State, name: str) -> Checkpoint | None:
    """Return the checkpoint for the incarnation that runs; None for the first one, or where none is known.

    That which permits the transaction in flight, for from there its proof is counted; else the newest one.
    Whether it is still whole is the sidecar's to find out.
    """
    replica = state.replicas.get(name)
    if replica is None or replica.former is None:
        return None
    for each in state.transactions.values():
        if name in each.witnesses:
            return each.witnesses[name].checkpoint or replica.progress.checkpoint
        if name in each.concerned and each.witnesses and state.jobs[each.job].spec.coupled:
            return each.checkpoint
    return replica.progress.checkpoint
