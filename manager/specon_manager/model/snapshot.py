"""The immutable snapshot of the cluster that policies decide on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.model.changes import Change
from specon_manager.model.cluster import Claimed, Job, Node, Phase, Replica, Served
from specon_manager.model.constraints import Constraints, objection
from specon_manager.model.members import Members
from specon_manager.model.moves import Move
from specon_manager.model.overlay import Overlay
from specon_manager.model.queues import Queue
from specon_manager.model.resources import NOTHING, Resources, total
from specon_sidecar.classify import Category

_NONE: Final[Mapping[str, Claimed]] = MappingProxyType({})
_UNSERVED: Final[Mapping[str, Served]] = MappingProxyType({})
_UNCHANGED: Final[Mapping[str, Change]] = MappingProxyType({})
_UNQUEUED: Final[Mapping[str, Queue]] = MappingProxyType({})
_NONE_WITHHELD: Final[Mapping[str, str]] = MappingProxyType({})


class Census(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas of a node, counted."""

    replicas: int
    converged: int
    watching: int
    requests: Resources
    """Of all of them together."""


class _Count:
    """A census while it is taken."""

    __slots__ = ("converged", "cpu", "gpu", "memory", "replicas", "watching")

    def __init__(self) -> None:
        self.replicas: list[Replica] = []
        self.converged = self.watching = 0
        self.cpu = self.memory = self.gpu = 0.0

    def add(self, replica: Replica) -> None:
        """Count a replica."""
        category, requests = replica.progress.category, replica.requests
        self.replicas.append(replica)
        self.converged += category is Category.CONVERGED
        self.watching += category is Category.WATCHING
        self.cpu += requests.cpu
        self.memory += requests.memory
        self.gpu += requests.gpu

    def census(self) -> Census:
        """Return what was counted."""
        return Census(
            replicas=len(self.replicas),
            converged=self.converged,
            watching=self.watching,
            requests=Resources(cpu=self.cpu, memory=self.memory, gpu=self.gpu),
        )


class _Survey(Struct, frozen=True, kw_only=True):
    """What one look at every replica tells."""

    on_node: Mapping[str, tuple[Replica, ...]]
    settled: tuple[Replica, ...]
    pending: tuple[Replica, ...]


class Snapshot:
    """Everything a policy may look at, at one moment. Nothing in it changes."""

    def __init__(
        self,
        *,
        now: float,
        nodes: Mapping[str, Node],
        jobs: Mapping[str, Job],
        replicas: Mapping[str, Replica],
        moves: Mapping[str, Move],
        claims: Mapping[str, Claimed] = _NONE,
        served: Mapping[str, Served] = _UNSERVED,
        changed_at: float = 0.0,
        reweight: bool = False,
        changes: Mapping[str, Change] = _UNCHANGED,
        queues: Mapping[str, Queue] = _UNQUEUED,
        starvation: float | None = None,
        withheld: Mapping[str, str] = _NONE_WITHHELD,
    ) -> None:
        """Take the records as they are; `moves` are those in flight, by replica.

        `claims` is by waiting job, `served` by kind of job; `changed_at` is when a job was last admitted,
        scaled or preempted; `reweight` tells whether shares of processors can be changed in place. `changes`
        are those in flight, by job; `withheld` are waiting jobs that no policy is to see now, each with the
        reason.
        """
        self.now = now
        self.nodes = nodes
        self.jobs = jobs
        self.replicas = replicas
        self.moves = moves
        self.claims = claims
        self.served = served
        self.changed_at = changed_at
        self.reweight = reweight
        self.changes = changes
        self.queues = queues
        self.starvation = starvation
        self.withheld = withheld
        self._counted: dict[str, tuple[tuple[Replica, ...], Census]] = {}
        self._rooms: dict[str, Resources] = {}
        self._objections: dict[Constraints, dict[str, str | None]] = {}

    @cached_property
    def ready_nodes(self) -> tuple[Node, ...]:
        """The nodes that take replicas, by name."""
        return tuple(node for _, node in sorted(self.nodes.items(), key=_natural) if node.ready)

    @cached_property
    def on_node(self) -> Mapping[str, tuple[Replica, ...]]:
        """The active replicas of each node as they will be when every move in flight has succeeded."""
        return self._survey.on_node

    @cached_property
    def settled(self) -> tuple[Replica, ...]:
        """The converged replicas that run and are in no move."""
        return self._survey.settled

    @cached_property
    def pending(self) -> tuple[Replica, ...]:
        """The pending replicas, those that may not start yet among them, but no withheld ones."""
        found = self._survey.pending
        if not self.withheld and not self.changes:
            return found
        return tuple(
            replica
            for replica in found
            if replica.job not in self.withheld and replica.job not in self.changes
        )

    @cached_property
    def _survey(self) -> "_Survey":
        """What takes a look at every replica: in one pass, which is most of a plan of a large cluster."""
        counts = {node: _Count() for node in self.nodes}
        settled, pending = [], []
        moves = self.moves
        running, starting, waiting = Phase.RUNNING, Phase.STARTING, Phase.PENDING
        converged, watching = Category.CONVERGED, Category.WATCHING
        for replica in self.replicas.values():
            phase = replica.phase
            if phase is waiting:
                pending.append(replica)
            # `place`, written out.
            if moves and replica.name in moves:
                place: str | None = moves[replica.name].destination
                stays = False
            elif phase is running or phase is starting:
                place = replica.node
                stays = phase is running
            else:
                continue
            category = replica.progress.category
            if stays and category is converged and replica.leaving is None:
                settled.append(replica)
            if place not in counts:
                continue
            count, requests = counts[place], replica.requests
            count.replicas.append(replica)
            if category is converged:
                count.converged += 1
            elif category is watching:
                count.watching += 1
            count.cpu += requests.cpu
            count.memory += requests.memory
            count.gpu += requests.gpu
        on_node = {}
        for node, count in counts.items():
            on_node[node] = replicas = tuple(count.replicas)
            self._counted[node] = (replicas, count.census())
        return _Survey(on_node=on_node, settled=tuple(settled), pending=tuple(pending))

    @cached_property
    def members(self) -> Mapping[str, tuple[Replica, ...]]:
        """The replicas of each job that has not ended, in the order of its description."""
        return Members(self.jobs, self.replicas)

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """The jobs none of whose replicas occupies a node and all of which may start now, oldest first."""
        now, jobs, found = self.now, self.jobs, list[Job]()
        for name in dict.fromkeys(replica.job for replica in self.pending):
            replicas = self.members.get(name, ())
            if _waits(replicas, now) and not any(replica.name in self.moves for replica in replicas):
                found.append(jobs[name])
        return tuple(sorted(found, key=lambda job: job.order))

    @cached_property
    def running(self) -> tuple[Job, ...]:
        """The jobs of which at least one replica occupies a node and none was told to end, oldest first.

        Not those that nobody but their owners can end or scale, and not those with a change in flight. A job
        of which a worker is being scaled in at once is among them; its worker is not among `workers`.
        """
        jobs, active, ending = self.jobs, dict[str, None](), set[str]()
        for replica in self.replicas.values():
            if replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
                active[replica.job] = None
                if replica.leaving is not None and _ends(replica):
                    ending.add(replica.job)
        found = [jobs[name] for name in active if name not in ending and name not in self.changes]
        running = (job for job in found if job.ended_at is None and job.spec.adjustable)
        return tuple(sorted(running, key=lambda job: job.order))

    @cached_property
    def unplaced(self) -> tuple[Replica, ...]:
        """The pending replicas that may start now, oldest job first: also those of jobs that run in part.

        Not those whose peers were told to end with them and are not gone yet: all of them wait together.
        """
        now, jobs, moves = self.now, self.jobs, self.moves
        found = [
            replica
            for replica in self.pending
            if replica.name not in moves
            and (replica.deadline is None or replica.deadline <= now)
            and not self.about_to_end(replica.job)
        ]
        return tuple(sorted(found, key=lambda replica: (jobs[replica.job].order, replica.name)))

    def about_to_end(self, job: str) -> bool:
        """Whether something of the job occupies a node and was told to end with the rest of it."""
        replicas = self.replicas
        return any(_ends(replicas[name]) for name in self.jobs[job].spec.replicas)

    def workers(self, job: str) -> tuple[Replica, ...]:
        """Return the workers of a job that occupy nodes and stay, by index."""
        found = [
            replica
            for replica in self.members.get(job, ())
            if replica.active and replica.leaving is None and replica.role != "ps"
        ]
        return tuple(sorted(found, key=lambda replica: replica.index))

    def servers(self, job: str) -> tuple[Replica, ...]:
        """Return the parameter servers of a job that occupy nodes, by index."""
        found = [r for r in self.members.get(job, ()) if r.active and r.role == "ps"]
        return tuple(sorted(found, key=lambda replica: replica.index))

    def with_starts(self, placement: Mapping[str, str]) -> "Snapshot":
        """Return the snapshot in which each replica was started on its node.

        The room that was kept for their jobs is what they take now: it does not count twice.
        """
        records = [
            msgspec.structs.replace(self.replicas[name], phase=Phase.STARTING, node=node)
            for name, node in placement.items()
        ]
        started = {record.job for record in records}
        if started.isdisjoint(self.claims):
            return self._changed(records)
        claims = {job: claim for job, claim in self.claims.items() if job not in started}
        return self._changed(records, claims=claims)

    def with_records(self, records: Iterable[Replica]) -> "Snapshot":
        """Return the snapshot with these records in place of the former ones of the same replicas."""
        return self._changed(list(records))

    def with_move(self, move: Move) -> "Snapshot":
        """Return the snapshot in which the move is in flight."""
        replica = self.replicas[move.replica]
        return self._changed([replica], moves={**self.moves, move.replica: move})

    def with_claim(self, job: str, claim: Claimed | None) -> "Snapshot":
        """Return the snapshot in which the job has this claim, or none."""
        claims = {name: other for name, other in self.claims.items() if name != job}
        return self._changed([], claims=claims if claim is None else {**claims, job: claim})

    def without(self, withheld: Mapping[str, str]) -> "Snapshot":
        """Return the snapshot in which these waiting jobs are not seen, each for its reason."""
        return self._changed([], withheld=withheld) if withheld else self

    def with_change(self, change: Change) -> "Snapshot":
        """Return the snapshot in which the change is in flight."""
        return self._changed([], changes={**self.changes, change.job: change})

    def _changed(
        self,
        records: list[Replica],
        *,
        moves: Mapping[str, Move] | None = None,
        claims: Mapping[str, Claimed] | None = None,
        changes: Mapping[str, Change] | None = None,
        withheld: Mapping[str, str] | None = None,
    ) -> "Snapshot":
        """Return a copy that differs in a few replicas, without counting the whole cluster anew."""
        replicas = self.replicas
        for after in records:
            if replicas[after.name] is not after:
                known = replicas if isinstance(replicas, Overlay) else Overlay(replicas, {})
                replicas = known.with_change(after.name, after)
        changed = Snapshot(
            now=self.now,
            nodes=self.nodes,
            jobs=self.jobs,
            replicas=replicas,
            moves=self.moves if moves is None else moves,
            claims=self.claims if claims is None else claims,
            served=self.served,
            changed_at=self.changed_at,
            reweight=self.reweight,
            changes=self.changes if changes is None else changes,
            queues=self.queues,
            starvation=self.starvation,
            withheld=self.withheld if withheld is None else withheld,
        )
        if not records and moves is None and "_survey" in self.__dict__:
            changed.__dict__["_survey"] = self._survey  # it is about replicas and moves
        on_node = dict(self.on_node)
        for after in records:
            left, joined = self.place(self.replicas[after.name]), changed.place(after)
            if left in on_node:
                on_node[left] = tuple(replica for replica in on_node[left] if replica.name != after.name)
            if joined in on_node:
                on_node[joined] = (*on_node[joined], after)
        changed.__dict__["on_node"] = on_node  # what cached_property would compute
        changed.__dict__["ready_nodes"] = self.ready_nodes
        changed._objections = self._objections  # neither nodes nor descriptions differ
        changed._counted = self._counted  # what was counted is kept with what it was counted of
        return changed

    def place(self, replica: Replica) -> str | None:
        """Return the node that the replica occupies, or will when its move has succeeded."""
        if replica.name in self.moves:
            return self.moves[replica.name].destination
        return replica.node if replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING else None

    def census(self, node: str) -> Census:
        """Return the count of `on_node[node]`; counted once, since a plan asks thousands of times."""
        replicas = self.on_node[node]
        known = self._counted.get(node)
        if known is not None and known[0] is replicas:
            return known[1]
        count = _Count()
        for replica in replicas:
            count.add(replica)
        census = count.census()
        self._counted[node] = (replicas, census)
        return census

    @cached_property
    def busy(self) -> Mapping[str, int]:
        """Of how many moves in flight a node is the source or the target; none of those not named."""
        return Counter(node for move in self.moves.values() for node in {move.source, move.target})

    @cached_property
    def _leaving(self) -> Mapping[str, Resources]:
        """What each node still holds of replicas that are to leave it.

        The source does until the move ends, for a failed restore goes back there; on the way back the target
        does until nothing is left of the replica on it.
        """
        held: dict[str, Resources] = {}
        for move in self.moves.values():
            replica = self.replicas[move.replica]
            for node in {move.source, replica.node or move.source} - {move.destination}:
                held[node] = held.get(node, NOTHING) + replica.requests
        return held

    def room(self, node: str) -> Resources:
        """Return what nobody has requested on `node`, room held for moves counted as taken."""
        known = self._rooms.get(node)
        if known is not None:
            return known
        capacity, used = self.nodes[node].capacity, self.census(node).requests
        if node in self._leaving:
            used += self._leaving[node]
        room = Resources(
            cpu=max(0.0, capacity.cpu - used.cpu),
            memory=max(0.0, capacity.memory - used.memory),
            gpu=max(0.0, capacity.gpu - used.gpu),
        )
        self._rooms[node] = room
        return room

    def objection_to(self, node: str, job: str) -> str | None:
        """Return what rules a node out for the replicas of a job: a taint, a label, a volume; None: nothing.

        Whether it is ready and has room is another question.
        """
        record, constraints = self.nodes[node], self.jobs[job].spec.constraints
        restricted = record.taints or constraints.selector or constraints.terms or constraints.volumes
        if not restricted:
            return None
        known = self._objections.setdefault(constraints, {})
        if node not in known:
            known[node] = objection(record.labels, node, record.taints, constraints)
        return known[node]

    @cached_property
    def _claimed(self) -> Mapping[str, tuple[tuple[str, Resources], ...]]:
        """What is claimed on each node: (job, amount)."""
        found: dict[str, list[tuple[str, Resources]]] = {}
        for job, claim in self.claims.items():
            if claim.until <= self.now or job not in self.jobs:
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
            # job that goes on as soon as it is whole again.
            taken = [] if job == self.firm else self._taken_beside(node, job, self.firm)
        else:
            taken = self._taken_beside(node, job)
        if not taken:
            return room
        claimed = total(taken)
        return Resources(
            cpu=max(0.0, room.cpu - claimed.cpu),
            memory=max(0.0, room.memory - claimed.memory),
            gpu=max(0.0, room.gpu - claimed.gpu),
        )

    @cached_property
    def firm(self) -> str | None:
        """The job whose claim is firm and live, None where there is no such claim."""
        live = (name for name, claim in self.claims.items() if claim.firm and claim.until > self.now)
        return next((name for name in sorted(live) if name in self.jobs), None)

    def _taken_beside(self, node: str, *jobs: str | None) -> list[Resources]:
        """Return what others than these jobs claim on a node."""
        return [amount for owner, amount in self._claimed.get(node, ()) if owner not in jobs]

    def _occupies(self, job: str | None) -> bool:
        return job is not None and any(member.active for member in self.members.get(job, ()))


def _waits(replicas: Iterable[Replica], now: float) -> bool:
    """Whether something of the job is pending, nothing occupies a node, and no pause after a crash lasts."""
    pending = False
    for replica in replicas:
        if replica.phase is Phase.PENDING:
            if replica.deadline is not None and replica.deadline > now:
                return False
            pending = True
        elif replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
            return False
    return pending


def _ends(replica: Replica) -> bool:
    """Whether the replica was told to end, and not only because its job shrinks."""
    return replica.leaving is not None and replica.leaving.purpose != "scale-in"


def _natural(item: tuple[str, Node]) -> tuple[int, str]:
    """Order node-2 before node-10."""
    name = item[0]
    return (len(name), name)
