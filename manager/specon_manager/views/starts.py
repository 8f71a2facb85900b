"""When a waiting job is expected to start, in words."""

from specon_manager.model.expected_start import ExpectedStart
from specon_manager.views.amounts import span_text


def start_text(start: ExpectedStart | None) -> str:
    """Return when it starts, with the interval, in a few words; a dash where nobody knows."""
    if start is None or start.earliest_seconds is None:
        return "-"
    if start.in_seconds is None or start.latest_seconds is None:
        return f"after {span_text(start.earliest_seconds)}" if start.earliest_seconds > 0 else "-"
    between = f"{span_text(start.earliest_seconds)} to {span_text(start.latest_seconds)}"
    return f"{span_text(start.in_seconds)} ({between})"
