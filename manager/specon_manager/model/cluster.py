"""Nodes, jobs and replicas, and the immutable snapshot of them that policies decide on."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.model.moves import Move
from specon_manager.model.overlay import Overlay
from specon_manager.model.resources import NOTHING, Resources
from specon_sidecar.classify import Category
from specon_sidecar.curve import Estimate
from specon_sidecar.wire import Checkpoint


class Phase(StrEnum):
    """Where the life of a replica stands."""

    PENDING = "Pending"
    STARTING = "Starting"  # ordered, not yet seen
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Node(Struct, frozen=True, kw_only=True):
    """A place where replicas run; `usage` is measured, R(w, t) of SpeCon's Algorithm 2."""

    name: str
    capacity: Resources
    usage: Resources = NOTHING
    ready: bool = True


class JobSpec(Struct, frozen=True, kw_only=True):
    """A job as its owner described it."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")]
    """`namespace/job`."""
    replicas: tuple[str, ...]
    """Names of the replicas, `namespace/job/role/index`."""
    requests: Resources = NOTHING
    """What one replica reserves on its node."""
    restarts: Annotated[int, Meta(ge=0)] = 3
    """How many crashes of a replica its owner puts up with; moves never count."""
    grace_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 30.0
    """How long an evicted replica may take to end by itself."""
    checkpointing: Literal["asked", "on-termination", "none"] = "asked"
    """When the trainer writes a checkpoint for a move; a job that never does is never moved."""
    migratable: bool = True
    """Whether the owner allows moves."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """What the backend needs to start a replica; opaque to every decision."""


class Job(Struct, frozen=True, kw_only=True):
    """A submitted job; `order` counts submissions from 0."""

    spec: JobSpec
    order: int
    submitted_at: float
    ended_at: float | None = None

    @property
    def name(self) -> str:
        """`namespace/job`."""
        return self.spec.name


class Session(Struct, frozen=True, kw_only=True, gc=False):
    """One sidecar process: its last sequence number, and how many of its reports were not believed since."""

    name: str
    sequence: int
    ignored: int = 0


# `gc=False`: nothing in these records can refer back to them, and a cluster has very many of them.
class Progress(Struct, frozen=True, kw_only=True, gc=False):
    """What the sidecar of a replica last said; times on the manager's clock, seconds."""

    category: Category = Category.UNKNOWN
    category_since: float = 0.0
    reason: str = ""
    metric: str | None = None
    value: float | None = None
    step: int | None = None
    step_at: float | None = None
    total_steps: int | None = None
    gain: float | None = None
    expected_gain: Estimate | None = None
    remaining_seconds: Estimate | None = None
    checkpoint: Checkpoint | None = None
    reported_at: float | None = None
    sessions: tuple[Session, ...] = ()
    """The sidecar processes of this incarnation that were heard, the one that is believed last."""


class Replica(Struct, frozen=True, kw_only=True, gc=False):
    """One replica of a job; its name is stable over moves, its incarnation is not."""

    name: str
    job: str
    requests: Resources = NOTHING
    phase: Phase = Phase.PENDING
    node: str | None = None
    """Where it runs or last ran."""
    incarnation: str | None = None
    former: str | None = None
    """The last incarnation that is known to be gone."""
    starts: int = 0
    """How many incarnations were ordered; the next one's ordinal."""
    deadline: float | None = None
    """When an ordered start is overdue, or before when a crashed replica is not started again."""
    progress: Progress = Progress()
    crashes: int = 0
    moves: int = 0
    """Moves that succeeded."""
    attempts: int = 0
    """Moves that did not, since the last that did."""
    moved_for: tuple[str, ...] = ()
    """Purposes for which it was moved, or looked at and left (literal mode)."""
    cooldown_until: float = 0.0
    ended_at: float | None = None
    note: str = ""

    @property
    def active(self) -> bool:
        """Whether it occupies a node."""
        return self.phase is Phase.RUNNING or self.phase is Phase.STARTING

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.phase in {Phase.SUCCEEDED, Phase.FAILED}


class Census(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas of a node, counted."""

    replicas: int
    converged: int
    watching: int
    requests: Resources
    """Of all of them together."""


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
    ) -> None:
        """Take the records as they are; `moves` are those in flight, by replica."""
        self.now = now
        self.nodes = nodes
        self.jobs = jobs
        self.replicas = replicas
        self.moves = moves
        self._counted: dict[str, tuple[tuple[Replica, ...], Census]] = {}
        self._rooms: dict[str, Resources] = {}

    @cached_property
    def ready_nodes(self) -> tuple[Node, ...]:
        """The nodes that take replicas, by name."""
        return tuple(node for _, node in sorted(self.nodes.items(), key=_natural) if node.ready)

    @cached_property
    def on_node(self) -> Mapping[str, tuple[Replica, ...]]:
        """The active replicas of each node as they will be when every move in flight has succeeded."""
        found: dict[str | None, list[Replica]] = {node: [] for node in self.nodes}
        moves = self.moves
        for replica in self.replicas.values():
            # `place`, written out: this loop is most of a plan of a large cluster.
            if replica.name in moves:
                place: str | None = moves[replica.name].destination
            elif replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
                place = replica.node
            else:
                continue
            if place in found:
                found[place].append(replica)
        return {node: tuple(found[node]) for node in self.nodes}

    @cached_property
    def settled(self) -> tuple[Replica, ...]:
        """The converged replicas that run and are in no move."""
        return tuple(
            replica
            for replica in self.replicas.values()
            if replica.phase is Phase.RUNNING
            and replica.progress.category is Category.CONVERGED
            and replica.name not in self.moves
        )

    def with_start(self, replica: Replica, node: str) -> "Snapshot":
        """Return the snapshot in which the replica was started on `node`."""
        started = msgspec.structs.replace(replica, phase=Phase.STARTING, node=node)
        return self._changed(replica, started, self.moves)

    def with_move(self, move: Move) -> "Snapshot":
        """Return the snapshot in which the move is in flight."""
        replica = self.replicas[move.replica]
        return self._changed(replica, replica, {**self.moves, move.replica: move})

    def _changed(self, before: Replica, after: Replica, moves: Mapping[str, Move]) -> "Snapshot":
        """Return a copy that differs in one replica, without counting the whole cluster anew."""
        replicas = self.replicas
        if before is not after:
            known = replicas if isinstance(replicas, Overlay) else Overlay(replicas, {})
            replicas = known.with_change(after.name, after)
        changed = Snapshot(now=self.now, nodes=self.nodes, jobs=self.jobs, replicas=replicas, moves=moves)
        on_node = dict(self.on_node)
        left, joined = self.place(before), changed.place(after)
        if left in on_node:
            on_node[left] = tuple(replica for replica in on_node[left] if replica.name != before.name)
        if joined in on_node:
            on_node[joined] = (*on_node[joined], after)
        changed.__dict__["on_node"] = on_node  # what cached_property would compute
        changed.__dict__["ready_nodes"] = self.ready_nodes
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
        converged = watching = 0
        cpu = memory = gpu = 0.0
        for replica in replicas:
            category, requests = replica.progress.category, replica.requests
            converged += category is Category.CONVERGED
            watching += category is Category.WATCHING
            cpu, memory, gpu = cpu + requests.cpu, memory + requests.memory, gpu + requests.gpu
        requested = Resources(cpu=cpu, memory=memory, gpu=gpu)
        census = Census(replicas=len(replicas), converged=converged, watching=watching, requests=requested)
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


def _natural(item: tuple[str, Node]) -> tuple[int, str]:
    """Order node-2 before node-10."""
    name = item[0]
    return (len(name), name)
