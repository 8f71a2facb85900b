"""Times as every screen and every record for other programs has them."""

from datetime import UTC, datetime

from specon_manager.views.amounts import span_text


def iso(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC with whole milliseconds; None and 0 are no time."""
    if not seconds:
        return None
    try:
        at = datetime.fromtimestamp(seconds, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def since_text(since: str | None, now: float) -> str:
    """Return how long it is since a time, in words; empty where that is not known."""
    return "" if since is None else span_text(seconds_since(since, now))


def seconds_since(since: str, now: float) -> float:
    """Return how long it is since a time, seconds."""
    return now - datetime.fromisoformat(since).timestamp()
