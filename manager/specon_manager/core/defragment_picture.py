"""The cluster as the search for moves sees it: free room, movable replicas, and their prices. Pure."""

import math
import zlib
from collections.abc import Sequence
from functools import cached_property

from specon_manager.core import gate
from specon_manager.core.move_objections import objection_to_movers
from specon_manager.core.quotas import smallest
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.constraints import Constraints
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import gang_move_objection, move_objection, resting, trains_as_one
from specon_manager.policies.defragmentation.picture import (
    Group,
    Picture,
    Unit,
    WaitingGang,
    WholeAmount,
    amount_of,
    room_of,
)


class Scene:
    """What all waiting jobs of one moment have in common."""

    def __init__(self, snapshot: Snapshot, state: State) -> None:
        """Count nothing yet: most Ticks need none of it."""
        self._snapshot, self._state = snapshot, state
        self._nodes = tuple(node.name for node in snapshot.ready_nodes)
        self._number = {name: index for index, name in enumerate(self._nodes)}
        self._allowed = dict[Constraints, frozenset[int] | None]()

    def members(self, job: Job) -> tuple[Replica, ...]:
        """Return the smallest gang of a waiting job."""
        return smallest(job, (self._snapshot.replicas[name] for name in job.spec.replicas))

    def would_do(self, job: Job) -> bool:
        """Whether all that is free together is as much as the smallest gang asks for, and it asks at all."""
        need = total([member.requests for member in self.members(job)])
        return need != NOTHING and need.fits(self._free)

    def picture(self, job: Job) -> Picture:
        """Return the picture for the search of the job.

        Where its claim is the manager's own, what it needs is fixed, and nothing is moved there.
        """
        snapshot, units = self._snapshot, self.units
        claim, fixed = snapshot.claims.get(job.name), None
        groups = _groups(self.members(job))
        if claim is not None and claim.firm:
            fixed = self._fix(claim.placement, groups)
            free = frozenset(range(len(self._nodes))).difference(fixed)  # minus keys would be no frozenset
            units = tuple(_confine(unit, free) for unit in units)
        return Picture(
            nodes=self._nodes,
            rooms=self._rooms(job.name),
            units=units,
            waiting=WaitingGang(job=job.name, groups=groups, allowed=self._nodes_for(job), fixed=fixed),
        )

    @cached_property
    def mark(self) -> int:
        """A number that differs where something that counts has changed: room, what may be moved, prices."""
        units = [(unit.name, unit.homes, round(math.log2(unit.price))) for unit in self.units]
        return zlib.crc32(repr((self._nodes, self._rooms(""), units)).encode())

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """What may be moved now, by name."""
        found = list[Unit]()
        for job in self._snapshot.jobs.values():
            if job.ended_at is None:
                found += self._units_of(job)
        return tuple(sorted(found, key=lambda unit: unit.name))

    def _units_of(self, job: Job) -> list[Unit]:
        snapshot = self._snapshot
        active = [each for name in job.spec.replicas if (each := snapshot.replicas[name]).active]
        if not active or not all(each.node in self._number for each in active):
            return []
        if trains_as_one(job, snapshot):
            if (gang_move_objection(job, snapshot) or resting(job, snapshot)) is not None:
                return []
            units = [self._unit(job, job.name, active)]
        else:
            alone = (each for each in active if move_objection(each, snapshot) is None)
            units = [self._unit(job, each.name, [each]) for each in alone]
        return [unit for unit in units if unit is not None]

    def _unit(self, job: Job, name: str, movers: Sequence[Replica]) -> Unit | None:
        state = self._state
        amounts = tuple(amount_of(each.requests) for each in movers)
        if not any(map(any, amounts)) or objection_to_movers(movers, self._snapshot) is not None:
            return None
        return Unit(
            name=name,
            replicas=tuple(each.name for each in movers),
            homes=tuple(self._number[each.node or ""] for each in movers),
            amounts=amounts,
            price=max(1e-9, gate.price(movers, state.settings.gate, state.measured)),
            allowed=self._nodes_for(job),
        )

    def _nodes_for(self, job: Job) -> frozenset[int] | None:
        """Return the nodes that the job may run on, None where those are all."""
        constraints, snapshot = job.spec.constraints, self._snapshot
        if constraints not in self._allowed:
            numbers = (
                number
                for number, node in enumerate(self._nodes)
                if snapshot.objection_to(node, job.name) is None
            )
            open_nodes = frozenset(numbers)
            self._allowed[constraints] = open_nodes if len(open_nodes) < len(self._nodes) else None
        return self._allowed[constraints]

    @cached_property
    def _free(self) -> Resources:
        return total([self._snapshot.room(node) for node in self._nodes])

    def _rooms(self, job: str) -> tuple[WholeAmount, ...]:
        """Return the free room of each node beside the room kept for others than this job."""
        snapshot, kept = self._snapshot, dict[str, list[Resources]]()
        for owner, claim in snapshot.claims.items():
            if owner == job or owner not in snapshot.jobs:
                continue
            for replica, node in claim.placement:
                kept.setdefault(node, []).append(snapshot.replicas[replica].requests)
        return tuple(room_of(snapshot.room(node), kept.get(node, ())) for node in self._nodes)

    def _fix(
        self, placement: Sequence[tuple[str, str]], groups: Sequence[Group]
    ) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for replica, node in placement:
            if node not in self._number:
                continue
            before = found.get(self._number[node], (0,) * len(groups))
            found[self._number[node]] = tuple(
                count + (replica in group.names) for count, group in zip(before, groups, strict=True)
            )
        return found


def _groups(members: Sequence[Replica]) -> tuple[Group, ...]:
    """Return the members by what they request: servers first, if they do not request the same."""
    names: dict[WholeAmount, list[str]] = {}
    for member in members:
        names.setdefault(amount_of(member.requests), []).append(member.name)
    return tuple(Group(names=tuple(each), amount=amount) for amount, each in names.items())


def _confine(unit: Unit, free: frozenset[int]) -> Unit:
    """Return the unit that goes to these nodes at most."""
    return Unit(
        name=unit.name,
        replicas=unit.replicas,
        homes=unit.homes,
        amounts=unit.amounts,
        price=unit.price,
        allowed=free if unit.allowed is None else unit.allowed & free,
    )
