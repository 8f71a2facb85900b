"""What policies propose and what `step` orders. Each carries its reason; each order is idempotent."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field

from specon_manager.model.resources import Resources


class Words(Struct, frozen=True, gc=False):
    """A reason that becomes words when someone reads it, by `str`; policies add values and words.

    On a large cluster thousands of moves are proposed at each Tick, and hardly any is ordered or news: their
    words would take longer than their choice. The values do not change, and so the words do not. Records and
    orders have plain strings.
    """

    def __str__(self) -> str:
        raise NotImplementedError


class Admit(Struct, frozen=True, tag=True, kw_only=True, gc=False):
    """Proposal: start a pending replica on a node."""

    replica: str
    node: str
    reason: str


class Migrate(Struct, frozen=True, tag=True, kw_only=True, gc=False):
    """Proposal: move a running replica to another node."""

    replica: str
    target: str
    purpose: str
    reason: str | Words
    beneficiary: str = ""
    """The waiting job for which the action makes room, if there is one; room kept for that job is open."""


class MigrateGang(Struct, frozen=True, tag=True, kw_only=True):
    """Proposal: move a job whose replicas train as one, as a whole: every replica ends, and starts again.

    The placement names every replica that the job has at present; some may stay on their nodes.
    """

    job: str
    placement: Mapping[str, str]
    """Node by replica."""
    purpose: str
    reason: str | Words
    beneficiary: str = ""
    """As of `Migrate`."""


DEFRAGMENT: Final = "defragment"
"""The purpose of a move that makes room for a job which waits: its plan has weighed what it costs."""
FASTER: Final = "faster"
"""The purpose of a move to where a job was measured to train faster: what it costs was weighed already."""


class Stay(Struct, frozen=True, tag=True, kw_only=True, gc=False):
    """Proposal: leave a replica where it is, and remember that it was looked at for this purpose."""

    replica: str
    purpose: str
    reason: str


class AdmitGang(Struct, frozen=True, tag=True, kw_only=True):
    """Proposal: start a waiting job as a whole, each replica on its node.

    The placement names every parameter server and at least the fewest workers that the job can train with.
    """

    job: str
    placement: Mapping[str, str]
    """Node by replica. Workers that are not named stay absent."""
    reason: str


class ScaleOut(Struct, frozen=True, tag=True, kw_only=True):
    """Proposal: start more workers of a running job."""

    job: str
    placement: Mapping[str, str]
    """Node by absent worker."""
    reason: str


class ScaleIn(Struct, frozen=True, tag=True, kw_only=True):
    """Proposal: end some workers of a running job; never worker 0, never a parameter server."""

    job: str
    replicas: tuple[str, ...]
    reason: str


class Preempt(Struct, frozen=True, tag=True, kw_only=True):
    """Proposal: end a running job within its grace period and let it wait again."""

    job: str
    reason: str
    beneficiary: str = ""
    """The job for which it is to make room, where there is one."""


class Claim(Struct, frozen=True, tag=True, kw_only=True):
    """Proposal: keep the room that becomes free on these nodes for a waiting job.

    It lasts until the job is admitted, another claim takes its place, or its deadline passes. An empty
    placement gives the claim up.
    """

    job: str
    placement: Mapping[str, str]
    reason: str


class Reweight(Struct, frozen=True, tag=True, kw_only=True, gc=False):
    """Proposal: change the weight with which a replica shares the processors of its node, in place."""

    replica: str
    weight: float
    reason: str


Proposal = Admit | Migrate | MigrateGang | Stay | AdmitGang | ScaleOut | ScaleIn | Preempt | Claim | Reweight


def subject(proposal: Proposal) -> str:
    """Return the replica that the proposal is about, or the job."""
    return proposal.replica if isinstance(proposal, Admit | Migrate | Stay | Reweight) else proposal.job


class StartReplica(Struct, frozen=True, tag=True, kw_only=True):
    """Order: start incarnation number `start` of a replica on a node; never beside a live one."""

    replica: str
    start: int
    node: str | None
    """None: wherever the scheduler of its owner puts it, after a move that could restore it nowhere."""
    template: Mapping[str, Any]
    reason: str
    gang: tuple[str, ...] = ()
    """All replicas that its job has now; none where it is not a gang."""


class EvictReplica(Struct, frozen=True, tag=True, kw_only=True):
    """Order: end an incarnation (None: the current one, if any) and report it once it is gone."""

    replica: str
    incarnation: str | None
    grace_seconds: float
    reason: str
    transaction: str = ""
    """Id of the transaction that it belongs to, if any."""
    fresh_until: float | None = None
    """Until when the checkpoint that permits it is fresh enough; later the order is not carried out."""


class HoldRoom(Struct, frozen=True, tag=True, kw_only=True):
    """Order: hold room for a replica on the node that it is to move to, so that nothing else takes it."""

    transaction: str
    replica: str
    node: str
    requests: Resources
    reason: str


class ReleaseRoom(Struct, frozen=True, tag=True, kw_only=True):
    """Order: give back the room held for a replica."""

    transaction: str
    replica: str
    node: str
    reason: str


class RequestCheckpoint(Struct, frozen=True, tag=True, kw_only=True):
    """Order: have the trainer of an incarnation write a checkpoint."""

    id: str
    """The transaction's, with a number where it asks once more."""
    transaction: str
    replica: str
    incarnation: str
    deadline: float
    reason: str
    pause: float = 0.0
    """For how long the trainer is to pause after it has saved, seconds, so that nothing it trains is lost;
    0: it trains on."""


class WithdrawRequest(Struct, frozen=True, tag=True, kw_only=True):
    """Order: nobody waits for that checkpoint any more."""

    id: str
    replica: str
    reason: str
    release: bool = False
    """Whether a trainer that pauses since that request is to train on: not where it is told to end next."""


class SetWeight(Struct, frozen=True, tag=True, kw_only=True):
    """Order: let an incarnation share the processors of its node with this weight."""

    replica: str
    incarnation: str
    weight: float
    reason: str


class PlaceJob(Struct, frozen=True, tag=True, kw_only=True):
    """Order: have the owner of a job run exactly these replicas, each on its node, and no others.

    What comes of it shows in the starts and ends of replicas; what cannot be done is refused (JobRefused).
    """

    job: str
    transaction: str
    """Id of the transaction; empty where none is in flight and the owner runs what it likes of it."""
    placement: Mapping[str, str | None]
    """Node by replica, None for wherever the scheduler puts it. Empty: none runs, and the job is held."""
    grace_seconds: float
    reason: str
    ending: Mapping[str, str] = field(default_factory=dict)
    """Incarnation by replica, of what must go: where an owner creates pods again by itself, their names alone
    do not tell which. "" is whichever there is."""
    fresh_until: float | None = None
    """Until when the checkpoint that permits the ends is fresh enough; later nothing is told to end."""
    gang: bool = False
    """Whether all of the job is moved as one: it goes and comes as a whole, with the number that it has."""
    missing_sidecars: Mapping[str, int] = field(default_factory=dict)
    """By replica, how many of its pods were sent back so far because they came without a sidecar."""


Action = (
    StartReplica
    | EvictReplica
    | HoldRoom
    | ReleaseRoom
    | RequestCheckpoint
    | WithdrawRequest
    | SetWeight
    | PlaceJob
)


class Refusal(StrEnum):
    """Why a proposal was not ordered, as a bounded label."""

    UNKNOWN_REPLICA = "unknown-replica"
    NODE_NOT_READY = "node-not-ready"
    NOT_ELIGIBLE = "not-eligible"
    NO_ROOM = "no-room"
    NOT_PENDING = "not-pending"
    NOT_RUNNING = "not-running"
    IN_FLIGHT = "in-flight"
    FORBIDDEN = "forbidden"
    NO_CHECKPOINT = "no-checkpoint"
    NO_STEPS = "no-steps"
    JUST_STARTED = "just-started"
    COOLDOWN = "cooldown"
    CLUSTER_BUDGET = "cluster-budget"
    NODE_BUDGET = "node-budget"
    REPLICA_BUDGET = "replica-budget"
    SAME_NODE = "same-node"
    WORSE_LOADED = "worse-loaded"
    NO_GAIN = "no-gain"
    UNKNOWN_JOB = "unknown-job"
    NOT_WAITING = "not-waiting"
    PARTIAL_GANG = "partial-gang"
    BELOW_MINIMUM = "below-minimum"
    NOT_ELASTIC = "not-elastic"
    PREEMPTION_BUDGET = "preemption-budget"
    NOT_REWEIGHTABLE = "not-reweightable"
    PLACED_BY_OWNER = "placed-by-owner"
    PAUSED = "paused"
    QUOTA = "quota"
    STARVATION = "starvation"
    PRIORITY = "priority"
    CHANGE_BUDGET = "change-budget"
    COUPLED = "coupled"
    UNPROVEN = "unproven"
    DRY_RUN = "dry-run"


class Objection(Struct, frozen=True, gc=False):
    """A refusal and its words."""

    refusal: Refusal
    said: str | Words

    @property
    def text(self) -> str:
        """The words."""
        return str(self.said)


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The result of a proposal, for `explain`, the log and the metrics."""

    at: float
    replica: str
    """The replica, or the job where the proposal was about a job."""
    policy: str
    proposal: str
    reason: str
    """Why it was accepted or refused."""
    refusal: Refusal | None = None
    """None where it was accepted."""
