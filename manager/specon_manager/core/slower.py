"""A policy does not move a gang to where it was measured to train slower. Pure."""

from specon_manager.core.paces import setup_of
from specon_manager.core.state import State
from specon_manager.model.actions import DEFRAGMENT, Migrate, MigrateGang, Objection, Refusal
from specon_manager.model.paces import saving
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.counts import format_count


def objection(move: Migrate | MigrateGang, snapshot: Snapshot, state: State) -> Objection | None:
    """Return that the gang is known to train faster as it is: it would be moved back again.

    Where that makes room for a job which waits, the start of that job was weighed already.
    """
    if isinstance(move, Migrate) or move.purpose == DEFRAGMENT or not state.setup_paces:
        return None
    job = snapshot.jobs[move.job]
    known = state.setup_paces.get(job.pace_kind)
    now = setup_of(job, snapshot.replicas, snapshot.nodes)
    then = setup_of(job, snapshot.replicas, snapshot.nodes, move.placement)
    if known is None or not now.may_beat(then):
        return None
    quick, slow = known.of(now), known.of(then)
    if quick is None or slow is None or saving(slow, quick) <= 0:
        return None
    text = (
        f"on {then} a step takes {slow.seconds:.3g} s, and {quick.seconds:.3g} s on {now}"
        f" (measured {slow.samples} and {format_count(quick.samples, 'time')})"
    )
    return Objection(Refusal.NO_GAIN, text)
