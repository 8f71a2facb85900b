"""Whether the room that a job has a claim to is about to become free."""

from collections.abc import Mapping

from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle


def find_freed_soon(snapshot: Snapshot, *, crashed: bool = False) -> dict[str, Resources]:
    """Return what those hold on nodes that were told to end, by node; `crashed`: what crashed too."""
    found = dict[str, Resources]()
    for place, replica in snapshot.leavers:
        if crashed or replica.active:
            found[place] = found.get(place, NOTHING) + replica.requests
    return found


def comes(
    job: str, placement: Mapping[str, str], snapshot: Snapshot, idle: Idle, leaving: Mapping[str, Resources]
) -> bool:
    """Whether the places, node by replica, are there when those who leave have left.

    What the job itself has a claim to does not stand in its way.
    """
    wanted = dict[str, Resources]()
    for name, node in placement.items():
        if node not in idle:
            return False
        wanted[node] = wanted.get(node, NOTHING) + snapshot.replicas[name].requests
    held = idle.release(job)
    kept = bool(held) and all(
        idle.will_hold(node, amounts, leaving.get(node, NOTHING)) for node, amounts in wanted.items()
    )
    for node, amounts in held.items():
        idle.reserve(job, node, amounts)
    return kept
