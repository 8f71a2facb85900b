"""Waiting jobs that no policy is to see now, each with the reason."""

from collections.abc import Mapping

from specon_manager.model.snapshot import Snapshot


def withheld(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the waiting jobs that must not be admitted at this moment, whatever the policy, by name."""
    found: dict[str, str] = {}
    for job in snapshot.waiting:
        if job.cooldown_until > snapshot.now:
            left = job.cooldown_until - snapshot.now
            found[job.name] = f"it did not become ready the last time, and is tried again in {left:.0f} s"
    return found
