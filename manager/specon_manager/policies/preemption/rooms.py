"""The room of the ready nodes as one call of a policy uses it up: plain numbers, for thousands of calls.

An amount is a tuple (cores, bytes, GPUs); a node is its index among the ready nodes, ordered by name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from specon_manager.model.cluster import Node, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot

Amounts = tuple[float, float, float]
NodeChoice = Literal["first-fit", "best-fit"]

NONE: Final[Amounts] = (0.0, 0.0, 0.0)
_ROUNDING: Final = 1e-9
"""How far, as a share of the whole, two sums of the same amounts in another order may lie apart."""


def amounts_of(resources: Resources) -> Amounts:
    """Return the amounts as a tuple."""
    return (resources.cpu, resources.memory, resources.gpu)


def plus(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of two amounts."""
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def within(amounts: Amounts, room: Amounts) -> bool:
    """Whether this much fits into the room; an exact fit is a fit."""
    return amounts[0] <= room[0] and amounts[1] <= room[1] and amounts[2] <= room[2]


def rest(room: Amounts, used: Amounts) -> Amounts:
    """Return what is left of the room, never less than nothing."""
    return (max(0.0, room[0] - used[0]), max(0.0, room[1] - used[1]), max(0.0, room[2] - used[2]))


class Rooms:
    """What is free on each node beside the claims of waiting jobs and what was promised in this call."""

    def __init__(self, nodes: Sequence[Node], room: Iterable[Amounts], choice: NodeChoice) -> None:
        """Take `room` as free; `choice` is how `find` chooses among the nodes that fit."""
        self.nodes = nodes
        self.index: Mapping[str, int] = {node.name: i for i, node in enumerate(nodes)}
        self.choice = choice
        self._room = list(room)
        self._claims: dict[int, dict[str, Amounts]] = {}
        # What was promised is summed up apart, as the planner does: it must come to the same verdict, and
        # differences of fractions would round otherwise.
        self._taken = [NONE] * len(self._room)
        self._open = list(self._room)
        self._left = list(self._room)

    def ever_hold(self, replicas: Sequence[Replica]) -> bool:
        """Whether the replicas would have room if nothing ran on the nodes."""
        empty = Rooms(self.nodes, [amounts_of(node.capacity) for node in self.nodes], self.choice)
        return empty.place(replicas) is not None

    def unclaimed(self) -> "Rooms":
        """Return what is open now as the only room there is: N of equation (2), to try choices on."""
        return Rooms(self.nodes, [self.open(node) for node in range(len(self.nodes))], self.choice)

    def open(self, node: int) -> Amounts:
        """Return what is free on the node and promised or claimed to nobody."""
        taken = self._taken[node]
        return self._open[node] if taken is NONE else rest(self._open[node], taken)

    def find(self, amounts: Amounts) -> int | None:
        """Return a node that has room for this much: the first, or the one that it fills most."""
        cpu, memory, gpu = amounts
        taken, first = self._taken, self.choice == "first-fit"
        best, least = None, 0.0
        for node, (free_cpu, free_memory, free_gpu) in enumerate(self._left):
            if cpu > free_cpu or memory > free_memory or gpu > free_gpu:
                continue
            if taken[node] is not NONE and not within(plus(taken[node], amounts), self._open[node]):
                continue
            if first:
                return node
            left = self._share_left(node, amounts)
            if best is None or left < least:
                best, least = node, left
        return best

    def occupy(self, node: int, amounts: Amounts) -> None:
        """Count this much of the node as taken."""
        self._taken[node] = plus(self._taken[node], amounts)
        self._count(node)

    def vacate(self, node: int, amounts: Amounts) -> None:
        """Count this much more of the node as free, as it will be when somebody has left."""
        self._room[node] = plus(self._room[node], amounts)
        self._count(node)

    def place(self, replicas: Sequence[Replica]) -> dict[str, int] | None:
        """Take room for each replica in turn; None, and nothing is taken, if one of them has none."""
        if len(replicas) == 1:
            amounts = amounts_of(replicas[0].requests)
            if (node := self.find(amounts)) is None:
                return None
            self.occupy(node, amounts)
            return {replicas[0].name: node}
        before, placement = (self._taken.copy(), self._left.copy()), dict[str, int]()
        for replica in replicas:
            amounts = amounts_of(replica.requests)
            if (node := self.find(amounts)) is None:
                self._taken, self._left = before
                return None
            self.occupy(node, amounts)
            placement[replica.name] = node
        return placement

    def place_at(self, replicas: Sequence[Replica], placement: Mapping[str, str]) -> dict[str, int] | None:
        """Take room where the placement says; None, and nothing is taken, if a replica has none."""
        wanted, found = dict[int, Amounts](), dict[str, int]()
        for replica in replicas:
            node = self.index.get(placement.get(replica.name, ""))
            if node is None:
                return None
            wanted[node] = plus(wanted.get(node, NONE), amounts_of(replica.requests))
            found[replica.name] = node
        if not all(within(plus(self._taken[node], need), self._open[node]) for node, need in wanted.items()):
            return None
        for node, need in wanted.items():
            self.occupy(node, need)
        return found

    def nodes_of(self, placement: Mapping[str, int]) -> dict[str, str]:
        """Return the placement with the names of the nodes."""
        return {replica: self.nodes[node].name for replica, node in placement.items()}

    def reserve(self, job: str, node: int, amounts: Amounts) -> None:
        """Keep this much of the node for the waiting job."""
        claims = self._claims.setdefault(node, {})
        claims[job] = plus(claims.get(job, NONE), amounts)
        self._count(node)

    def release(self, job: str) -> dict[int, Amounts]:
        """Give up what is kept for the job and return it, by node."""
        held = {node: claims.pop(job) for node, claims in self._claims.items() if job in claims}
        for node in held:
            self._count(node)
        return held

    def will_hold(self, node: int, amounts: Amounts, leaving: Amounts) -> bool:
        """Whether this much fits beside all claims once so much has left the node, roundings aside."""
        claimed = NONE
        for other in self._claims.get(node, {}).values():
            claimed = plus(claimed, other)
        capacity = amounts_of(self.nodes[node].capacity)
        return all(
            amounts[k] + claimed[k] + self._taken[node][k]
            <= self._room[node][k] + leaving[k] + _ROUNDING * capacity[k]
            for k in range(3)
        )

    def _count(self, node: int) -> None:
        claimed = NONE
        for amounts in self._claims.get(node, {}).values():
            claimed = plus(claimed, amounts)
        room, taken = rest(self._room[node], claimed), self._taken[node]
        self._open[node] = room
        if taken is NONE:
            self._left[node] = room
            return
        # Never too little: what passes here is tested exactly before a node is chosen.
        left = rest(room, taken)
        self._left[node] = plus(left, (_ROUNDING * room[0], _ROUNDING * room[1], _ROUNDING * room[2]))

    def _share_left(self, node: int, amounts: Amounts) -> float:
        """Return what stays free on the node, as shares of its capacity added up."""
        free, whole = self.open(node), amounts_of(self.nodes[node].capacity)
        return sum((free[k] - amounts[k]) / whole[k] for k in range(3) if whole[k] > 0)


def rooms_of(snapshot: Snapshot, choice: NodeChoice) -> Rooms:
    """Return the rooms of the ready nodes, with the claims that are live now."""
    nodes = snapshot.ready_nodes
    rooms = Rooms(nodes, [amounts_of(snapshot.room(node.name)) for node in nodes], choice)
    for job, claim in snapshot.claims.items():
        if job not in snapshot.jobs:
            continue
        for replica, name in claim.placement:
            if (node := rooms.index.get(name)) is not None:
                rooms.reserve(job, node, amounts_of(snapshot.replicas[replica].requests))
    return rooms
