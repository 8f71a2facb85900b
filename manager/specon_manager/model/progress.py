"""What the sidecar of a replica said of its training."""

from msgspec import Struct

from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Checkpoint, Hang, Share


class Session(Struct, frozen=True, kw_only=True, gc=False):
    """One sidecar process: its last sequence number, and how many of its reports were not believed since."""

    name: str
    sequence: int
    ignored: int = 0


# `gc=False`: nothing in these records can refer back to them, and a cluster has very many of them.
class Progress(Struct, frozen=True, kw_only=True, gc=False):
    """What the sidecar of a replica last said; times on the manager's clock, seconds."""

    category: Category = Category.UNKNOWN
    category_since: float = 0.0
    reason: str = ""
    metric: str | None = None
    value: float | None = None
    step: int | None = None
    step_at: float | None = None
    total_steps: int | None = None
    gain: float | None = None
    falls_on: bool = False
    """Whether its gain fell once more in an interval that it began as converged (SpeCon, Algorithm 1)."""
    expected_gain: Estimate | None = None
    remaining_seconds: Estimate | None = None
    until_converged: float | None = None
    """Part of the remaining time after which next to nothing of the gain is still to come."""
    checkpoint: Checkpoint | None = None
    first_step: int | None = None
    """First step of this incarnation."""
    began_step: int | None = None
    """First step of any of its incarnations, as far as is known."""
    step_interval: float | None = None
    """Seconds between two steps that its log names, as reports show them: never less than it really is."""
    step_gap: int | None = None
    """How many steps lie between two that reports named: never less than its log leaves out."""
    step_seconds: float | None = None
    """Seconds that a step took, by the last two reports while it was in no transaction."""
    cpu_from: tuple[int, float] | None = None
    """Step and CPU seconds of this incarnation when it was first heard."""
    stopped: float = 0.0
    """For how long this incarnation was stopped so that others could train, seconds."""
    cpu_per_step: float | None = None
    """CPU seconds that a step takes, measured since then: unlike time, it does not depend on the others."""
    hang: Hang | None = None
    """What shows that it hangs, as its sidecar said last; None where it does not, or nobody knows."""
    hung_since: float | None = None
    share: Share | None = None
    """Whether its sidecar can let it run in turns, and on which GPUs; None: it says nothing about that."""
    reported_at: float | None = None
    sessions: tuple[Session, ...] = ()
    """The sidecar processes of this incarnation that were heard, the one that is believed last."""
