"""A change of a job as a whole: the durable record of an admission, a scaling or a preemption.

Jobs that are changed like this have a verified checkpoint first, and prove afterwards that they train with
the new number of workers. Those of simulations of the papers change at once (`JobSpec.resizing`).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from specon_sidecar.wire import Checkpoint


class ChangeKind(StrEnum):
    """What is changed."""

    ADMIT = "admit"
    SCALE_OUT = "scale-out"
    SCALE_IN = "scale-in"
    PREEMPT = "preempt"


class ChangeState(StrEnum):
    """Where a change stands; every state survives a crash of the manager."""

    CHECKPOINTING = "Checkpointing"
    LEAVING = "Leaving"  # replicas were told to end and are not gone yet
    COMING = "Coming"  # replicas were told to start and do not all run yet
    VERIFYING = "Verifying"  # all run, and have to show that they train
    SUCCEEDED = "Succeeded"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


OVER: Final = frozenset({ChangeState.SUCCEEDED, ChangeState.ROLLED_BACK, ChangeState.FAILED})


class Change(Struct, frozen=True, kw_only=True):
    """One change of one job; a job has one in flight at most, and none while one of its replicas moves."""

    id: str
    job: str
    kind: ChangeKind
    policy: str
    reason: str
    state: ChangeState
    proposed_at: float
    deadline: float
    """When the present state is overdue, seconds on the manager's clock."""
    before: Mapping[str, str]
    """Node by replica, of what ran when it began."""
    after: Mapping[str, str]
    """Node by replica, of what is to run when it has succeeded; empty for a preemption."""
    restart: bool = False
    """Whether all of the job ends before it starts with the new number of workers."""
    beneficiary: str = ""
    """The job for which room is made, where that is known."""
    attempt: int = 1
    """1 is on the way to `after`, 2 on the way back to `before`."""
    lead: str = ""
    """The replica whose checkpoint stands for the job's, and whose steps prove that it trains: worker 0."""
    incarnation: str | None = None
    """Of the lead, when its checkpoint was asked for."""
    checkpoint: Checkpoint | None = None
    """The verified checkpoint that permitted the change."""
    last_step_before: int | None = None
    last_step_at: float | None = None
    first_step_after: int | None = None
    changing_at: float | None = None
    """When replicas were first told to end or to start."""
    repeats: int = 0
    """How often the orders to leave were given again because they were not obeyed."""
    running_at: float | None = None
    """When all wanted replicas were last seen to run."""
    proven: bool = False
    """Whether the lead has shown since then that it trains."""
    ended_at: float | None = None
    downtime: float | None = None
    """Last step before to first step after, seconds."""
    note: str = ""
    """Why it ended as it did."""

    @property
    def in_flight(self) -> bool:
        """Whether it has not ended."""
        return self.state not in OVER

    @property
    def wanted(self) -> Mapping[str, str]:
        """Node by replica, of what is to run when the present attempt succeeds."""
        return self.after if self.attempt == 1 else self.before
