"""From a picture of the cluster to a plan: which moves, in which rounds, and where the waiting job goes."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from specon_manager.policies.defragmentation import exact, greedy
from specon_manager.policies.defragmentation.fitting import fit_job
from specon_manager.policies.defragmentation.picture import Move, Picture, holds, minus, plus, rooms_after


class Plan(Struct, frozen=True, kw_only=True):
    """Moves after which the waiting job fits."""

    moves: tuple[Move, ...]
    """In an order in which each finds room; none: it fits already."""
    placement: Mapping[str, str]
    """The node of each of its replicas afterwards."""
    exact: bool
    """Whether nothing cheaper does it; else they are the heuristic's."""

    @property
    def price(self) -> float:
        """Return what all moves cost, weighted replica-seconds."""
        return sum(move.unit.price for move in self.moves)


def find_plan(picture: Picture) -> Plan | None:
    """Return the cheapest plan that is found; None: there is none, or the heuristic finds none."""
    small = True
    if fit_job(picture.waiting, picture.rooms) is not None:
        moves: list[Move] | None = []
    elif _hopeless(picture):
        moves = None
    else:
        small = exact.is_small(picture)
        moves = exact.cheapest(picture) if small else greedy.cheap(picture)
    if moves is None:
        return None
    rooms = rooms_after(picture.rooms, *moves)
    assert rooms is not None, "the moves are in an order in which each finds room"
    placed = fit_job(picture.waiting, rooms)
    assert placed is not None, "the waiting job fits after the moves"
    placement = {name: picture.nodes[node] for name, node in placed.items()}
    return Plan(moves=tuple(moves), placement=placement, exact=small)


def first_round(
    picture: Picture, moves: Sequence[Move], *, most: int, per_node: int, busy: Mapping[str, int]
) -> list[Move]:
    """Return the moves that can begin now, at the same time.

    Each has room while all others still hold theirs, and none overtakes another on a node that they share.
    There are at most `most`, and no node has more than `per_node`; `busy` counts those that run already.
    """
    rooms, used, passed = list(picture.rooms), dict(busy), set[int]()
    begun = list[Move]()
    for move in moves:
        nodes, arrivals = nodes_of(move), move.arrivals()
        if (
            len(begun) >= most
            or not nodes.isdisjoint(passed)
            or any(used.get(picture.nodes[node], 0) >= per_node for node in nodes)
            or not all(holds(rooms[node], amount) for node, amount in arrivals.items())
        ):
            passed |= nodes
            continue
        for node, amount in arrivals.items():
            rooms[node] = minus(rooms[node], amount)
        for node in nodes:
            used[picture.nodes[node]] = used.get(picture.nodes[node], 0) + 1
        begun.append(move)
    return begun


def rounds(picture: Picture, plan: Plan, *, most: int, per_node: int) -> list[list[Move]]:
    """Return the moves of the plan in rounds; each round begins when the one before has ended.

    None at all where the budgets allow no move.
    """
    done, left = list[list[Move]](), list(plan.moves)
    while left:
        begun = first_round(picture, left, most=most, per_node=per_node, busy={})
        if not begun:
            return []
        later = rooms_after(picture.rooms, *begun)
        assert later is not None, "moves that can begin at the same time can begin one by one"
        picture = msgspec.structs.replace(picture, rooms=tuple(later))
        left = [move for move in left if move not in begun]
        done.append(begun)
    return done


def nodes_of(move: Move) -> set[int]:
    """Return the nodes that take part in a move: of a gang all, for all of it starts again."""
    return {*move.unit.homes, *move.targets}


def _hopeless(picture: Picture) -> bool:
    """Whether not even the nodes without all that may be moved would have room."""
    rooms = list(picture.rooms)
    for unit in picture.units:
        for node, amount in zip(unit.homes, unit.amounts, strict=True):
            rooms[node] = plus(rooms[node], amount)
    return fit_job(picture.waiting, rooms) is None
