"""What room there is on the nodes at one moment, and for whom."""

from collections.abc import Mapping
from functools import cached_property

from specon_manager.model.constraints import Constraints, objection
from specon_manager.model.placements import Placements
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.slices import too_little_memory


class OpenRoom(Placements):
    """The records of one moment, and the room that nobody has requested."""

    @cached_property
    def _rooms(self) -> dict[str, Resources]:
        """Former answers of `room`, by node."""
        return {}

    @cached_property
    def _objections(self) -> dict[Constraints, dict[str, str | None]]:
        """Former answers of `objection_to`, by rules and node."""
        return {}

    @cached_property
    def _leaving(self) -> Mapping[str, Resources]:
        """What each node still holds of replicas that are to leave it, or that may have to come back to it.

        The source of a move does until the move ends; on the way back the target does until nothing is left
        of the replica on it.
        """
        held: dict[str, Resources] = {}
        for transaction in self.transactions.values():
            for name in transaction.concerned:
                replica = self.replicas.get(name)
                if replica is None:
                    continue
                nodes = {replica.node} if replica.active else set[str | None]()
                if transaction.keeps_way_back:
                    nodes.add(transaction.before.get(name))
                for node in nodes - {self.place(replica), None, ""}:
                    assert node is not None
                    held[node] = held.get(node, NOTHING) + replica.requests
        return held

    def room(self, node: str) -> Resources:
        """Return the unrequested room on `node`; room held for transactions in flight counts as taken."""
        known = self._rooms.get(node)
        if known is not None:
            return known
        if node not in self._beside and node not in self._leaving:
            free = self.free.free.get(node)
            if free is not None:
                return free
        used = self.census(node).requests
        if node in self._leaving:
            used += self._leaving[node]
        room = self.nodes[node].capacity - used
        self._rooms[node] = room
        return room

    def rooms(self) -> tuple[dict[str, Resources], dict[str, tuple[float, float, float]], dict[str, int]]:
        """Return `room` of each ready node, the same as three numbers, and how many replicas it holds.

        By name, in the order of `ready_nodes`; all of it is the caller's own.
        """
        known = self.free
        free, parts, count = dict(known.free), dict(known.parts), dict(known.count)
        for node in self._leaving.keys() | self._beside.keys():
            if node in free:
                free[node] = room = self.room(node)
                parts[node] = room.cpu, room.memory, room.gpu
                count[node] = self.census(node).replicas
        return free, parts, count

    def objection_to(self, node: str, job: str) -> str | None:
        """Return what rules a node out for the replicas of a job: taint, label, volume, GPUs; None: nothing.

        Whether it is ready and has room is another question.
        """
        record, constraints = self.nodes[node], self.jobs[job].spec.constraints
        if self.jobs[job].spec.share != "none" and self.settings.time_slices:
            crowded = too_little_memory(self.jobs[job], record, self.on_node.get(node, ()), self.jobs)
            if crowded is not None:
                return crowded
        restricted = record.taints or constraints.selector or constraints.terms or constraints.volumes
        if not restricted:
            return None
        known = self._objections.setdefault(constraints, {})
        if node not in known:
            known[node] = objection(record.labels, node, record.taints, constraints)
        return known[node]

    @cached_property
    def _claimed(self) -> Mapping[str, tuple[tuple[str, Resources], ...]]:
        """The claims on each node: (job, amount)."""
        found: dict[str, list[tuple[str, Resources]]] = {}
        for job, claim in self.claims.items():
            if job not in self.jobs:
                continue
            for replica, node in claim.placement:
                found.setdefault(node, []).append((job, self.replicas[replica].requests))
        return {node: tuple(claims) for node, claims in found.items()}

    def open_room(self, node: str, job: str | None = None) -> Resources:
        """Return the room on a node that no job but this one has a claim to."""
        room = self.room(node)
        if not self.claims:
            return room
        if self.firm is not None and (job == self.firm or self._occupies(job)):
            # The claims of others do not count against a firm one; nor does that against what crashed of a
            # job that continues as soon as it is whole again.
            taken = [] if job == self.firm else self._list_taken(node, job, self.firm)
        else:
            taken = self._list_taken(node, job)
        return room - total(taken) if taken else room

    @cached_property
    def firm(self) -> str | None:
        """The job whose claim is firm, None where there is no such claim."""
        firm = (name for name, claim in self.claims.items() if claim.firm)
        return next((name for name in sorted(firm) if name in self.jobs), None)

    def _list_taken(self, node: str, *jobs: str | None) -> list[Resources]:
        """Return what others than these jobs claim on a node."""
        return [amount for owner, amount in self._claimed.get(node, ()) if owner not in jobs]

    def _occupies(self, job: str | None) -> bool:
        return job is not None and any(member.active for member in self.members.get(job, ()))
