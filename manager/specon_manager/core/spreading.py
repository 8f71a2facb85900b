"""A policy does not spread a gang over nodes on which it was measured to train slower. Pure."""

from specon_manager.core.paces import setup_of
from specon_manager.core.state import State
from specon_manager.model.actions import DEFRAGMENT, Migrate, MigrateGang, Objection, Refusal
from specon_manager.model.paces import Setup, saving
from specon_manager.model.snapshot import Snapshot


def objection(move: Migrate | MigrateGang, snapshot: Snapshot, state: State) -> Objection | None:
    """Return that the gang is known to train faster as it is: it would be brought together again.

    Where that makes room for a job which waits, the start of that job was weighed already.
    """
    if isinstance(move, Migrate) or move.purpose == DEFRAGMENT or not state.gang_paces:
        return None
    job = snapshot.jobs[move.job]
    known = state.gang_paces.get(job.pace_kind)
    now = setup_of(job, snapshot.replicas)
    then = Setup(workers=now.workers, nodes=len({*move.placement.values()}))
    if known is None or then.nodes <= now.nodes:
        return None
    together, spread = known.of(now), known.of(then)
    if together is None or spread is None or saving(spread, together) <= 0:
        return None
    text = (
        f"on {then.nodes} nodes a step takes {spread.seconds:.3g} s, and {together.seconds:.3g} s on"
        f" {now.nodes} (measured {spread.samples} and {together.samples} times)"
    )
    return Objection(Refusal.NO_GAIN, text)
