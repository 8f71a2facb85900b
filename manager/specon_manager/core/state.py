"""The manager's whole memory as one immutable record."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.model.actions import Decision
from specon_manager.model.cluster import Job, Node, Replica, Snapshot
from specon_manager.model.moves import Move

Seconds = Annotated[float, Meta(gt=0)]


class Budgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much disturbance at once the owner of the cluster accepts."""

    moves_at_once: Annotated[int, Meta(ge=0)] = 4
    """In the whole cluster."""
    moves_at_once_per_node: Annotated[int, Meta(ge=1)] = 1
    """With this node as source or target."""
    moves_per_replica: Annotated[int, Meta(ge=0)] = 4
    """Successful moves in the life of a replica."""
    cooldown: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds between two moves of one replica."""
    retry_cooldown: Annotated[float, Meta(ge=0)] = 120.0
    """Seconds after a move that did not succeed, doubled with each further one."""


class Gate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The do-no-harm gate: what a move must promise before it is ordered."""

    enabled: bool = True
    horizon: Seconds = 120.0
    """How far ahead a gain is counted where the remaining time of the replica is not known, seconds."""
    margin: Annotated[float, Meta(ge=0)] = 1.0
    """How many times its cost a move must gain."""
    expected_downtime: Annotated[float, Meta(ge=0)] = 5.0
    """Cost of a move before any was measured, seconds (the paper's save and restore overhead)."""


class Deadlines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long each part of the work may take, seconds."""

    start: Seconds = 60.0
    hold: Seconds = 30.0
    checkpoint: Seconds = 120.0
    eviction_margin: Seconds = 10.0
    """Beyond the grace period."""
    verify: Seconds = 180.0
    """From the start of the new incarnation to a step after the checkpoint."""
    crash_backoff: Seconds = 2.0
    """Before the first restart after a crash, doubled with each further one."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner of the cluster decided."""

    policy: str = "specon"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    gate: Gate = Gate()
    deadlines: Deadlines = Deadlines()
    tick: Seconds = 5.0
    """How often deadlines are looked at and the policy is asked when nothing else happens."""


class Measured(Struct, frozen=True, kw_only=True):
    """What moves have cost so far, as running means."""

    moves: int = 0
    downtime: float = 0.0
    steps_lost: float = 0.0


class State(Struct, frozen=True, kw_only=True):
    """Everything known. `step` makes a new one; nothing in it is ever changed in place."""

    settings: Settings = Settings()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    replicas: Mapping[str, Replica] = field(default_factory=dict)
    moves: Mapping[str, Move] = field(default_factory=dict)
    """Those in flight, by replica: a replica has one at most."""
    history: tuple[Move, ...] = ()
    """Moves that ended, oldest first, the latest few hundred."""
    verdicts: Mapping[str, Decision] = field(default_factory=dict)
    """The last decision on each replica."""
    decisions: tuple[Decision, ...] = ()
    """The latest decisions, oldest first, each only when it differs from the one before on that replica."""
    measured: Measured = Measured()
    move_count: int = 0

    def snapshot(self, now: float) -> Snapshot:
        """Return what policies may look at."""
        return Snapshot(now=now, nodes=self.nodes, jobs=self.jobs, replicas=self.replicas, moves=self.moves)

    def with_replica(self, replica: Replica) -> "State":
        """Return the state with this replica in place of its former record."""
        return msgspec.structs.replace(self, replicas={**self.replicas, replica.name: replica})

    def with_move(self, move: Move) -> "State":
        """Return the state with this move in flight."""
        return msgspec.structs.replace(self, moves={**self.moves, move.replica: move})
