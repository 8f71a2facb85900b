"""The idle room of each ready node, as one call of a policy uses it up: the one book of all policies."""

from collections.abc import Iterable, Mapping, Sequence

from specon_manager.model.cluster import JobSpec, Replica
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.rooms import Parts, parts_of
from specon_manager.policies.room_book import ROUNDING, NodeChoice, RoomBook

__all__ = ["Idle", "NodeChoice"]


class Idle(RoomBook):
    """The room on each ready node, looked through for what has to be placed."""

    def fitting(self, requests: Resources, job: str | None = None) -> list[str]:
        """Return the nodes for which `fits` holds."""
        if job is not None and job in self._claims:
            return [node for node in self._room if self.fits(node, requests, job)]
        return [node for node in self.roomy(requests) if self._surely(node, requests)]

    def anywhere(self, requests: Resources, job: str | None = None) -> bool:
        """Whether there is a node for which `fits` holds."""
        if job is not None and job in self._claims:
            return any(self.fits(node, requests, job) for node in self._room)
        cpu, memory, gpu = asked = parts_of(requests)
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
        cpu, memory, gpu = asked = parts_of(requests)
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
        cpu, memory, gpu = asked = parts_of(requests)
        found = [
            node
            for node, (free_cpu, free_memory, free_gpu) in self._among(asked)
            if cpu <= free_cpu and gpu <= free_gpu and memory <= free_memory
        ]
        self._known.learn(asked, found)
        return found

    def _among(self, asked: Parts) -> Iterable[tuple[str, Parts]]:
        """Return the nodes that may have room for this much, in their order, with the rest of each."""
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
            need <= has + ROUNDING * whole
            for need, has, whole in zip(parts_of(needed), parts_of(room), parts_of(capacity), strict=True)
        )

    def ever_hold(self, replicas: Sequence[Replica]) -> bool:
        """Whether the replicas would have room if nothing ran on the nodes."""
        asked = tuple([replica.requests for replica in replicas])
        if asked not in self._held:
            self._held[asked] = self.emptied().place(replicas) is not None
        return self._held[asked]

    def nodes_by_most_idle(self, spec: JobSpec, among: Iterable[str] | None = None) -> list[str]:
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
                zip(parts_of(self._rooms.largest), parts_of(asked), strict=True)
            )
            if most > 0 and wanted > 0
        ]

        def share(node: str) -> float:
            room = parts_of(self.open(node, spec.name))
            return sum(room[kind] / most for kind, most in kinds)

        return sorted(names, key=share, reverse=True)  # stable, also reversed: of equals the first by name

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


def _share_left(free: Resources, requests: Resources, whole: Resources) -> float:
    """Return what would stay free, as shares of the whole added up."""
    return sum(
        (has - asked) / most
        for has, asked, most in zip(parts_of(free), parts_of(requests), parts_of(whole), strict=True)
        if most > 0
    )
