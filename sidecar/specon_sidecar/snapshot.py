"""What the metrics tell. Pure, and apart from them: most sidecars serve none."""

from msgspec import Struct

from specon_sidecar.classify import Category


class Snapshot(Struct, frozen=True, kw_only=True):
    """What the metrics tell; None where it is not known yet."""

    category: Category
    format: str | None = None
    metric: str | None = None
    goal: str | None = None
    gain: float | None = None
    confidence: float | None = None
    remaining_gain: float | None = None
    overfitting: bool = False
    value: float | None = None
    step: int | None = None
    total_steps: int | None = None
    sample_age: float | None = None
    lines: int = 0
    samples: int = 0
    unparsed: int = 0
    oversized: int = 0
    reports_sent: int = 0
    reports_failed: int = 0
    changes_dropped: int = 0
    checkpoints_verified: int = 0
    checkpoints_unreadable: int = 0
