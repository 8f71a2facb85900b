"""Queues: whose quota a job counts against."""

from msgspec import Struct

from specon_manager.model.resources import NOTHING, Resources


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the jobs of a queue may use together."""

    name: str
    quota: Resources = NOTHING
    """Its share; 0 of a kind means none of it, unless it may borrow."""
    borrow: bool = True
    """Whether it may use what other queues leave of their shares."""
    limit: Resources | None = None
    """The most that it may use with what it borrows; None: all shares together."""
