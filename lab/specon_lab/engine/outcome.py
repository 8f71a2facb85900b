"""What a simulation tells: each job's times, what the cluster did, and where everything ran."""

from typing import Literal

from msgspec import Struct, field

from specon_lab.engine.slowness import Slowness


class Stay(Struct, frozen=True, kw_only=True, gc=False):
    """One incarnation of a replica on a node, for the chart of nodes."""

    replica: str
    node: str
    start: float
    end: float


class JobOutcome(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one job; times in seconds of the simulation."""

    name: str
    job_class: str
    kind: str
    state: Literal["completed", "failed", "unfinished", "cannot-run"]
    """`cannot-run`: it is larger than the cluster ever is."""
    reason: str = ""
    submitted_at: float
    started_at: float | None
    """When it first trained."""
    converged_at: float | None = None
    """When it had made 98 % of the gain that its curve makes in the whole run, and lost it no more.

    None: it never did, or has no curve."""
    ended_at: float | None
    ideal_seconds: float
    """How long it takes alone, with the workers that its owner asked for."""
    contention: float = 1.0
    """What all jobs asked for over what the cluster has, at least 1; mean from its submission to its end."""
    trained_seconds: float = 0.0
    """How long it trained, at whatever speed."""
    paused_seconds: float = 0.0
    """How long it was placed and did not train: starts, moves, scaling, grace periods, partial gangs."""
    waited_seconds: float = 0.0
    """The rest: how long it was not placed."""
    lost_seconds: float = 0.0
    """Training that had to be done again."""
    slowness: Slowness = Slowness()
    """Why it trained for longer than alone, beside that."""
    moves: int = 0
    preemptions: int = 0
    scale_outs: int = 0
    scale_ins: int = 0
    intervals: tuple[float, ...] = ()
    """From each preemption's signal to the next start of training, seconds (FitGpp, Table 2)."""

    @property
    def completion_seconds(self) -> float | None:
        """From submission to end; None where it did not complete."""
        if self.state != "completed" or self.ended_at is None:
            return None
        return self.ended_at - self.submitted_at

    @property
    def convergence_seconds(self) -> float | None:
        """From submission to 98 % of its whole gain; None where it has no curve, or did not get so far."""
        return None if self.converged_at is None else self.converged_at - self.submitted_at

    @property
    def slowdown(self) -> float | None:
        """1 + (time not needed) / (time needed): FitGpp's equation 5 with everything that is not training."""
        completion = self.completion_seconds
        return None if completion is None else completion / self.ideal_seconds

    @property
    def fairness(self) -> float | None:
        """Finish-time fairness: completion over (time alone x mean contention); above 1, less than its share.

        After Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020. None where it
        did not complete.
        """
        completion = self.completion_seconds
        return None if completion is None else completion / (self.ideal_seconds * self.contention)


class UsePoint(Struct, frozen=True, kw_only=True, gc=False):
    """How full the cluster was from `at` on; shares of the cluster's capacity, 0 to 1."""

    at: float
    allocated: float
    """Of the scarcest resource that the workload asks for (GPUs where there are any, else CPU)."""
    used: float
    """The part of it that trains."""
    waiting: int
    running: int


class Outcome(Struct, frozen=True, kw_only=True):
    """One run: one workload, one policy, one seed."""

    workload: str
    policy: str
    seed: int
    jobs: tuple[JobOutcome, ...]
    """In the order of submission."""
    makespan: float
    """From the first submission to the last end."""
    allocated: float
    """Mean over the makespan."""
    used: float
    use: tuple[UsePoint, ...] = ()
    """At most a few thousand points."""
    stays: tuple[Stay, ...] = ()
    """Where everything ran; empty where it was not asked for."""
    moves_failed: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    """Refused proposals by reason."""
    decisions: int = 0
    """How often the policy was asked."""
