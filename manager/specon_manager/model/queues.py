"""Queues: whose quota a job counts against."""

from typing import Annotated

from msgspec import Meta, Struct

from specon_manager.model.resources import NOTHING, Resources


class QueueShare(Struct, frozen=True, kw_only=True, gc=False):
    """How many times its quota a queue uses, for the kind of resource where this is highest."""

    mean: float = 0.0
    """Mean over the past; the weight of past use halves every `Settings.fair_shares`."""
    uses: float = 0.0
    """At `at`."""
    at: float
    """Until when it was counted, seconds on the manager's clock."""


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the jobs of a queue may use together."""

    name: str
    quota: Resources = NOTHING
    """Its share; 0 of a kind means none of it, unless it may borrow."""
    borrow: bool = True
    """Whether it may use what other queues leave of their shares."""
    limit: Resources | None = None
    """The most that it may use with what it borrows; None: all shares together."""
    namespaces: tuple[str, ...] | None = None
    """Whose jobs it takes; None: those of all namespaces."""
    allow_trials: bool = True
    """Whether it takes trials, which may preempt best-effort jobs."""
    max_utility: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    """The most that a job of it may claim as its utility; None: whatever it says."""
