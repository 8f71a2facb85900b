"""Nodes, jobs and replicas, and the immutable snapshot of them that policies decide on."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.model.moves import Move, MoveState
from specon_manager.model.overlay import Overlay
from specon_manager.model.resources import NOTHING, Resources, total
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
    restarts: int = 3
    """How many crashes of a replica its owner puts up with; moves never count."""
    grace_seconds: float = 30.0
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


class Progress(Struct, frozen=True, kw_only=True):
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
    session: str = ""
    sequence: int = -1
    retired_sessions: tuple[str, ...] = ()


class Replica(Struct, frozen=True, kw_only=True):
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

    @cached_property
    def ready_nodes(self) -> tuple[Node, ...]:
        """The nodes that take replicas, by name."""
        return tuple(node for _, node in sorted(self.nodes.items(), key=_natural) if node.ready)

    @cached_property
    def on_node(self) -> Mapping[str, tuple[Replica, ...]]:
        """The active replicas of each node as they will be when every move in flight has succeeded."""
        found: dict[str, list[Replica]] = defaultdict(list)
        for replica in self.replicas.values():
            place = self.place(replica)
            if place is not None:
                found[place].append(replica)
        return {node: tuple(found.get(node, ())) for node in self.nodes}

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
        replicas = self.replicas if before is after else Overlay(self.replicas, {after.name: after})
        changed = Snapshot(now=self.now, nodes=self.nodes, jobs=self.jobs, replicas=replicas, moves=moves)
        differing: dict[str, tuple[Replica, ...]] = {}
        left, joined = self.place(before), changed.place(after)
        if left in self.on_node:
            differing[left] = tuple(replica for replica in self.on_node[left] if replica.name != before.name)
        if joined in self.on_node:
            differing[joined] = (*differing.get(joined, self.on_node[joined]), after)
        # What cached_property would compute.
        changed.__dict__["on_node"] = Overlay(self.on_node, differing) if differing else self.on_node
        changed.__dict__["ready_nodes"] = self.ready_nodes
        changed._counted = self._counted  # noqa: SLF001 - holds what was counted with what it was counted of
        return changed

    def place(self, replica: Replica) -> str | None:
        """Return the node that the replica occupies, or will when its move has succeeded."""
        move = self.moves.get(replica.name)
        if move is not None:
            return move.destination
        return replica.node if replica.active else None

    def census(self, node: str) -> Census:
        """Return the count of `on_node[node]`; counted once, since a plan asks thousands of times."""
        replicas = self.on_node.get(node, ())
        known = self._counted.get(node)
        if known is not None and known[0] is replicas:
            return known[1]
        categories = [replica.progress.category for replica in replicas]
        census = Census(
            replicas=len(replicas),
            converged=categories.count(Category.CONVERGED),
            watching=categories.count(Category.WATCHING),
            requests=total([replica.requests for replica in replicas]),
        )
        self._counted[node] = (replicas, census)
        return census

    @cached_property
    def busy(self) -> Mapping[str, int]:
        """How many moves in flight each node is the source or the target of; 0 for those not named."""
        return Counter(node for move in self.moves.values() for node in {move.source, move.target})

    @cached_property
    def _leaving(self) -> Mapping[str, Resources]:
        """What each node still holds of replicas that are to leave it."""
        held: dict[str, Resources] = {}
        for move in self.moves.values():
            if move.source != move.destination and move.state not in _LEFT:
                held[move.source] = held.get(move.source, NOTHING) + self.replicas[move.replica].requests
        return held

    def room(self, node: str) -> Resources:
        """Return what nobody has requested on `node`, room held for moves counted as taken."""
        used = self.census(node).requests
        if node in self._leaving:
            used += self._leaving[node]
        capacity = self.nodes[node].capacity
        return Resources(
            cpu=max(0.0, capacity.cpu - used.cpu),
            memory=max(0.0, capacity.memory - used.memory),
            gpu=max(0.0, capacity.gpu - used.gpu),
        )


_LEFT = frozenset({MoveState.RESTORING, MoveState.VERIFYING})


def _natural(item: tuple[str, Node]) -> tuple[int, str]:
    """Order node-2 before node-10."""
    name = item[0]
    return (len(name), name)
