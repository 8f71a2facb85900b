"""What is idle on each ready node, as one call of a policy uses it up: the one book of all policies."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Final, Literal

from specon_manager.model.cluster import JobSpec, Replica
from specon_manager.model.resources import NOTHING, Resources, largest, total
from specon_manager.model.rooms import Parts
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.claimed_room import ClaimedRoom
from specon_manager.policies.known_fits import KnownFits
from specon_manager.policies.layer import Layer, copied

NodeChoice = Literal["first-fit", "best-fit"]

_ROUNDING: Final = 1e-9
"""How far, as a share of the whole, two sums of the same amounts in another order may lie apart."""


class Idle:
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
        # What was taken is summed up apart, as the planner does: it must come to the same verdict, and
        # differences of fractions would round otherwise.
        self._taken: dict[str, Resources] = {}
        self._unclaimed: MutableMapping[str, Resources] = (
            dict(room) if isinstance(room, dict) else Layer(room)
        )
        """What is there beside all claims, before anything was taken."""
        self._left = parts
        """What is left at most."""
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
        """Those of which something was taken in this call, or is claimed."""
        return {*self._taken, *self._claims.nodes}

    def __contains__(self, node: object) -> bool:
        return node in self._room

    def copy(self) -> "Idle":
        """Return a copy to try something on."""
        twin = object.__new__(Idle)
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

    def emptied(self) -> "Idle":
        """Return what would be idle with nothing on the nodes and no claims."""
        return self._with_room(dict(self.capacity), dict(self._rooms.whole), dict.fromkeys(self._room, 0))

    def unclaimed(self) -> "Idle":
        """Return what is idle now as if it were all: N of FitGpp's equation (2), to try choices on.

        Only until something is taken from this one, or given to it: most nodes are looked at when asked for.
        """

        def left(node: str) -> Parts:
            return _parts(self.open(node)) if node in self._taken else self._left[node]

        room, parts = Layer(self._room, self.open), Layer(self._left, left)
        twin = self._with_room(room, parts, Layer(self._replicas))
        # It has no more than is left here, so what is known of that is true of it.
        twin._known = self._known.copy()
        twin.__dict__["most"] = self.most
        return twin

    def _with_room(
        self,
        room: MutableMapping[str, Resources],
        parts: MutableMapping[str, Parts],
        replicas: MutableMapping[str, int],
    ) -> "Idle":
        twin = object.__new__(Idle)
        twin.capacity, twin.choice = self.capacity, self.choice
        twin._rooms, twin._held = self._rooms, self._held
        twin._begin(room, parts, replicas)
        return twin

    # -- looking ---------------------------------------------------------------------------------

    def open(self, node: str, job: str | None = None) -> Resources:
        """Return the room on a node that no job but this one has a claim to."""
        room, taken = self._beside_claims(node, job), self._taken.get(node, NOTHING)
        return room if taken is NOTHING else room - taken

    def fits(self, node: str, requests: Resources, job: str | None = None) -> bool:
        """Whether the node has room for this much that is open to the job."""
        return (self._taken.get(node, NOTHING) + requests).fits(self._beside_claims(node, job))

    def fitting(self, requests: Resources, job: str | None = None) -> list[str]:
        """Return the nodes for which `fits` holds."""
        if job is not None and job in self._claims:
            return [node for node in self._room if self.fits(node, requests, job)]
        return [node for node in self.roomy(requests) if self._surely(node, requests)]

    def anywhere(self, requests: Resources, job: str | None = None) -> bool:
        """Whether there is a node for which `fits` holds."""
        if job is not None and job in self._claims:
            return any(self.fits(node, requests, job) for node in self._room)
        cpu, memory, gpu = asked = _parts(requests)
        return any(
            cpu <= free_cpu and gpu <= free_gpu and memory <= free_memory and self._surely(node, requests)
            for node, (free_cpu, free_memory, free_gpu) in self._among(asked)
        )

    def find(self, requests: Resources) -> str | None:
        """Return a node with room for this much beside all claims: the first, or the one it fills most."""
        if self.choice == "first-fit":
            return self._find_first(requests)
        best, least = None, 0.0
        for node in self.fitting(requests):
            left = _share_left(self.open(node), requests, self.capacity[node])
            if best is None or left < least:
                best, least = node, left
        return best

    def _find_first(self, requests: Resources) -> str | None:
        cpu, memory, gpu = asked = _parts(requests)
        roomy = []
        for node, (free_cpu, free_memory, free_gpu) in self._among(asked):
            if cpu <= free_cpu and gpu <= free_gpu and memory <= free_memory:
                if self._surely(node, requests):
                    return node
                roomy.append(node)
        self._known.learn(asked, roomy)
        return None

    def roomy(self, requests: Resources) -> list[str]:
        """Return the nodes on which there may be room for this much beside all claims, roundings aside."""
        # A long queue on a large cluster asks a million times: most nodes are passed over by three numbers.
        cpu, memory, gpu = asked = _parts(requests)
        found = [
            node
            for node, (free_cpu, free_memory, free_gpu) in self._among(asked)
            if cpu <= free_cpu and gpu <= free_gpu and memory <= free_memory
        ]
        self._known.learn(asked, found)
        return found

    def _among(self, asked: Parts) -> Iterable[tuple[str, Parts]]:
        """Return the nodes that may have room for this much, in their order, with what is left of each."""
        found = self._known.among(asked)
        return self._left.items() if found is None else [(node, self._left[node]) for node in found]

    def room_for(self, node: str, requests: Resources, most: int, job: str | None = None) -> int:
        """Return for how many of these, at most `most`, the node has room that is open to the job."""
        number, amount = 0, NOTHING
        while number < most and self.fits(node, amount := amount + requests, job):
            number += 1
        return number

    def will_hold(self, node: str, requests: Resources, leaving: Resources) -> bool:
        """Whether this much fits beside all claims once so much has left the node, roundings aside."""
        claims = self._claims.on(node) or {}
        needed = total([requests, *claims.values(), self._taken.get(node, NOTHING)])
        room, capacity = self._room[node] + leaving, self.capacity[node]
        return all(
            need <= has + _ROUNDING * whole
            for need, has, whole in zip(_parts(needed), _parts(room), _parts(capacity), strict=True)
        )

    def ever_hold(self, replicas: Sequence[Replica]) -> bool:
        """Whether the replicas would have room if nothing ran on the nodes."""
        asked = tuple([replica.requests for replica in replicas])
        if asked not in self._held:
            self._held[asked] = self.emptied().place(replicas) is not None
        return self._held[asked]

    def by_most_idle(self, spec: JobSpec, among: Iterable[str] | None = None) -> list[str]:
        """Return the nodes, those with the most idle of what the job asks for first, then by name.

        `among` are the ones to order, by name; None: all.
        Amounts of different kinds are added as shares of the largest node. Where the job asks for nothing, as
        one that shares the processors, the nodes with the fewest replicas come first.
        """
        asked = total([spec.requests, spec.requests if spec.ps_requests is None else spec.ps_requests])
        names = self._room if among is None else among
        if asked == NOTHING:
            return sorted(names, key=self._replicas.__getitem__)
        kinds = [
            (kind, most)
            for kind, (most, wanted) in enumerate(
                zip(_parts(self._rooms.largest), _parts(asked), strict=True)
            )
            if most > 0 and wanted > 0
        ]

        def share(node: str) -> float:
            room = _parts(self.open(node, spec.name))
            return sum(room[kind] / most for kind, most in kinds)

        return sorted(names, key=share, reverse=True)  # stable, also reversed: of equals the first by name

    # -- taking and giving -----------------------------------------------------------------------

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

    def place(self, replicas: Sequence[Replica]) -> dict[str, str] | None:
        """Take room for each replica in turn; None, and nothing is taken, if one of them has none."""
        placement = dict[str, str]()
        before = list[tuple[str, Resources | None, Parts, int]]()
        for replica in replicas:
            if (node := self.find(replica.requests)) is None:
                for node, taken, left, count in reversed(before):
                    self._left[node], self._replicas[node] = left, count
                    if taken is None:
                        del self._taken[node]
                    else:
                        self._taken[node] = taken
                    self._has_more(node)
                return None
            before.append((node, self._taken.get(node), self._left[node], self._replicas[node]))
            self.take(node, replica.requests)
            placement[replica.name] = node
        return placement

    def place_at(self, replicas: Sequence[Replica], placement: Mapping[str, str]) -> dict[str, str] | None:
        """Take room where the placement says; None, and nothing is taken, if a replica has none."""
        wanted, found = dict[str, Resources](), dict[str, str]()
        for replica in replicas:
            node = placement.get(replica.name)
            if node is None or node not in self._room:
                return None
            wanted[node] = wanted.get(node, NOTHING) + replica.requests
            found[replica.name] = node
        if not all(self.fits(node, need) for node, need in wanted.items()):
            return None
        for replica in replicas:
            self.take(found[replica.name], replica.requests)
        return found

    def start(self, spec: JobSpec, placement: Mapping[str, str]) -> None:
        """Count these replicas as placed; a claim of their job has served its purpose."""
        for replica, node in placement.items():
            self.take(node, spec.requests_of(replica))
        self.release(spec.name)

    # -- claims ----------------------------------------------------------------------------------

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
        """Give up what is kept for the job and return it, by node."""
        held = self._claims.pop(job)
        for node in held:
            self._count(node, more=True)
        return held

    # -- small parts -----------------------------------------------------------------------------

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
            self._left[node] = _parts(room)
        else:
            # Never too little: what passes here is tested exactly before a node is chosen.
            left = room - taken
            self._left[node] = (
                left.cpu + _ROUNDING * room.cpu,
                left.memory + _ROUNDING * room.memory,
                left.gpu + _ROUNDING * room.gpu,
            )
        if more:
            self._has_more(node)


def _parts(amount: Resources) -> Parts:
    return amount.cpu, amount.memory, amount.gpu


def _share_left(free: Resources, requests: Resources, whole: Resources) -> float:
    """Return what would stay free, as shares of the whole added up."""
    return sum(
        (has - asked) / most
        for has, asked, most in zip(_parts(free), _parts(requests), _parts(whole), strict=True)
        if most > 0
    )
