"""The truth in a simulation: nodes, jobs, incarnations, whether the manager knows of it or not."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from specon_lab.engine.account import Account, Ledger
from specon_lab.engine.agenda import Agenda
from specon_lab.engine.trainer import Trainer
from specon_lab.workloads.workload import Submission, Workload
from specon_manager.core.state import State
from specon_manager.model.events import Event
from specon_sidecar.wire import Acknowledgement

Ending = Literal["preempt", "scale-in", "other"]


@dataclass(slots=True, eq=False)
class SimulatedNode:
    """A node and the replicas on it."""

    name: str
    cores: float
    model: str
    """Of its accelerators."""
    amount: float
    """What it has of the resource that is accounted for."""
    failures: int = 0
    """How many failures last at present; it takes nothing while there are any."""
    incarnations: "dict[str, Incarnation]" = field(default_factory=dict)
    """By replica."""
    held: float = 0.0
    """Of `amount`, by all replicas on it."""
    used: float = 0.0
    """Of `amount`, by what trains."""
    reserved: float = 0.0
    """Cores of replicas that share with nobody."""


@dataclass(slots=True, eq=False)
class Incarnation:
    """One start of a replica, from the order until nothing is left of it."""

    name: str
    replica: str
    start: int
    job: "SimulatedJob"
    node: SimulatedNode
    began: float
    amount: float
    reserved: float
    demand: float
    weight: float = 1.0
    share: float = 1.0
    """Of the speed that it has alone."""
    even: float = 1.0
    """The same, if all that share its node had the same weight."""
    cores: float = 0.0
    """How many it is handed where it shares them."""
    cpu_seconds: float = 0.0
    cpu_at: float = 0.0
    """Up to when `cpu_seconds` are counted."""
    up: bool = False
    joins: bool = False
    """Whether the others train on until it runs: it joins a job that is scaled while it trains."""
    training: bool = False
    ending: Ending | None = None
    """Set from being told to end on: it makes no progress any more."""
    ends_at: float = 0.0
    reported: bool = False
    """Whether its sidecar was heard."""
    saves: dict[str, Acknowledgement | None] = field(default_factory=dict)
    """By instruction: the answer, None while the checkpoint is being written."""

    def spend(self, now: float) -> float:
        """Return the CPU seconds that it has used until now; counted where it shares cores only."""
        self.cpu_seconds += self.cores * (now - self.cpu_at)
        self.cpu_at = now
        return self.cpu_seconds


@dataclass(slots=True, eq=False)
class SimulatedJob:
    """A job that arrived and has not ended."""

    submission: Submission
    trainer: Trainer
    ledger: Ledger
    incarnations: dict[str, Incarnation] = field(default_factory=dict)
    """By replica."""
    members: set[str] = field(default_factory=set)
    """The replicas that started since the job last had none, without those that left in a scaling."""
    whole: bool = False
    """Whether these once trained together: what joins them then is a scale-out."""
    training: bool = False
    speed: float = 0.0
    """Without what others on its nodes take away."""
    size: float = 0.0
    """The same, without what the network takes away."""
    paused_until: float = 0.0
    version: int = 0
    """Of the planned end; an end of an older version is void."""
    resized_at: float = -1.0
    complete: bool = False
    untold: int = 0
    """How many of its replicas' ends the manager has not yet been told of, once it is complete."""
    gone: dict[str, int] = field(default_factory=dict)
    """The number of the last incarnation of each replica that is gone."""

    @property
    def name(self) -> str:
        """`namespace/job`."""
        return self.submission.spec.name


class World:
    """The parts that the simulation's modules share."""

    def __init__(
        self, workload: Workload, state: State, account: Account, emit: Callable[[Event], None]
    ) -> None:
        self.workload = workload
        self.agenda = Agenda()
        self.account = account
        self.emit = emit
        """Hands an event to the manager."""
        self.state = state
        """What the manager knows, after the latest step."""
        self.nodes = {
            node.name: SimulatedNode(
                name=node.name,
                cores=node.capacity.cpu,
                model=node.accelerator,
                amount=account.amount(node.capacity),
            )
            for node in workload.nodes
        }
        self.jobs: dict[str, SimulatedJob] = {}
        """Those that arrived and have not ended."""
        self.owners: dict[str, SimulatedJob] = {}
        """The same by replica."""
        self.training = 0
        """How many of them train."""
        self.regrouped: dict[SimulatedJob, None] = {}
        """Jobs with a replica that started, ended or was told to, since speeds were last set."""
        self.resettled: dict[SimulatedNode, None] = {}
        """Nodes whose cores are to be shared out again."""

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self.agenda.now

    @property
    def busy(self) -> bool:
        """Whether something is under way that will change the world though no policy does anything."""
        return self.training > 0 or self.agenda.expected > 0

    def arrive(self, job: SimulatedJob) -> None:
        """Take a job in."""
        self.jobs[job.name] = job
        for replica in job.submission.spec.replicas:
            self.owners[replica] = job

    def leave(self, job: SimulatedJob) -> None:
        """Let go of a job that ended."""
        del self.jobs[job.name]
        for replica in job.submission.spec.replicas:
            del self.owners[replica]
        self.regrouped.pop(job, None)

    def incarnation_of(self, replica: str) -> Incarnation | None:
        """Return what there is of a replica, None where there is nothing."""
        job = self.owners.get(replica)
        return None if job is None else job.incarnations.get(replica)

    def place(self, incarnation: Incarnation) -> None:
        """Put an incarnation on its node."""
        node, job = incarnation.node, incarnation.job
        node.incarnations[incarnation.replica] = incarnation
        node.reserved += incarnation.reserved
        job.incarnations[incarnation.replica] = incarnation
        job.members.add(incarnation.replica)
        self.account.use.hold(node, incarnation.amount)
        self.account.note_placed(job.ledger, self.now)
        if incarnation.reserved:
            self.resettled[node] = None

    def remove(self, incarnation: Incarnation) -> None:
        """Take an incarnation that is gone off its node."""
        node, job = incarnation.node, incarnation.job
        self.stop_training(incarnation)
        del node.incarnations[incarnation.replica]
        node.reserved = node.reserved - incarnation.reserved if node.incarnations else 0.0
        del job.incarnations[incarnation.replica]
        job.gone[incarnation.replica] = incarnation.start
        self.account.use.hold(node, -incarnation.amount)
        self.account.note_stay(incarnation.replica, node.name, incarnation.began, self.now)
        if incarnation.reserved:
            self.resettled[node] = None
        if not job.incarnations:
            job.members.clear()
            job.whole = False
            self.account.note_removal(job.ledger, self.now)
        self.regrouped[job] = None

    def train(self, incarnation: Incarnation) -> None:
        """Let an incarnation take its part of the node."""
        if not incarnation.training:
            incarnation.training = True
            self.account.use.train(incarnation.node, incarnation.amount)
            if incarnation.demand:
                self.resettled[incarnation.node] = None

    def stop_training(self, incarnation: Incarnation) -> None:
        """Let it stand still."""
        if incarnation.training:
            incarnation.training = False
            incarnation.spend(self.now)
            incarnation.share, incarnation.even, incarnation.cores = 1.0, 1.0, 0.0
            self.account.use.train(incarnation.node, -incarnation.amount)
            if incarnation.demand:
                self.resettled[incarnation.node] = None
