"""How long a job still trains, for policies that are told the truth."""

import math

from specon_manager.model.cluster import Job
from specon_manager.model.snapshot import Snapshot


def remaining_seconds(job: Job, snapshot: Snapshot) -> float:
    """Return how long a job still trains, seconds; infinite where nothing is known of it.

    A report made since it trains without a break counts, less the time since; else the declared duration
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


def remaining_work(job: Job, snapshot: Snapshot) -> float:
    """Return the rest of the declared seconds, whatever a job trains with; infinite where it is unknown.

    The remaining time of a job grows as it gets fewer workers than its owner asked for, and what it has
    trained says little then; its steps do not depend on that. Where its log names no total, the remaining
    time stands for it.
    """
    declared = job.spec.declared_seconds
    told = [
        (progress.reported_at, progress.step / progress.total_steps, progress.remaining_seconds)
        for progress in (replica.progress for replica in snapshot.members[job.name])
        if progress.step is not None and progress.total_steps and progress.reported_at is not None
    ]
    if declared is None or not told:
        return remaining_seconds(job, snapshot)
    at, done, remaining = max(told, key=lambda each: each[:2])
    left = declared * max(0.0, 1.0 - done)
    if job.trains_since is None or at < job.trains_since or remaining is None or not remaining.value:
        return left
    return left * max(0.0, 1.0 - (snapshot.now - at) / remaining.value)
