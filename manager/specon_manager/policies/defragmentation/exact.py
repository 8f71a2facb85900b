"""The cheapest moves on a small cluster: every arrangement in the order of its price, until one will do.

An arrangement is where all that may be moved runs. One follows from another by one move that finds room while
the old room is still held; each unit moves once at most. So an arrangement has one price, in whatever order
it was reached, and the first in which the waiting job fits is the cheapest that there is.
"""

import heapq
from itertools import product
from typing import Final

from specon_manager.policies.defragmentation.fitting import fit_job
from specon_manager.policies.defragmentation.picture import FreeAmounts, Move, Picture, Unit, rooms_after

MOST_ARRANGEMENTS: Final = 4096
"""Nodes to the power of the replicas that may be moved: to so many arrangements the search is exact."""

_Targets = tuple[tuple[int, ...], ...]
"""The nodes of each unit's replicas."""


def is_small(picture: Picture) -> bool:
    """Whether the cheapest moves can be found for certain."""
    replicas, arrangements = sum(len(unit.replicas) for unit in picture.units), 1
    for _ in range(replicas):
        arrangements *= len(picture.nodes)
        if arrangements > MOST_ARRANGEMENTS:
            return False
    return True


def cheapest(picture: Picture) -> list[Move] | None:
    """Return the cheapest moves in an order in which each finds room; None: there are none.

    At equal cost the plan with the fewest moves is taken, then the one that changes the fewest nodes.
    """
    ways = [_ways(unit, len(picture.nodes)) for unit in picture.units]
    begin: _Targets = tuple(unit.homes for unit in picture.units)
    heap: list[tuple[float, int, int, _Targets, FreeAmounts, tuple[Move, ...]]] = [
        (0.0, 0, 0, begin, picture.rooms, ())
    ]
    seen = {begin}
    while heap:
        price, count, changed, where, rooms, moves = heapq.heappop(heap)
        if fit_job(picture.waiting, rooms) is not None:
            return list(moves)
        for number, unit in enumerate(picture.units):
            if where[number] != unit.homes:
                continue
            for way in ways[number]:
                there = (*where[:number], way.targets, *where[number + 1 :])
                if there in seen or (later := rooms_after(rooms, way)) is None:
                    continue
                seen.add(there)
                moved = (price + unit.price, count + 1, changed + way.changed, there, later, (*moves, way))
                heapq.heappush(heap, moved)
    return None


def _ways(unit: Unit, nodes: int) -> list[Move]:
    """Return every other way to place a unit; ways that only swap equal replicas count as one."""
    open_nodes = [node for node in range(nodes) if unit.may_go_to(node)]
    best: dict[tuple[tuple[object, int], ...], Move] = {}
    choices = [sorted({home, *open_nodes}) for home in unit.homes]
    for targets in product(*choices):
        if targets == unit.homes:
            continue
        move = Move(unit=unit, targets=targets)
        alike = tuple(sorted(zip(unit.amounts, targets, strict=True)))
        if alike not in best or move.changed < best[alike].changed:
            best[alike] = move
    here = tuple(sorted(zip(unit.amounts, unit.homes, strict=True)))
    return [move for alike, move in best.items() if alike != here]
