"""What the metrics tell. Pure, and apart from them: most sidecars serve none."""

from msgspec import Struct

from specon_sidecar.wire import Report


class Snapshot(Struct, frozen=True, kw_only=True):
    """The report of now, and what the manager is not told."""

    report: Report
    goal: str | None = None
    """Whether less or more of the metric is better; None before its first sample."""
    step: int | None = None
    """The last step in the log, be it that of an earlier incarnation."""
    oversized: int = 0
    reports_sent: int = 0
    reports_failed: int = 0
    changes_dropped: int = 0
    checkpoints_verified: int = 0
    checkpoints_unreadable: int = 0
