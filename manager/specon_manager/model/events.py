"""Everything that can happen to the manager. Failures are events too."""

from collections.abc import Mapping

from msgspec import Struct, field

from specon_manager.model.cluster import JobSpec
from specon_manager.model.constraints import Taint
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_sidecar.wire import Acknowledgement, Report


class ManagerStarted(Struct, frozen=True, tag=True):
    """A manager took over this state, perhaps with new settings; it repeats the orders in flight."""

    manager: str
    settings: Settings


class Tick(Struct, frozen=True, tag=True):
    """Time has passed: deadlines are looked at and the policy is asked."""


class NodeObserved(Struct, frozen=True, tag=True, kw_only=True):
    """A node is there, with its capacity and its measured usage."""

    node: str
    capacity: Resources
    usage: Resources
    ready: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    warnings: tuple[str, ...] = ()
    """By what it is announced that the node is to be emptied; see `Settings.warnings`."""
    leaves_at: float | None = None
    """When that begins, seconds; None where nobody says."""


class NodeGone(Struct, frozen=True, tag=True, kw_only=True):
    """A node is not there any more."""

    node: str


class JobSubmitted(Struct, frozen=True, tag=True):
    """An owner submitted a job."""

    spec: JobSpec


class JobObserved(Struct, frozen=True, tag=True):
    """A job that its owner places is there, or its description has changed."""

    spec: JobSpec


class JobGone(Struct, frozen=True, tag=True, kw_only=True):
    """A job that its owner places is not there any more: it was deleted, or is managed no longer."""

    job: str
    reason: str = ""


class ReplicaStarted(Struct, frozen=True, tag=True, kw_only=True):
    """An incarnation of a replica runs on a node."""

    replica: str
    incarnation: str
    node: str
    start: int | None = None
    """The number of the start that ordered it; None where its owner started it by itself."""


class ReplicaWarned(Struct, frozen=True, tag=True, kw_only=True):
    """What an incarnation of a replica needs is about to be taken from it; or no longer."""

    replica: str
    incarnation: str
    why: str = ""
    """In words; empty: no longer."""
    leaves_at: float | None = None
    """When that happens, seconds; None where nobody says."""


class StartRefused(Struct, frozen=True, tag=True, kw_only=True):
    """An ordered start did not come about."""

    replica: str
    start: int
    reason: str


class ReplicaGone(Struct, frozen=True, tag=True, kw_only=True):
    """No process of that incarnation is left.

    `incarnation` None answers an eviction of whichever there is: the replica has none at all.
    """

    replica: str
    incarnation: str | None
    exit_code: int | None = None
    """None when it was killed by a signal, or when nobody knows."""
    evicted: bool = False
    """Whether it was told to end before it ended."""
    killed: bool = False
    """Whether its grace period was over, so that it was killed."""
    reason: str = ""


class ReportReceived(Struct, frozen=True, tag=True):
    """A sidecar reported; the message is validated and comes from that replica."""

    report: Report


class InstructionDelivered(Struct, frozen=True, tag=True, kw_only=True):
    """A sidecar fetched an instruction."""

    id: str
    replica: str
    incarnation: str


class InstructionAcknowledged(Struct, frozen=True, tag=True):
    """A sidecar carried an instruction out, or says why not."""

    acknowledgement: Acknowledgement


class EvictionRefused(Struct, frozen=True, tag=True, kw_only=True):
    """An incarnation cannot be made to end: it trains on where it is."""

    replica: str
    incarnation: str | None
    reason: str


class JobRefused(Struct, frozen=True, tag=True, kw_only=True):
    """The owner of a job cannot carry out an order."""

    job: str
    transaction: str
    reason: str


class SidecarMissing(Struct, frozen=True, tag=True, kw_only=True):
    """A pod of a transaction came without a sidecar, and is sent back so that another one comes."""

    transaction: str
    replica: str
    count: int
    """With it, how many of the replica's pods were sent back since the transaction began."""


class QueuesObserved(Struct, frozen=True, tag=True, kw_only=True):
    """These queues are there, with their quotas; others are not any more."""

    queues: tuple[Queue, ...]
    shares: Mapping[str, float] = field(default_factory=dict)
    """What a former manager has written down of their use over time, by queue; see `QueueShare.mean`."""


class MoveRequested(Struct, frozen=True, tag=True, kw_only=True):
    """Someone asks for a move; `id` becomes the move's, with `target` None the manager chooses the node.

    It is of one replica, or of a whole `job`; of a job whose replicas train as one it is of all of it anyway.
    """

    id: str
    replica: str = ""
    target: str | None = None
    reason: str = ""
    job: str = ""
    targets: tuple[str, ...] = ()
    """Of a job: the nodes that it may go to; none: the manager chooses among all."""
    leave: str = ""
    """Of one replica: the node that someone else takes it off; see `Request`."""


class SaveRequested(Struct, frozen=True, tag=True, kw_only=True):
    """Somebody else is about to end a replica: it, or all that trains as one with it, is to save first.

    Nothing is moved. `id` becomes that of the transaction, which is over once the checkpoint is verified.
    """

    id: str
    replica: str
    reason: str = ""


class Paused(Struct, frozen=True, tag=True, kw_only=True):
    """Someone wants nothing new to be ordered; transactions in flight continue to their end."""

    reason: str | None
    """In words, perhaps none at all; None ends the pause."""


class OrderExpired(Struct, frozen=True, tag=True, kw_only=True):
    """Something was not told to end, for the checkpoint that permits it has grown old (`fresh_until`)."""

    transaction: str


class RequestWithdrawn(Struct, frozen=True, tag=True, kw_only=True):
    """Someone wants a move no more that was asked for and has not begun."""

    id: str
    reason: str = ""


class RoomHeld(Struct, frozen=True, tag=True, kw_only=True):
    """Room for a replica is held on the node that it is to move to."""

    transaction: str
    replica: str


class RoomRefused(Struct, frozen=True, tag=True, kw_only=True):
    """Room for a replica cannot be held on the node that it is to move to."""

    transaction: str
    replica: str
    reason: str


Event = (
    ManagerStarted
    | Tick
    | NodeObserved
    | NodeGone
    | JobSubmitted
    | JobObserved
    | JobGone
    | ReplicaStarted
    | ReplicaWarned
    | StartRefused
    | ReplicaGone
    | ReportReceived
    | InstructionDelivered
    | InstructionAcknowledged
    | EvictionRefused
    | JobRefused
    | QueuesObserved
    | MoveRequested
    | SaveRequested
    | Paused
    | OrderExpired
    | SidecarMissing
    | RequestWithdrawn
    | RoomHeld
    | RoomRefused
)
