"""How long a job still trains, for policies that are told the truth."""

import math

from specon_manager.model.cluster import Job
from specon_manager.model.snapshot import Snapshot


def remaining_seconds(job: Job, snapshot: Snapshot) -> float:
    """Return how long a job still trains, seconds; infinite where nothing is known of it.

    What was reported since it trains without a break counts, less the time since; else the declared duration
    less the time that it has trained. Of several replicas the one that says the most decides.
    """
    now, since = snapshot.now, job.trains_since
    if since is not None:
        reported = [
            told.remaining_seconds.value - (now - told.reported_at)
            for told in (replica.progress for replica in snapshot.members[job.name])
            if told.remaining_seconds is not None and told.reported_at is not None
            if told.reported_at >= since
        ]
        if reported:
            return max(0.0, *reported)
    declared = job.spec.declared_seconds
    return math.inf if declared is None else max(0.0, declared - job.attained(now))
