"""The idle room of each ready node, as one call of a policy takes from it and gives back to it."""

from collections.abc import Mapping, MutableMapping
from functools import cached_property
from operator import itemgetter
from typing import Final, Literal, Self

from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING, Resources, largest
from specon_manager.model.rooms import Parts, parts_of
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.claimed_room import ClaimedRoom
from specon_manager.policies.known_fits import KnownFits
from specon_manager.policies.layer import Layer, copied

NodeChoice = Literal["first-fit", "best-fit"]

ROUNDING: Final = 1e-9
"""How far, as a share of the whole, two sums of the same amounts in another order may lie apart."""


class RoomBook:
    """The room on each ready node that nobody uses and nobody else has a claim to.

    A copy for one call, which takes from it and gives back to it. What other jobs have a claim to is not idle
    for a job. Nodes go by name, in the order of their names.
    """

    def __init__(
        self, snapshot: Snapshot, *, emptied: bool = False, choice: NodeChoice = "first-fit"
    ) -> None:
        """Take the room as it is, or as it would be with nothing on the nodes and no claims.

        `choice` is how `find` chooses among the nodes that fit.
        """
        self.capacity: Mapping[str, Resources] = snapshot.capacities
        self.choice = choice
        self._rooms = snapshot.free
        self._held: dict[tuple[Resources, ...], bool] = {}
        """Whether replicas that ask for so much have room on empty nodes; copies share it."""
        if emptied:
            self._begin(dict(self.capacity), dict(self._rooms.whole), dict.fromkeys(self.capacity, 0))
        else:
            self._begin(*snapshot.rooms())
        for job, claim in () if emptied else sorted(snapshot.claims.items()):
            if job in snapshot.jobs:
                self.keep(snapshot.jobs[job].spec, dict(claim.placement))

    def _begin(
        self,
        room: MutableMapping[str, Resources],
        parts: MutableMapping[str, Parts],
        replicas: MutableMapping[str, int],
    ) -> None:
        self._room, self._replicas = room, replicas
        self._claims = ClaimedRoom()
        # Taken room is summed up apart, as the planner does: it must come to the same verdict, and
        # differences of fractions would round otherwise.
        self._taken: dict[str, Resources] = {}
        self._unclaimed: MutableMapping[str, Resources] = (
            dict(room) if isinstance(room, dict) else Layer(room)
        )
        """The room beside all claims, before anything was taken."""
        self._left = parts
        """The rest of each node at most, by node."""
        self._known = KnownFits(len(room), self._rooms.rank)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The ready nodes."""
        return tuple(self._room)

    @cached_property
    def most(self) -> Resources:
        """The largest amount of each kind that may be left on one node: never too little."""
        parts = self._left.values()
        if not parts:
            return NOTHING
        cpu, memory, gpu = (max(map(itemgetter(kind), parts)) for kind in range(3))
        return Resources(cpu=cpu, memory=memory, gpu=gpu)

    @property
    def touched(self) -> set[str]:
        """The nodes where this call took room, or where room is claimed."""
        return {*self._taken, *self._claims.nodes}

    def __contains__(self, node: object) -> bool:
        return node in self._room

    def copy(self) -> Self:
        """Return a copy to try something on."""
        twin = object.__new__(type(self))
        twin.capacity, twin.choice, twin._rooms, twin._held = (
            self.capacity,
            self.choice,
            self._rooms,
            self._held,
        )
        twin._room, twin._replicas = copied(self._room), copied(self._replicas)
        twin._claims = self._claims.copy()
        twin._taken, twin._unclaimed, twin._left = (
            self._taken.copy(),
            copied(self._unclaimed),
            copied(self._left),
        )
        twin._known = self._known.copy()
        return twin

    def emptied(self) -> Self:
        """Return what would be idle with nothing on the nodes and no claims."""
        return self._with_room(dict(self.capacity), dict(self._rooms.whole), dict.fromkeys(self._room, 0))

    def unclaimed(self) -> Self:
        """Return the idle room of now as if it were all: N of FitGpp's equation (2), to try choices on.

        Only until something is taken from this one, or given to it: most nodes are looked at when asked for.
        """

        def left(node: str) -> Parts:
            return parts_of(self.open(node)) if node in self._taken else self._left[node]

        room, parts = Layer(self._room, self.open), Layer(self._left, left)
        # It has no more than is left here, so facts about this one are true of it.
        twin = self._with_room(room, parts, Layer(self._replicas), self._known.copy())
        twin.__dict__["most"] = self.most
        return twin

    def _with_room(
        self,
        room: MutableMapping[str, Resources],
        parts: MutableMapping[str, Parts],
        replicas: MutableMapping[str, int],
        known: KnownFits | None = None,
    ) -> Self:
        twin = object.__new__(type(self))
        twin.capacity, twin.choice = self.capacity, self.choice
        twin._rooms, twin._held = self._rooms, self._held
        twin._begin(room, parts, replicas)
        if known is not None:
            twin._known = known
        return twin

    def open(self, node: str, job: str | None = None) -> Resources:
        """Return the room on a node that no job but this one has a claim to."""
        room, taken = self._beside_claims(node, job), self._taken.get(node, NOTHING)
        return room if taken is NOTHING else room - taken

    def fits(self, node: str, requests: Resources, job: str | None = None) -> bool:
        """Whether the node has room for this much that is open to the job."""
        return (self._taken.get(node, NOTHING) + requests).fits(self._beside_claims(node, job))

    def take(self, node: str, requests: Resources) -> None:
        """Count one more replica on a node, and this much of it as used."""
        self._taken[node] = self._taken.get(node, NOTHING) + requests
        self._replicas[node] += 1
        self._count(node)

    def give(self, node: str, requests: Resources) -> None:
        """Count this much more of a node as idle, as it is when someone has left; no other node counts."""
        if node in self._room:
            self._room[node] += requests
            self._count(node, more=True)

    def keep(self, spec: JobSpec, placement: Mapping[str, str]) -> None:
        """Count this room as kept for a waiting job, beside what it has a claim to already.

        For that lasts through the call: the planner judges claims after all that starts something. An empty
        placement gives up what it has.
        """
        if not placement:
            self.release(spec.name)
        for replica, node in placement.items():
            if node in self._room:
                self.reserve(spec.name, node, spec.requests_of(replica))

    def reserve(self, job: str, node: str, requests: Resources) -> None:
        """Keep this much more of the node for the waiting job."""
        self._claims.add(job, node, requests)
        self._count(node)

    def release(self, job: str) -> dict[str, Resources]:
        """Give up the room kept for the job and return it, by node."""
        held = self._claims.pop(job)
        for node in held:
            self._count(node, more=True)
        return held

    def _beside_claims(self, node: str, job: str | None) -> Resources:
        claims = None if job is None else self._claims.on(node)
        if claims is None or job not in claims:
            return self._unclaimed[node]
        return self._room[node] - self._claims.beside(node, job)

    def _surely(self, node: str, requests: Resources) -> bool:
        """Whether what passed by `_left` fits: without anything taken that is exact already."""
        return node not in self._taken or self.fits(node, requests)

    def _has_more(self, node: str) -> None:
        """Take note that more is left on a node; what the most of all is said to be may then be too much."""
        self._known.add(node)
        if (most := self.__dict__.get("most")) is not None:
            cpu, memory, gpu = self._left[node]
            if cpu > most.cpu or memory > most.memory or gpu > most.gpu:
                self.__dict__["most"] = largest((most, Resources(cpu=cpu, memory=memory, gpu=gpu)))

    def _count(self, node: str, *, more: bool = False) -> None:
        room, taken = self._room[node], self._taken.get(node)
        if self._claims.on(node) is not None:
            room -= self._claims.beside(node, None)
        self._unclaimed[node] = room
        if taken is None:
            self._left[node] = parts_of(room)
        else:
            # Never too little: what passes here is tested exactly before a node is chosen.
            left = room - taken
            self._left[node] = (
                left.cpu + ROUNDING * room.cpu,
                left.memory + ROUNDING * room.memory,
                left.gpu + ROUNDING * room.gpu,
            )
        if more:
            self._has_more(node)
