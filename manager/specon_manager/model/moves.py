"""A move: the durable record of one migration, and the states it may pass through."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from specon_sidecar.wire import Checkpoint


class MoveState(StrEnum):
    """Where a migration stands; every state survives a crash of the manager."""

    PROPOSED = "Proposed"
    RESERVED = "Reserved"
    CHECKPOINTING = "Checkpointing"
    EVICTING = "Evicting"
    RESTORING = "Restoring"
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


FINAL_STATES: Final = frozenset({MoveState.SUCCEEDED, MoveState.ROLLED_BACK, MoveState.FAILED})
ASKING_STATES: Final = frozenset({MoveState.RESERVED, MoveState.CHECKPOINTING})
"""The states in which a checkpoint is asked for."""


class MoveOutcome(StrEnum):
    """What can happen to a move; each is derived from one event."""

    ROOM_HELD = "room on the target is held"
    ROOM_REFUSED = "no room on the target"
    CHECKPOINT_ASKED = "the sidecar knows of the request"
    CHECKPOINT_VERIFIED = "the checkpoint is verified"
    CHECKPOINT_REFUSED = "no checkpoint"
    GONE = "the replica is gone"
    FINISHED = "the training finished"
    STARTED = "the new incarnation runs"
    EVICTION_REFUSED = "the replica cannot be evicted"
    START_REFUSED = "the new incarnation could not be started"
    PROGRESSED = "a step after the checkpoint was reported"
    OVERDUE = "took too long"
    TARGET_LOST = "the target is not ready"
    JOB_GONE = "its job is gone"


class Move(Struct, frozen=True, kw_only=True):
    """One migration of one replica from a source to a target node."""

    id: str
    replica: str
    source: str
    target: str
    policy: str
    purpose: str
    """`migrate` (SpeCon's Algorithm 2), `rebalance` (Algorithm 3), or what another policy calls it."""
    reason: str
    state: MoveState
    proposed_at: float
    deadline: float
    """When the present state is overdue, seconds on the manager's clock."""
    incarnation: str | None
    """The incarnation that is to be evicted, or, from Restoring on, the one that was started."""
    attempt: int = 1
    """1 restores on the target, 2 back on the source."""
    checkpoint: Checkpoint | None = None
    """The verified checkpoint that permitted the eviction."""
    last_step_before: int | None = None
    last_step_at: float | None = None
    first_step_after: int | None = None
    resumed_from: int | None = None
    """Step of the newest checkpoint when the new incarnation was started."""
    evicted_at: float | None = None
    gone_at: float | None = None
    restarted_at: float | None = None
    ended_at: float | None = None
    downtime: float | None = None
    """Last step before to first step after, seconds."""
    steps_lost: int | None = None
    """Steps that were trained before and had to be trained again."""
    note: str = ""
    """Why the move ended as it did."""

    @property
    def in_flight(self) -> bool:
        """Whether the move has not ended."""
        return self.state not in FINAL_STATES

    @property
    def destination(self) -> str:
        """The node on which the replica will run when the present attempt succeeds."""
        return self.target if self.attempt == 1 else self.source
