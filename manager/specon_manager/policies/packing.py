"""Placing gangs tightly: on the node that they fill best, else on the fewest nodes, and growing in place."""

from collections.abc import Sequence

from specon_manager.model.cluster import Replica
from specon_manager.policies.preemption.rooms import NONE, Amounts, Rooms, amounts_of, plus, rest, within


def place_tightly(
    servers: Sequence[Replica], workers: Sequence[Replica], least: int, rooms: Rooms
) -> dict[str, int] | None:
    """Take room for all parameter servers and `least` of the workers; None, and nothing is taken: no room.

    Of the nodes that hold all of it the one is taken that it leaves least of. Else node after node is filled,
    the one that holds most of it first; a worker that has all its parameter servers on other nodes does
    little but wait for the network, so the first one must be beside them, unless not even the empty nodes
    have room for them so. Returns node by replica.
    """
    wanted = [*servers, *workers[:least]]
    if len(wanted) == 1:
        return rooms.place(wanted)
    whole = NONE
    for replica in wanted:
        whole = plus(whole, amounts_of(replica.requests))
    node = rooms.find(whole)
    placement = _over_nodes(wanted, rooms) if node is None else {replica.name: node for replica in wanted}
    if placement is None:
        return rooms.place(wanted) if servers and not _ever_together(wanted, rooms) else None
    for replica in wanted:
        rooms.occupy(placement[replica.name], amounts_of(replica.requests))
    return placement


def grow(workers: Sequence[Replica], placement: dict[str, int], rooms: Rooms, *, abroad: bool) -> None:
    """Take room for more of the workers and add them to the placement: where the gang is, then elsewhere."""
    own = list(dict.fromkeys(placement.values()))
    others = [node for node in range(len(rooms.nodes)) if node not in own] if abroad else []
    for worker in workers:
        if worker.name in placement:
            continue
        amounts = amounts_of(worker.requests)
        node = next((node for node in (*own, *others) if within(amounts, rooms.open(node))), None)
        if node is None:
            return
        rooms.occupy(node, amounts)
        placement[worker.name] = node


def _ever_together(replicas: Sequence[Replica], rooms: Rooms) -> bool:
    """Whether the replicas would have room, the first worker beside its servers, if nothing else ran."""
    empty = Rooms(rooms.nodes, [amounts_of(node.capacity) for node in rooms.nodes], rooms.choice)
    return _over_nodes(replicas, empty) is not None


def _over_nodes(replicas: Sequence[Replica], rooms: Rooms) -> dict[str, int] | None:
    """Fill the nodes that hold most of the replicas first."""
    left, placement = list(replicas), dict[str, int]()
    core = sum(replica.role == "ps" for replica in replicas) + 1
    free = [rooms.open(node) for node in range(len(rooms.nodes))]
    while left:
        node, held = max(
            ((node, _held(left, room)) for node, room in enumerate(free) if node not in placement.values()),
            key=lambda found: (found[1], -found[0]),
            default=(-1, 0),
        )
        if not held or (not placement and held < core):
            return None
        for replica in left[:held]:
            placement[replica.name] = node
            free[node] = rest(free[node], amounts_of(replica.requests))
        del left[:held]
    return placement


def _held(replicas: Sequence[Replica], room: Amounts) -> int:
    """Return how many of the replicas, in their order, the room holds together."""
    used, number = NONE, 0
    for replica in replicas:
        used = plus(used, amounts_of(replica.requests))
        if not within(used, room):
            break
        number += 1
    return number
