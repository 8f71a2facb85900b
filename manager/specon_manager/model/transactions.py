"""A transaction: the durable record of one change of where replicas run, whatever kind of change it is.

A move of one replica, a move of a gang, an admission, a scaling and a preemption differ in what runs before
and after, and in who must start again; they pass through the same states.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from specon_sidecar.wire import Checkpoint


class Kind(StrEnum):
    """The kind of change."""

    MOVE = "move"
    ADMIT = "admit"
    SCALE_OUT = "scale-out"
    SCALE_IN = "scale-in"
    PREEMPT = "preempt"
    RESTART = "restart"  # what hangs ends and starts again where it is, from what it saved last
    PUT_BACK = "put-back"  # a gang that misses a member for too long waits again as a whole


class TransactionState(StrEnum):
    """Where a transaction stands; every state survives a crash of the manager."""

    PROPOSED = "Proposed"  # room is about to be held
    RESERVED = "Reserved"  # room is held, and checkpoints are asked for
    CHECKPOINTING = "Checkpointing"  # the sidecars know of the request
    LEAVING = "Leaving"  # replicas were told to end and are not all gone
    COMING = "Coming"  # replicas were told to start and do not all run
    VERIFYING = "Verifying"  # all run, and have to show that they train
    SUCCEEDED = "Succeeded"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"
    REFUSED = "Refused"  # asked for, and never begun


FINAL_STATES: Final = frozenset(
    {
        TransactionState.SUCCEEDED,
        TransactionState.ROLLED_BACK,
        TransactionState.FAILED,
        TransactionState.REFUSED,
    }
)
ASKING_STATES: Final = frozenset({TransactionState.RESERVED, TransactionState.CHECKPOINTING})
"""The states in which checkpoints are asked for."""
UNTOUCHED_STATES: Final = ASKING_STATES | {TransactionState.PROPOSED}
"""The states in which nothing was told to end or to start yet."""


class Witness(Struct, frozen=True, kw_only=True):
    """A replica whose checkpoint permits a transaction, and whose steps prove that training continues.

    It stands for itself, or for all of its job where the replicas train as one. Times are seconds on the
    manager's clock.
    """

    incarnation: str | None = None
    """The one that was asked for a checkpoint."""
    checkpoint: Checkpoint | None = None
    """The verified checkpoint from which it continues."""
    checkpoint_at: float | None = None
    """When that was known to be verified."""
    answered: bool = False
    """Whether it has answered so that the transaction may continue."""
    asked_step: int | None = None
    """Step of its log when it was asked for a checkpoint."""
    asked_for: bool = False
    """Whether the checkpoint is one that was made since it was asked for."""
    began_step: int | None = None
    """The step at which it once started: the first that any of its incarnations named."""
    step_gap: int | None = None
    """How many steps lie between two that its log names, at most; None where nobody knows."""
    last_step: int | None = None
    """Last step before it was told to end."""
    last_step_at: float | None = None
    first_step: int | None = None
    """First step afterwards."""
    resumed_from: int | None = None
    """Step of the newest checkpoint when the new incarnation was ordered."""
    proven: bool = False
    """Whether it has shown a step after the checkpoint's since every wanted replica runs."""
    downtime: float | None = None
    """Last step before to first step after, seconds."""
    steps_lost: int | None = None
    """Steps that were trained before and had to be trained again."""


class Transaction(Struct, frozen=True, kw_only=True):
    """One change of where the replicas of a job run.

    A replica is in one transaction at most; one of the whole job excludes all others of that job.
    """

    id: str
    kind: Kind
    job: str
    before: Mapping[str, str]
    """Node by replica, of what it is about and ran when it began."""
    after: Mapping[str, str]
    """Node by replica, of those that are to run when it has succeeded; "" is wherever its owner likes."""
    whole: bool = False
    """Whether it is about the job as a whole."""
    restart: bool = False
    """Whether all that it is about ends before any of it starts, also what stays on its node."""
    policy: str
    purpose: str = ""
    """Of a move: `migrate` (SpeCon's Algorithm 2), `rebalance` (Algorithm 3), or another policy's word."""
    reason: str
    beneficiary: str = ""
    """The job for which room is made, where that is known."""
    state: TransactionState
    proposed_at: float
    deadline: float
    """When the present state is overdue."""
    attempt: int = 1
    """1 is on the way to `after`, 2 on the way back to `before`."""
    witnesses: Mapping[str, Witness] = field(default_factory=dict)
    """By replica."""
    held: tuple[str, ...] = ()
    """Replicas for which room is held."""
    asks: int = 1
    """How often checkpoints were asked for: once more where one grew old before it was acted upon."""
    trouble: str = ""
    """What the present state was refused with, in words; empty while nothing is known to be wrong."""
    stale: bool = False
    """Whether what permits the end was too old when it was to be acted upon."""
    ending: Mapping[str, str] = field(default_factory=dict)
    """Incarnation by replica, of those told to end on the present way; "" is whichever there is."""
    repeats: int = 0
    """How often the present orders to end were given again because they were not obeyed."""
    missing_sidecars: Mapping[str, int] = field(default_factory=dict)
    """By replica, how many of its pods came without a sidecar and were sent back, on both ways together."""
    killed: tuple[str, ...] = ()
    """Replicas that did not end within their grace period, and were killed."""
    stuck: str = ""
    """Why it cannot come to an end, in words; a stuck one counts in no budget, and is tried on."""
    changing_at: float | None = None
    """When something was first told to end or to start."""
    gone_at: float | None = None
    """When all that was to leave was first gone."""
    running_at: float | None = None
    """When all that is wanted was last seen to run."""
    ended_at: float | None = None
    note: str = ""
    """Why it ended as it did, or what happened to it last."""

    @property
    def in_flight(self) -> bool:
        """Whether it has not ended."""
        return self.state not in FINAL_STATES

    @property
    def wanted(self) -> Mapping[str, str]:
        """Node by replica, of those that are to run when the present attempt succeeds."""
        return self.after if self.attempt == 1 else self.before

    @property
    def concerned(self) -> tuple[str, ...]:
        """The replicas that it is about, by name."""
        return tuple(sorted({*self.before, *self.after}))

    @property
    def request(self) -> str:
        """The id under which checkpoints are asked for: another one each time."""
        return self.id if self.asks == 1 else f"{self.id}.{self.asks}"

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that something of it leaves or joins."""
        ways = ((self.before.get(name), self.after.get(name)) for name in self.concerned)
        return frozenset(node for way in ways if self.restart or way[0] != way[1] for node in way if node)

    @property
    def moved(self) -> tuple[str, ...]:
        """The replicas that are to run on another node than before, or that did not run, by name."""
        return tuple(sorted(name for name, node in self.after.items() if self.before.get(name) != node))

    @property
    def keeps_way_back(self) -> bool:
        """Whether what leaves a node keeps its room there until the end: else that room is what it is for."""
        return self.kind is Kind.MOVE

    @property
    def came_back(self) -> bool:
        """Whether it is a move whose replicas were all put where they ran before."""
        return self.kind is Kind.MOVE and self.after == self.before

    @property
    def saved_in_place(self) -> bool:
        """Whether it was to save where it is, for somebody else to end it, and has."""
        return self.purpose in IN_PLACE and self.note in {SAVED, MAY_GO}

    @property
    def counts(self) -> bool:
        """Whether it counts in the budgets of transactions in flight."""
        return not self.stuck

    # A move of one replica, as those see it who show or count moves.

    @property
    def replica(self) -> str:
        """The first replica that it is about; of a move of one, that one; empty where it names none."""
        return next(iter(self.concerned), "")

    @property
    def source(self) -> str:
        """Where the first replica ran; empty where it did not."""
        return self.before.get(self.replica, "")

    @property
    def target(self) -> str:
        """Where the first replica is to run; empty where it is not to."""
        return self.after.get(self.replica, "")

    @property
    def destination(self) -> str:
        """Where the first replica runs when the present attempt succeeds."""
        return self.wanted.get(self.replica, "")

    # What it cost.

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The oldest of the checkpoints from which its witnesses go on; None where one has none."""
        found = [witness.checkpoint for witness in self.witnesses.values()]
        whole = [checkpoint for checkpoint in found if checkpoint is not None]
        return min(whole, key=lambda each: each.step) if whole and len(whole) == len(found) else None

    @property
    def downtime(self) -> float | None:
        """Last step before to first step after, of whichever witness it took longest, seconds."""
        return max((w.downtime for w in self.witnesses.values() if w.downtime is not None), default=None)

    @property
    def steps_lost(self) -> int | None:
        """Steps that had to be trained again, of all witnesses together.

        Where all of it starts again its replicas train as one: a step that one lost all have lost.
        """
        lost = [w.steps_lost for w in self.witnesses.values() if w.steps_lost is not None]
        if not lost:
            return None
        return max(lost) if self.restart else sum(lost)

    @property
    def last_step_before(self) -> int | None:
        """The last step before, of the first witness."""
        return next((witness.last_step for witness in self.witnesses.values()), None)

    @property
    def first_step_after(self) -> int | None:
        """The first step after, of the first witness."""
        return next((witness.first_step for witness in self.witnesses.values()), None)


YIELDING: Final = "yield"
"""Purpose of a move to where it is, of what someone takes off a node and nothing else has room for.

It ends as soon as the checkpoint is verified: then its pod may go, and its owner creates the next one.
"""
MAY_GO: Final = "its checkpoint is verified and no other node can take it: it may go"
"""The note of such a move."""
RESUMED: Final = "its user resumed it meanwhile"
"""Why the owner of a job is not told anything more: somebody let it run while it was to be away."""
SAVING: Final = "save"
"""Purpose of a move to where it is, of what somebody else is about to end, whatever becomes of it then."""
SAVED: Final = "its checkpoint is verified: it may be ended"
"""The note of such a move that has come to its end."""
IN_PLACE: Final = frozenset({YIELDING, SAVING})
"""Purposes of moves that go nowhere, and end as soon as the checkpoint is verified."""


HAS_LEFT: Final = "it has left "
"""With this the note of a request begins whose replica is not on the node any more that it was to leave."""
HAS_WAITED: Final = "it has waited for "
"""How the refusal of a request begins that waited for too long, before what it waited for."""


class Request(Struct, frozen=True, kw_only=True):
    """A move that a person or another program asked for and that waits for the transactions in flight."""

    id: str
    replica: str = ""
    """Empty where it is of a whole job."""
    target: str | None = None
    """None: the manager chooses the node."""
    job: str = ""
    """Of a whole job: which; else empty."""
    targets: tuple[str, ...] = ()
    """Of a whole job: the nodes that it may go to; none: the manager chooses among all."""
    leave: str = ""
    """Of one replica: the node that it is to leave, over with once it is not there any more; empty: any.

    Where no other node can take it its checkpoint is verified, and that is all: see `YIELDING`.
    """
    reason: str = ""
    at: float
    """When it was asked for, seconds on the manager's clock."""
    waits_for: str = ""
    """What stands in its way now, in words."""
