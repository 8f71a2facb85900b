"""What a simulation is given: nodes, and jobs that arrive with the training that they will do."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from specon_manager.model.cluster import JobSpec, Node

Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class LossCurve(Struct, frozen=True, kw_only=True):
    """The evaluation function of a job over its progress p in 0..1: exponential decay with noise.

    value(p) = floor + (first - floor) * (1 - (1 - exp(-rate p)) / (1 - exp(-rate))) + noise; the exponential
    form is the one that Figure 1 of SpeCon shows.
    """

    first: float = 1.0
    floor: float = 0.0
    rate: float = 8.0
    noise: float = 0.0
    """Standard deviation, in units of `first - floor`."""


class Network(Struct, frozen=True, kw_only=True):
    """What a job exchanges between its parameter servers and the workers on other nodes."""

    step_bytes: float
    """Bytes that one worker sends and receives in one step."""
    step_seconds: float
    """How long one step of one worker takes without the network, at one worker."""
    fixed_quota: bool = False
    """Whether the slowest worker decides (a fixed number of steps each); else the steps are one pool."""


class Training(Struct, frozen=True, kw_only=True):
    """What a job does once it runs; nothing of this is known to any policy."""

    seconds: Annotated[float, Meta(gt=0, le=1e12)]
    """How long it trains with the workers that its owner asked for, alone on its nodes, without network."""
    demand: Annotated[float, Meta(ge=0)] = 0.0
    """CPU cores that one replica uses when it can; 0: just what it reserves, which is never shared."""
    speedup: tuple[float, ...] = ()
    """Speed with 1, 2, ... workers in units of the speed with one; beyond the last it stays; (): linear."""
    paces: Mapping[str, Annotated[float, Meta(gt=0, le=1e6)]] = field(default_factory=dict)
    """By the model of its nodes' accelerators: how many times as long a step takes there; others: once."""
    network: Network | None = None
    curve: LossCurve | None = None
    """None: its log says nothing that could be judged."""
    converges: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Without a curve: the part of the training after which its sidecar says so; None: it never does."""
    prints_total: bool = True
    """Whether its log names the total number of steps, so that a sidecar knows how much is left."""
    steps: Annotated[int, Meta(ge=1)] = 1000
    start_seconds: Seconds = 0.0
    """From the order to start until a fresh incarnation trains."""
    save_seconds: Seconds = 0.0
    """How long a checkpoint takes that was asked for; training goes on meanwhile."""
    restore_seconds: Seconds = 0.0
    """Beyond `start_seconds`, when it goes on from a checkpoint."""
    move_seconds: Seconds | None = None
    """The whole of a start that is part of a move; None: as any other that goes on from a checkpoint."""
    stop_seconds: Seconds | None = None
    """From being told to end until nothing is left, without progress; None: its whole grace period."""
    resize_seconds: Seconds = 0.0
    """How long all of it pauses when the number of its workers changes."""
    scale_in_seconds: Seconds | None = None
    """The same for fewer workers only; None: `resize_seconds`."""
    checkpoint_seconds: Seconds = 600.0
    """How often it saves by itself: later steps are lost in a crash or with a node."""

    @property
    def slowest(self) -> float:
        """How many times as long a step takes on the slowest model; at least once."""
        return max((1.0, *self.paces.values()))


class Submission(Struct, frozen=True, kw_only=True):
    """One job and when it arrives."""

    at: Seconds
    spec: JobSpec
    training: Training


class NodeFailure(Struct, frozen=True, kw_only=True):
    """A node that is lost with all that runs on it, and when it comes back."""

    node: str
    at: Seconds
    seconds: Seconds


class Sharing(Struct, frozen=True, kw_only=True):
    """How replicas with a `demand` share the cores of a node: work-conserving, by weight.

    Contention takes a factor 1 / (1 + beta (n - 1)) of everybody's speed, n being the effective number of
    replicas, 1 / sum(share^2): one that hardly runs hardly disturbs.
    """

    contention: Annotated[float, Meta(ge=0, le=10)] = 0.0


class Workload(Struct, frozen=True, kw_only=True):
    """A cluster and what arrives at it."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[Submission, ...]
    failures: tuple[NodeFailure, ...] = ()
    sharing: Sharing = Sharing()
    bandwidth: Annotated[float, Meta(gt=0)] = 1.25e8
    """Bytes per second between two nodes."""
    report_seconds: Annotated[float, Meta(gt=0)] = 30.0
    """How often a sidecar judges and reports: the interval of categorisation."""
    seed: int = 0
