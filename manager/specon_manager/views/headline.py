"""The figures on top of every screen: what has converged, what that holds, what moves gave back. Pure."""

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.views.holding import Held, holds
from specon_sidecar.classify import Category


class Headline(Struct, frozen=True, kw_only=True):
    """Amounts are cores and GPUs; sums are these times seconds."""

    running: int
    """Replicas that run now."""
    converged: int
    """Those that have converged."""
    cores: tuple[float, float]
    """What converged replicas hold now, and what all nodes have."""
    gpus: tuple[float, float]
    held: tuple[float, float]
    """Core-seconds and GPU-seconds that converged replicas held since the beginning."""
    freed: tuple[float, float]
    """Core-seconds and GPU-seconds that moves of converged replicas gave back on the nodes they left."""
    seconds: float
    """How long ago the beginning was."""
    saved: float | None = None
    """By how many seconds jobs reached 98 % of their gain earlier; None where nobody measured it.

    A manager sees one course of things only; `specon demo --compare` runs the same jobs without moves too.
    """


def headline(state: State, held: Held, seconds: float) -> Headline:
    """Return the figures of a state; `held` was summed up over the last `seconds`."""
    running = list(holds(state))
    converged = [each for each in running if each.replica.progress.category is Category.CONVERGED]
    nodes = state.nodes.values()
    return Headline(
        running=len(running),
        converged=len(converged),
        cores=(sum(each.cpu for each in converged), sum(each.capacity.cpu for each in nodes)),
        gpus=(sum(each.gpu for each in converged), sum(each.capacity.gpu for each in nodes)),
        held=(held.converged.cpu, held.converged.gpu),
        freed=(held.freed.cpu, held.freed.gpu),
        seconds=max(0.0, seconds),
    )
