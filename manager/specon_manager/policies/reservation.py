"""Keeping room for a job that has waited too long, where it is expected to become free first.

As EASY backfilling does (Lifka, The ANL/IBM SP scheduling system, JSSPP 1995), for one job at a time: others
may go on filling everything else.
"""

from specon_manager.model.actions import Claim
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.filling import Gang
from specon_manager.policies.packing import place_tightly
from specon_manager.policies.preemption.rooms import NodeChoice, amounts_of, rooms_of


def reserve(
    gang: Gang,
    snapshot: Snapshot,
    expected: Expectation,
    choice: NodeChoice,
) -> Claim | None:
    """Return a claim to the room that the job will have first, if those that run end as expected.

    None: not even an empty cluster would do.
    """
    rooms = rooms_of(snapshot, choice)
    ending = sorted(snapshot.running, key=lambda other: (expected.remaining(other), other.order))
    for other in ending:
        for replica in snapshot.members[other.name]:
            node = rooms.index.get(replica.node or "") if replica.active else None
            if node is not None:
                rooms.vacate(node, amounts_of(replica.requests))
        placement = place_tightly(gang.servers, gang.workers, gang.least, rooms)
        if placement is None:
            continue
        nodes = rooms.nodes_of(placement)
        where = ", ".join(dict.fromkeys(nodes.values()))
        waited = snapshot.now - gang.job.queued_at
        why = f"it has waited for {waited:.0f} s; room is expected on {where} once {other.name} has ended"
        return Claim(job=gang.job.name, placement=nodes, reason=why)
    return None
