"""What the search for moves looks at: room on nodes, what may be moved at which price, and who waits.

Amounts are whole numbers, so that sums of the same amounts are equal in whatever order they were added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.model.resources import Resources

WholeAmount = tuple[int, int, int]
"""Millionths of cores, bytes, and millionths of GPUs."""
FreeAmounts = Sequence[WholeAmount]
"""The free room of each node; less than nothing where more is kept for others than is free."""

NOTHING: Final[WholeAmount] = (0, 0, 0)
_MILLION: Final = 1_000_000
_ROUNDING: Final = 1e-4  # of a millionth: differences of fractions of cores are that far off


class Unit(Struct, frozen=True, kw_only=True):
    """What moves as one, once, for one price: a replica that trains by itself, or a gang."""

    name: str
    """The replica, or the job."""
    replicas: tuple[str, ...]
    homes: tuple[int, ...]
    """The node of each."""
    amounts: tuple[WholeAmount, ...]
    """What each requests."""
    price: float
    """Weighted replica-seconds; more than nothing."""
    allowed: frozenset[int] | None = None
    """The nodes that it may run on; None: all."""

    @property
    def gang(self) -> bool:
        """Whether all of it starts again when one of its replicas changes its node."""
        return len(self.replicas) > 1

    def may_go_to(self, node: int) -> bool:
        """Whether its replicas may run on the node."""
        return self.allowed is None or node in self.allowed


class Group(Struct, frozen=True, kw_only=True):
    """Replicas of the job that waits which request the same."""

    names: tuple[str, ...]
    amount: WholeAmount


class WaitingGang(Struct, frozen=True, kw_only=True):
    """The job that waits: its smallest gang, in one group or two."""

    job: str
    groups: tuple[Group, ...]
    allowed: frozenset[int] | None = None
    """The nodes that it may run on; None: all."""
    fixed: Mapping[int, tuple[int, ...]] | None = None
    """How many of each group go to which node, where that is decided already."""

    def most_on(self, node: int, group: int) -> int:
        """Return how many of a group may be put on a node, whatever room it has."""
        if self.fixed is not None:
            return self.fixed[node][group] if node in self.fixed else 0
        return len(self.groups[group].names) if self.allowed is None or node in self.allowed else 0


class Picture(Struct, frozen=True, kw_only=True):
    """All that the search is about. Nodes are numbered."""

    nodes: tuple[str, ...]
    rooms: tuple[WholeAmount, ...]
    units: tuple[Unit, ...]
    waiting: WaitingGang


class Move(Struct, frozen=True, kw_only=True):
    """One unit, and where each of its replicas runs afterwards; of a gang some may stay."""

    unit: Unit
    targets: tuple[int, ...]

    def arrivals(self) -> dict[int, WholeAmount]:
        """Return for how much room is needed on which nodes while the old room is still held."""
        return self._amounts(self.targets)

    def departures(self) -> dict[int, WholeAmount]:
        """Return how much becomes free on which nodes once it has moved."""
        return self._amounts(self.unit.homes)

    @property
    def placement(self) -> dict[str, int]:
        """Node by replica."""
        return dict(zip(self.unit.replicas, self.targets, strict=True))

    @property
    def changed(self) -> int:
        """How many replicas change their node."""
        return sum(home != target for home, target in zip(self.unit.homes, self.targets, strict=True))

    def _amounts(self, where: Iterable[int]) -> dict[int, WholeAmount]:
        found: dict[int, WholeAmount] = {}
        unit = self.unit
        for node, home, target, amount in zip(where, unit.homes, self.targets, unit.amounts, strict=True):
            if home != target:
                found[node] = plus(found.get(node, NOTHING), amount)
        return found


def room_of(free: Resources, kept: Iterable[Resources] = ()) -> WholeAmount:
    """Return the free room less the room kept for others."""
    room = int(free.cpu * _MILLION + _ROUNDING), int(free.memory), int(free.gpu * _MILLION + _ROUNDING)
    for amount in kept:
        room = minus(room, amount_of(amount))
    return room


def amount_of(requests: Resources) -> WholeAmount:
    """Return the requests."""
    return round(requests.cpu * _MILLION), round(requests.memory), round(requests.gpu * _MILLION)


def plus(one: WholeAmount, other: WholeAmount) -> WholeAmount:
    """Return the sum."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def minus(one: WholeAmount, other: WholeAmount) -> WholeAmount:
    """Return the difference."""
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


def holds(room: WholeAmount, amount: WholeAmount) -> bool:
    """Whether the amount fits; of a kind not asked for there may be less than nothing."""
    return (
        (amount[0] <= room[0] or amount[0] == 0)
        and (amount[1] <= room[1] or amount[1] == 0)
        and (amount[2] <= room[2] or amount[2] == 0)
    )


def rooms_after(rooms: FreeAmounts, *moves: Move) -> list[WholeAmount] | None:
    """Return the rooms once the moves have ended one by one; None where one finds no room to begin with."""
    later = list(rooms)
    for move in moves:
        arrivals = move.arrivals()
        if not all(holds(later[node], amount) for node, amount in arrivals.items()):
            return None
        for node, amount in arrivals.items():
            later[node] = minus(later[node], amount)
        for node, amount in move.departures().items():
            later[node] = plus(later[node], amount)
    return later
