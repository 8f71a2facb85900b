"""Placing gangs tightly: on the node that they fill best, else on the fewest nodes, and growing in place."""

from collections.abc import Sequence
from itertools import chain

from specon_manager.model.cluster import Replica
from specon_manager.model.resources import NOTHING, Resources, least_of, size, total
from specon_manager.policies.idle import Idle


def place_tightly(
    servers: Sequence[Replica], workers: Sequence[Replica], least: int, idle: Idle
) -> dict[str, str] | None:
    """Take room for all parameter servers and `least` of the workers; None, and nothing is taken: no room.

    Of workers that ask for different amounts, the largest are placed first.

    Of the nodes that hold all of it the one is taken that it leaves least of. Else node after node is filled,
    the one that holds most of it first; a worker that has all its parameter servers on other nodes does
    little but wait for the network, so the first one must be beside them, unless not even the empty nodes
    have room for them so. Returns node by replica.
    """
    wanted = [*servers, *sorted(workers[:least], key=lambda one: size(one.requests), reverse=True)]
    if len(wanted) == 1:
        return idle.place(wanted)
    whole = NOTHING
    for replica in wanted:
        whole += replica.requests
    node = idle.find(whole)
    placement = _over_nodes(wanted, idle) if node is None else {replica.name: node for replica in wanted}
    if placement is None:
        return idle.place(wanted) if servers and not _ever_together(wanted, idle) else None
    for replica in wanted:
        idle.take(placement[replica.name], replica.requests)
    return placement


def roomiest(
    servers: Sequence[Replica], workers: Sequence[Replica], least: int, idle: Idle
) -> tuple[str, int] | None:
    """Return the node that holds all servers and most of the workers, at least `least`, and how many.

    Of nodes that hold all of them it is the one that they leave least of. None: no node holds so many.
    """
    for number in range(len(workers), max(1, least) - 1, -1):
        whole = total([replica.requests for replica in (*servers, *workers[:number])])
        if (node := idle.find(whole)) is not None:
            return node, number
    return None


def place_on(node: str, replicas: Sequence[Replica], idle: Idle) -> dict[str, str]:
    """Take room for all of these on one node that has it; returns node by replica."""
    for replica in replicas:
        idle.take(node, replica.requests)
    return {replica.name: node for replica in replicas}


def grow(workers: Sequence[Replica], placement: dict[str, str], idle: Idle, *, abroad: bool) -> None:
    """Take room for more of the workers and add them to the placement: where the gang is, then elsewhere."""
    own = list(dict.fromkeys(placement.values()))
    for worker in workers:
        if worker.name in placement:
            continue
        amounts = worker.requests
        others = (node for node in idle.roomy(amounts) if node not in own) if abroad else ()
        node = next((node for node in chain(own, others) if amounts.fits(idle.open(node))), None)
        if node is None:
            return
        idle.take(node, amounts)
        placement[worker.name] = node


def _ever_together(replicas: Sequence[Replica], idle: Idle) -> bool:
    """Whether the replicas would have room, the first worker beside its servers, if nothing else ran."""
    return _over_nodes(replicas, idle.emptied()) is not None


def _over_nodes(replicas: Sequence[Replica], idle: Idle) -> dict[str, str] | None:
    """Fill the nodes that hold most of the replicas first."""
    left, placement = list(replicas), dict[str, str]()
    core = sum(replica.role == "ps" for replica in replicas) + 1
    if not left:
        return placement
    # What has no room for the least that one of them asks for holds none of them.
    free = {node: idle.open(node) for node in idle.roomy(least_of(replica.requests for replica in left))}
    while left:
        node, held = max(
            (
                (node, _count_held(left, room))
                for node, room in free.items()
                if node not in placement.values()
            ),
            key=lambda found: found[1],  # of equals the first
            default=("", 0),
        )
        if not held or (not placement and held < core):
            return None
        for replica in left[:held]:
            placement[replica.name] = node
            free[node] -= replica.requests
        del left[:held]
    return placement


def _count_held(replicas: Sequence[Replica], room: Resources) -> int:
    """Return how many of the replicas, in their order, the room holds together."""
    used, number = NOTHING, 0
    for replica in replicas:
        used += replica.requests
        if not used.fits(room):
            break
        number += 1
    return number
