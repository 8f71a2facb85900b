"""The free room of the ready nodes: kept, and renewed for the nodes that differ."""

from collections.abc import Mapping
from itertools import compress
from operator import is_not

from specon_manager.model.census import NOBODY, Census
from specon_manager.model.cluster import Node
from specon_manager.model.resources import Resources, largest, total

Parts = tuple[float, float, float]
"""Processors, memory and GPUs."""

RoomByNode = dict[str, Resources]


class Rooms:
    """By name of each node that takes replicas, in the order of their names (node-2 before node-10).

    The room that a move holds on its way is not taken off: the snapshot knows that.
    """

    __slots__ = (
        "_census",
        "_nodes",
        "capacity",
        "count",
        "free",
        "largest",
        "parts",
        "rank",
        "ready",
        "sharing",
        "total",
        "whole",
    )

    def __init__(self, nodes: Mapping[str, Node], census: Mapping[str, Census]) -> None:
        """Look at every node."""
        self._nodes, self._census = nodes, census
        self.ready: tuple[Node, ...] = tuple(
            node for _, node in sorted(nodes.items(), key=_natural) if node.ready
        )
        self.capacity: RoomByNode = {node.name: node.capacity for node in self.ready}
        self.largest: Resources = largest(set(self.capacity.values()))
        """The largest amount of each kind that one of them has."""
        self.total: Resources = total(list(self.capacity.values()))
        self.whole: dict[str, Parts] = {name: parts_of(each) for name, each in self.capacity.items()}
        """The capacity as three numbers."""
        self.rank: dict[str, int] = {name: number for number, name in enumerate(self.capacity)}
        self.free: RoomByNode = {}
        self.parts: dict[str, Parts] = {}
        """The same as three numbers."""
        self.count: dict[str, int] = {}
        """How many replicas hold room on each."""
        self.sharing: dict[str, int] = {}
        """How many of them reserve neither processors nor GPUs; not those nodes on which nobody does so."""
        for name in self.capacity:
            self._count(name)

    def renewed(self, nodes: Mapping[str, Node], census: Mapping[str, Census]) -> "Rooms":
        """Return the free room of these nodes; quick where most of them are unchanged."""
        if nodes is self._nodes and census is self._census:
            return self
        if nodes is not self._nodes and not self._as_before(nodes):
            return Rooms(nodes, census)
        twin = object.__new__(Rooms)
        twin._nodes, twin._census = nodes, census
        twin.capacity, twin.largest, twin.ready = self.capacity, self.largest, self.ready
        twin.total, twin.whole, twin.rank = self.total, self.whole, self.rank
        if nodes is not self._nodes:
            twin.ready = tuple([nodes[name] for name in self.capacity])
        twin.free, twin.parts, twin.count, twin.sharing = self.free, self.parts, self.count, self.sharing
        names = list(self.capacity)
        was, now = map(self._census.get, names), map(census.get, names)
        if touched := list(compress(names, map(is_not, was, now))):
            twin.free, twin.parts = dict(self.free), dict(self.parts)
            twin.count, twin.sharing = dict(self.count), dict(self.sharing)
            for name in touched:
                twin._count(name)
        return twin

    def _as_before(self, nodes: Mapping[str, Node]) -> bool:
        """Whether the same nodes are ready, with what they had."""
        capacity = self.capacity
        number = 0
        for name, node in nodes.items():
            if node.ready:
                number += 1
                known = capacity.get(name)
                if known is None or (known is not node.capacity and known != node.capacity):
                    return False
        return number == len(capacity)

    def _count(self, name: str) -> None:
        census = self._census.get(name, NOBODY)
        free = self.capacity[name] - census.requests
        self.free[name], self.count[name] = free, census.replicas
        if census.sharing:
            self.sharing[name] = census.sharing
        else:
            self.sharing.pop(name, None)
        self.parts[name] = parts_of(free)


def rooms(nodes: Mapping[str, Node], census: Mapping[str, Census]) -> Rooms:
    """Return the free room: only a cache, no answer depends on who asked before."""
    global _last  # noqa: PLW0603  (a cache of one entry)
    last = _last
    _last = found = Rooms(nodes, census) if last is None else last.renewed(nodes, census)
    return found


_last: Rooms | None = None


def parts_of(amount: Resources) -> Parts:
    """Return the amount as three numbers."""
    return amount.cpu, amount.memory, amount.gpu


def _natural(item: tuple[str, Node]) -> tuple[int, str]:
    """Order node-2 before node-10."""
    name = item[0]
    return (len(name), name)
