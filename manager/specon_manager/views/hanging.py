"""That a replica hangs, in words: the same in terminals, in events and on the page."""

from specon_manager.model.hanging import silence_of
from specon_manager.model.progress import Progress
from specon_manager.views.amounts import span_text


def hang_in_words(progress: Progress, now: float | None = None) -> str:
    """Return what shows that it hangs, without the lines of its log; empty where it does not.

    `now` is on the manager's clock, seconds; None: as of the last report.
    """
    hang = progress.hang
    if now is None:
        now = progress.reported_at or 0.0
    if hang is None:
        return ""
    processes = f"; {hang.processes}" if hang.processes else ""
    return f"no step for {span_text(silence_of(progress, now))}, usually {hang.usual:.3g} s{processes}"
