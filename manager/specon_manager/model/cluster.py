"""Nodes, jobs and replicas: the records of what there is."""

from bisect import bisect_right
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.model.accelerators import model_of
from specon_manager.model.constraints import ANYWHERE, Constraints, Taint
from specon_manager.model.progress import Progress
from specon_manager.model.resources import NOTHING, Resources

DURATIONS_REMEMBERED: Final = 64
"""Of one kind of job."""
KINDS_REMEMBERED: Final = 1000
"""Kinds of jobs for which the state keeps durations."""
PREEMPTIONS_REMEMBERED: Final = 32
"""Of one job; a budget of more of them is none."""


def job_of(replica: str) -> str:
    """Return the job `namespace/job` in the name `namespace/job/role/index` of a replica."""
    return replica.rpartition("/")[0].rpartition("/")[0]


def role_of(replica: str) -> str:
    """Return the role in the name `namespace/job/role/index`; a name without one is a worker's."""
    parts = replica.split("/")
    return parts[2] if len(parts) == 4 else "worker"  # noqa: PLR2004  (the parts of a full name)


def index_of(replica: str) -> int:
    """Return the index in the name `namespace/job/role/index`, 0 where it has none."""
    last = replica.rpartition("/")[2]
    return int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0  # noqa: PLR2004


_FIRST: Final = itemgetter(0)


def from_index(amounts: tuple[tuple[int, Resources], ...], index: int, usual: Resources) -> Resources:
    """Return the last of the amounts that counts for the index; each does from its own on, in their order."""
    found = bisect_right(amounts, index, key=_FIRST)
    return amounts[found - 1][1] if found else usual


@lru_cache(maxsize=2**18)
def _by_role(replicas: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parameter servers and the workers: asked for again and again of each job of a cluster."""
    servers = tuple([name for name in replicas if "/ps/" in name and role_of(name) == "ps"])
    if not servers:
        return (), replicas
    apart = set(servers)
    return servers, tuple([name for name in replicas if name not in apart])


class Phase(StrEnum):
    """Where the life of a replica stands."""

    PENDING = "Pending"
    STARTING = "Starting"  # ordered, not yet seen
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABSENT = "Absent"  # not one of the workers that the job has at present
    AWAITED = "Awaited"  # its owner is to start it; it has no pod


class Leaving(Struct, frozen=True, kw_only=True, gc=False):
    """Why a replica was told to end though nothing moves it, and its state afterwards."""

    purpose: Literal["preempt", "scale-in", "complete", "fail", "restart", "put-back", "late"]
    """It waits again, is absent, has succeeded with the workers of its job, has failed with another, starts
    again, waits again with a job that was torn, or did not start in time, which counts as a crash."""
    since: float
    deadline: float
    """When the order is given, or given again."""
    reason: str


class Warned(Struct, frozen=True, kw_only=True, gc=False):
    """That an incarnation of a replica is about to lose what it needs, such as a device of its node."""

    incarnation: str
    why: str
    leaves_at: float | None = None
    """When that happens, seconds; None where nobody says."""


class Claimed(Struct, frozen=True, kw_only=True, gc=False):
    """Room that is kept free for a waiting job as it becomes free."""

    placement: tuple[tuple[str, str], ...]
    """Where its replicas are to start: (replica, node)."""
    until: float
    reason: str
    firm: bool = False
    """Whether it is the manager's, for a job that has waited too long: no policy gives it up."""


class Unwanted(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation that nobody wants: one of an earlier start, or of one that was given up."""

    replica: str
    incarnation: str
    since: float
    deadline: float
    """When it is told to end once more."""


class Served(Struct, frozen=True, kw_only=True, gc=False):
    """How long jobs of one kind trained until they were complete."""

    jobs: int = 0
    mean_seconds: float = 0.0
    latest: tuple[float, ...] = ()
    """Of the latest of them, oldest first."""


class Node(Struct, frozen=True, kw_only=True):
    """A place where replicas run; `usage` is measured, R(w, t) of SpeCon's Algorithm 2."""

    name: str
    capacity: Resources
    usage: Resources = NOTHING
    ready: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    warned: str = ""
    """By what it is known that it is to be emptied; empty where it is not, or nobody wants to heed that."""
    leaves_at: float | None = None
    """When that begins, seconds; None where nobody says."""

    @property
    def accelerator(self) -> str:
        """The model of its accelerators, empty where its labels do not say it."""
        return model_of(self.labels)


class JobSpec(Struct, frozen=True, kw_only=True):
    """A job as its owner described it."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")]
    """`namespace/job`."""
    replicas: tuple[str, ...]
    """Names of the replicas, `namespace/job/role/index`."""
    coupled: bool = True
    """Whether its replicas train as one: each then waits for all others, and one saves for all. Independent
    replicas, one seed each for instance, are saved and proven one by one."""
    savers: Literal["lead", "all"] = "lead"
    """Whose checkpoints count for the whole job if its replicas train as one: those of the first worker, or
    of every worker, a part each, all of one step."""
    coupling: str = ""
    """What says that its replicas train as one, or each by itself, in words; empty where nothing has to."""
    requests: Resources = NOTHING
    """What one worker reserves on its node."""
    ps_requests: Resources | None = None
    """What one parameter server reserves; None: as much as a worker."""
    unlike: tuple[tuple[Annotated[int, Meta(ge=0)], Resources], ...] = ()
    """What a worker reserves from this index on, in their order, where they do not all reserve the same; then
    `requests` is the largest amount of each kind."""
    workers: Annotated[int, Meta(ge=1)] | None = None
    """How many workers its owner asked for; None: all that are named in `replicas`."""
    min_workers: Annotated[int, Meta(ge=1)] | None = None
    """With how many it can train; None: with `workers` only. The most it can use are those named."""
    job_class: Literal["trial", "best-effort"] = field(default="best-effort", name="class")
    """A trial is to start at once, and may preempt best-effort jobs for it (FitGpp)."""
    utility: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    """How much its owner values it (the Kubeflow dynamic scheduler's utility)."""
    queue: str = ""
    """Whose quota it counts against."""
    kind: str = ""
    """What jobs like it have in common (a model, a user's script); durations are learnt by kind."""
    declared_seconds: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    """How long it trains, where its owner says so."""
    restarts: Annotated[int, Meta(ge=0)] = 3
    """How many crashes of a replica its owner tolerates; moves never count."""
    grace_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 30.0
    """How long an evicted replica may take to end by itself."""
    on_hang: Literal["report", "restart"] = "report"
    """The reaction to a hang: a report, or a restart from its last verified checkpoint."""
    checkpointing: Literal["asked", "on-termination", "none"] = "asked"
    """When the trainer writes a checkpoint for a move; a job that never does is never moved."""
    migratable: bool = True
    """Whether the owner allows moves."""
    immovable: str = ""
    """Why none of its replicas can be moved, in words; empty where they can."""
    placed_by: Literal["manager", "owner"] = "manager"
    """Who starts its replicas. One that its owner places is observed and moved; it is admitted by us only
    where it is `held`, and scaled only where `resizing` says how."""
    held: bool = False
    """Whether its owner holds it back until it is admitted as a whole (`specon.io/queue`)."""
    resizing: Literal["at-once", "live", "restart", "none"] = "at-once"
    """How its number of workers is changed: worker by worker without asking for a checkpoint (the papers'
    simulations); after a verified checkpoint while the others train on; so that all of it ends and starts
    again from that; or not at all."""
    unscalable: str = ""
    """Why it cannot be scaled, in words; empty where it can."""
    headroom: Annotated[int, Meta(ge=0)] | None = None
    """By how many workers it may grow now, as others say who keep quotas (Kueue); None: nobody does."""
    no_headroom: str = ""
    """Why by no more, in words."""
    unpreemptible: str = ""
    """Why it cannot be preempted, in words; empty where it can."""
    top_down: bool = False
    """Whether only the workers with the highest indices can go, as with most owners."""
    present: Annotated[int, Meta(ge=0)] | None = None
    """How many workers its owner runs, or would run if it were not held; None: as many as are named."""
    priority: int = 0
    """Of its PriorityClass: a job is never preempted for one of lower priority."""
    lowest_cpu: Annotated[float, Meta(ge=0)] | None = None
    """To what its owner lets a replica's request of processors be lowered in place; None: not at all."""
    share: Literal["none", "time"] = "none"
    """Whether it takes turns with others that ask for the same on the GPUs that several pods use."""
    gpu_memory: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    """How much memory a replica needs of each of its GPUs, bytes."""
    unshareable: str = ""
    """Why it cannot take turns though its owner asks for it, in words; empty where it can."""
    bursts: bool = False
    """Whether its replicas use more processors than they request where others leave some idle."""
    constraints: Constraints = ANYWHERE
    """On which nodes its replicas may run."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """What the backend needs to start a replica; opaque to every decision."""

    @property
    def transacted(self) -> bool:
        """Whether it is admitted, scaled and preempted by a `Change`: recorded, verified, proven."""
        return self.placed_by == "owner" or self.resizing != "at-once"

    @property
    def adjustable(self) -> bool:
        """Whether anything but moves may be ordered for it."""
        return self.placed_by == "manager" or self.held or self.resizing in {"live", "restart"}

    @property
    def ps(self) -> tuple[str, ...]:
        """Names of the parameter servers."""
        return _by_role(self.replicas)[0]

    @property
    def worker_names(self) -> tuple[str, ...]:
        """Names of all workers that it may have, by index."""
        replicas = self.replicas
        if len(replicas) == 1 and "/ps/" not in replicas[0]:
            return replicas  # as of most jobs: nothing is to be remembered
        return _by_role(replicas)[1]

    @property
    def wanted_workers(self) -> int:
        """How many workers its owner asked for."""
        most = len(self.worker_names)
        return most if self.workers is None else min(self.workers, most)

    @property
    def fewest_workers(self) -> int:
        """With how many workers it can train."""
        if self.workers is None and self.min_workers is None:
            return len(self.worker_names)  # as of most jobs
        wanted = self.wanted_workers
        return wanted if self.min_workers is None else min(self.min_workers, wanted)

    @property
    def elastic(self) -> bool:
        """Whether it may have more workers than it needs."""
        if len(self.replicas) == 1 or (self.workers is None and self.min_workers is None):
            return False
        most = len(self.worker_names)
        fewest = min(most if bound is None else bound for bound in (self.workers, self.min_workers))
        return most > fewest

    def requests_of(self, replica: str) -> Resources:
        """Return what that replica reserves."""
        if self.ps_requests is not None and role_of(replica) == "ps":
            return self.ps_requests
        return from_index(self.unlike, index_of(replica), self.requests) if self.unlike else self.requests

    def has_to_tell(self, replica: str) -> bool:
        """Whether the log of that replica has to say something: of a gang only the first worker's has."""
        lead = self.worker_names[:1]
        return role_of(replica) != "ps" and (not self.coupled or replica in lead)

    @property
    def of_each(self) -> tuple[Resources, ...]:
        """What each worker reserves, where they do not all reserve the same; empty where they do."""
        return tuple(self.requests_of(name) for name in self.worker_names) if self.unlike else ()


class Job(Struct, frozen=True, kw_only=True):
    """A submitted job; `order` counts submissions from 0."""

    spec: JobSpec
    order: int
    submitted_at: float
    ended_at: float | None = None
    queued_at: float = 0.0
    """Since when it waits to be admitted, or waited the last time."""
    admitted_at: float | None = None
    """When it was first admitted."""
    dropped: tuple[str, ...] = ()
    """Replicas that its description names no more and that still occupy nodes."""
    trains_since: float | None = None
    """Since when all its present replicas run; None while one does not."""
    attained_seconds: float = 0.0
    """How long it trained before `trains_since`."""
    preemptions: int = 0
    """In its life."""
    preempted_at: tuple[float, ...] = ()
    """When it was preempted the last few times, oldest first."""
    hang_restarts: int = 0
    """How often it was restarted since it hung."""
    admitted: bool = False
    """Of a job that is `held`: whether it was admitted, and not preempted since."""
    failures: int = 0
    """How many transactions of the whole job did not succeed, since the last that did."""
    cooldown_until: float = 0.0
    """Until when none of it is begun."""
    released: int = 0
    """How often its owner was told in vain that it may run."""
    release_due: float | None = None
    """When its owner is told so next; None where that is not needed."""

    def attained(self, now: float) -> float:
        """Return how long it trained until now, seconds."""
        return self.attained_seconds + (0.0 if self.trains_since is None else now - self.trains_since)

    def count_preemption(self, now: float) -> "Job":
        """Return the record after one more preemption, at `now`, seconds."""
        last = (*self.preempted_at, now)[-PREEMPTIONS_REMEMBERED:]
        return msgspec.structs.replace(self, preemptions=self.preemptions + 1, preempted_at=last)

    @property
    def name(self) -> str:
        """`namespace/job`."""
        return self.spec.name

    @property
    def kind(self) -> str:
        """What its duration is learnt under."""
        return self.spec.kind or self.spec.job_class

    @property
    def pace_kind(self) -> str:
        """What its paces are learnt under: of no kind, it is a name that nobody may give a kind."""
        return self.spec.kind or f"{self.name}\n"

    @property
    def owned(self) -> bool:
        """Whether its owner starts and restarts its replicas."""
        return self.spec.placed_by == "owner"


class Replica(Struct, frozen=True, kw_only=True, gc=False):
    """One replica of a job; its name is stable over moves, its incarnation is not."""

    name: str
    job: str
    role: str = "worker"
    index: int = 0
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
    """When an ordered start is overdue."""
    not_before: float = 0.0
    """Before when it is not started again after a crash."""
    lost_at: float | None = None
    """Since when it is missing, by a crash or by someone else, though the rest of its job is there."""
    holds: bool = False
    """Whether it keeps its room on its node meanwhile."""
    progress: Progress = Progress()
    crashes: int = 0
    moves: int = 0
    """Moves that succeeded."""
    attempts: int = 0
    """Moves that did not, since the last that did."""
    disrupted: int = 0
    """Moves that ended an incarnation of it, whatever came of them."""
    unproven: str = ""
    """Why its last move is no success, where it went on from somewhere else than its checkpoint: no policy
    moves it again then."""
    moved_for: tuple[str, ...] = ()
    """Purposes for which it was moved, or looked at and left (literal mode)."""
    cooldown_until: float = 0.0
    ended_at: float | None = None
    note: str = ""
    weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    """Its weight where the replicas of a node share processors."""
    weighed: bool = False
    """Whether this incarnation was ever given another weight than it began with."""
    leaving: Leaving | None = None
    """Set from the order to end until nothing is left of the incarnation."""
    warned: Warned | None = None
    """Of this incarnation or of an earlier one, which counts no more."""

    @property
    def active(self) -> bool:
        """Whether it occupies a node."""
        return self.phase is Phase.RUNNING or self.phase is Phase.STARTING

    @property
    def occupies(self) -> bool:
        """Whether it holds room on its node."""
        return self.active or self.holds

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.phase in {Phase.SUCCEEDED, Phase.FAILED}
