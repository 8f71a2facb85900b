"""FIFO: one queue for trials and best-effort jobs, no preemption. The baseline of FitGpp's experiments."""

from collections.abc import Iterator

from msgspec import Struct

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle, NodeChoice
from specon_manager.policies.preemption.admission import admit_in_order, restart
from specon_manager.policies.preemption.queues import Queues


class FifoSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a node is chosen."""

    node_choice: NodeChoice = "first-fit"
    """Of the nodes that have room: the first by name, or the one that the replica leaves least free."""


def propose(snapshot: Snapshot, settings: FifoSettings) -> Iterator[Proposal]:
    """Start jobs in the order of their submission until one does not fit."""
    idle = Idle(snapshot, choice=settings.node_choice)
    if not idle.nodes:
        return
    queues = Queues(snapshot)
    yield from restart(snapshot, queues, idle)
    yield from admit_in_order(queues.together(), idle, snapshot)
