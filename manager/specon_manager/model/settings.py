"""What the owner of the cluster decided: policy, budgets, gate and deadlines."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from specon_manager.model.queues import Queue

Seconds = Annotated[float, Meta(gt=0, le=1e9)]
"""More than nothing, and finite: JSON, and so the journal, knows no infinity."""
PauseSeconds = Annotated[float, Meta(ge=0, le=1e9)]


class Budgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much disturbance at once the owner of the cluster accepts."""

    moves_at_once: Annotated[int, Meta(ge=0)] = 4
    """In the whole cluster."""
    moves_at_once_per_node: Annotated[int, Meta(ge=1)] = 1
    """With this node as source or target."""
    moves_per_replica: Annotated[int, Meta(ge=0)] = 4
    """Moves in the life of a replica that ended an incarnation of it, also those that did not succeed."""
    cooldown: PauseSeconds = 60.0
    """Seconds between two moves of one replica."""
    retry_cooldown: PauseSeconds = 120.0
    """Seconds after a move that did not succeed, doubled with each further one."""
    hang_restarts_per_job: Annotated[int, Meta(ge=0)] = 3
    """In its life, where its owner wants a job that hangs restarted; then it is only reported."""
    preemptions_per_job: Annotated[int, Meta(ge=0)] = 4
    """Preemptions of one job within `preemption_window`, whatever the policy would do."""
    preemptions_per_node: Annotated[float, Meta(ge=0, le=1e6)] = 6.0
    """Times the ready nodes. After so many preemptions within `preemption_window`, whatever they were for, no
    job is preempted for another but for a trial."""
    preemption_window: Seconds = 3600.0
    """Seconds. Who was preempted when is forgotten when a manager on Kubernetes is started again."""
    changes_at_once: Annotated[int, Meta(ge=0)] = 16
    """Scalings and preemptions in flight in the whole cluster; admissions are not counted."""
    change_cooldown: PauseSeconds = 60.0
    """Seconds between two scalings of one job that succeeded; after others it is `retry_cooldown`."""


Weight = Annotated[float, Meta(ge=0, le=1e6)]


class Gate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The do-no-harm gate: what a move must promise before it is ordered."""

    enabled: bool = True
    horizon: Seconds = 120.0
    """How far ahead a gain is counted where the remaining time of the replica is not known, seconds."""
    margin: Annotated[float, Meta(ge=0, le=1e9)] = 1.0
    """How many times its cost a move must gain."""
    expected_downtime: PauseSeconds = 5.0
    """Cost of a move before any was measured, seconds (the paper's save and restore overhead)."""
    progressing_weight: Weight = 2.0
    """How much a second on a core counts of a job that is not said to be `watching` or `converged`."""
    watching_weight: Weight = 1.5
    converged_weight: Weight = 1.0
    """SpeCon's scores (section 3.3), unless someone sets others: only their ratios matter."""


Warns = Literal["annotation", "cordon", "taint", "condition", "device-taint"]
"""What may announce that a node is to be emptied: someone's word with a time, a cordon, a taint of those who
remove nodes, a condition. A taint of a device announces it of the replicas alone that hold the device."""


class Deadlines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long each part of the work may take, seconds."""

    start: Seconds = 60.0
    hold: Seconds = 30.0
    checkpoint: Seconds = 120.0
    eviction_margin: Seconds = 10.0
    """Beyond the grace period."""
    checkpoint_age: Seconds = 10.0
    """How old a verified checkpoint may be when its replicas are told to end: the steps trained in that
    time are lost. Later, a new one is asked for first."""
    pause: PauseSeconds = 30.0
    """For how long a trainer may be asked to pause after it has saved, until it is told to end."""
    verify: Seconds = 180.0
    """From the start of the new incarnation to a step after the checkpoint."""
    crash_backoff: Seconds = 2.0
    """Before the first restart after a crash, doubled with each further one."""
    claim: Seconds = 3600.0
    """How long room is kept free for a job that waits for others to leave it."""
    ready: Seconds = 300.0
    """From the admission of a gang, or its change, until all of its replicas run; and how long a part of a
    gang may be missing after a crash before all of it is put back."""
    request: Seconds = 3600.0
    """How long a move that someone asked for may wait for others that are in flight."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner of the cluster decided."""

    policy: str = "progress"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    gate: Gate = Gate()
    deadlines: Deadlines = Deadlines()
    queues: tuple[Queue, ...] = ()
    """Whose jobs may use how much; empty: no quotas."""
    starvation: Seconds | None = None
    """After how long a waiting job gets whatever room becomes free, seconds; None: never because of that."""
    fair_shares: Seconds | None = None
    """Seconds after which past use of a queue counts half when queues take turns; None: they take none."""
    warnings: tuple[Warns, ...] = ()
    """What announces that a node is to be emptied: it takes nothing new then, and what runs there leaves."""
    defragment: Literal["off", "dry-run", "on"] = "off"
    """Whether running jobs are moved for one that waits, and to where they are faster: not, only
    told, or done."""
    dry_run: bool = False
    """Whether proposals are judged and told, and nothing is ordered."""
    reweight: bool = False
    """Whether the backend can change shares of processors in place."""
    time_slices: bool = False
    """Whether sidecars can let trainers take turns on GPUs, where their owners ask for it."""
    retention: Annotated[int, Meta(ge=0)] = 1000
    """How many ended jobs are remembered."""
    tick: Seconds = 5.0
    """How often deadlines are looked at and the policy is asked when nothing else happens."""
