"""By how much a converged job's priority is lowered for Kueue: by more, the less its end would cost. Pure.

Only what has converged as a whole is lowered, and nothing is raised. In Kueue the boost decides who may be
preempted at all, not the order alone: a growing job at -1 would be preempted for its own peers (KEP-7990; the
policy `LowerPriority` compares effective priorities).
"""

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.remaining_work import remaining_seconds
from specon_sidecar.classify import Category

LOWEST, HIGHEST = -100, -1
_HALF_SECONDS: Final = 600.0
"""A checkpoint of this age, or an end that is so near, takes half of the rest of the lowering."""
STEADY: Final = 15
"""A boost is written again where it differs by at least so much."""
REST_SECONDS: Final = 300.0
"""And not sooner than so long after the last time, unless the job has converged or grows again."""


class Worth(Struct, frozen=True, kw_only=True):
    """What speaks against ending a job now."""

    unsaved: float
    """How long it has trained since its last checkpoint, seconds; infinite where nobody knows."""
    gain: float
    """Part of its remaining time in which it still gains noticeably, 0 to 1."""
    remaining: float
    """How long it still trains, seconds; infinite where nobody knows."""


def boost(worth: Worth) -> int:
    """Return the boost of a converged job, from -100 for what costs nothing to end to -1."""
    spared = 1.0
    spared *= 0.0 if math.isinf(worth.unsaved) else _HALF_SECONDS / (_HALF_SECONDS + worth.unsaved)
    spared *= 1.0 - min(1.0, max(0.0, worth.gain))
    spared *= 1.0 if math.isinf(worth.remaining) else worth.remaining / (_HALF_SECONDS + worth.remaining)
    return min(HIGHEST, max(LOWEST, round(LOWEST * spared)))


def steady(wanted: int | None, present: int | None) -> int | None:
    """Return the boost that is to stand there: the present one, while it is near enough."""
    if wanted is None or present is None or not LOWEST <= present <= HIGHEST:
        return wanted
    return wanted if abs(wanted - present) >= STEADY else present


def boost_of_job(job: Job, snapshot: Snapshot) -> int | None:
    """Return the boost of a job; None: it is to have none, for it has not converged as a whole."""
    members = snapshot.members.get(job.name, ())
    workers = [each for each in members if each.phase is Phase.RUNNING and each.role != "ps"]
    if not workers or any(each.progress.category is not Category.CONVERGED for each in workers):
        return None
    return boost(
        Worth(
            unsaved=_measure_unsaved(workers, job),
            gain=max(each.progress.until_converged or 0.0 for each in workers),
            remaining=remaining_seconds(job, snapshot),
        )
    )


def _measure_unsaved(workers: Iterable[Replica], job: Job) -> float:
    """Return what the end of a job would throw away, seconds.

    In a gang the newest checkpoint stands for all. Of independent replicas the largest loss counts.
    """
    each = [_since_checkpoint(worker.progress) for worker in workers]
    return min(each) if job.spec.coupled else max(each)


def _since_checkpoint(progress: Progress) -> float:
    """Return how long a replica has trained since it saved, verified or not; infinite: nobody knows."""
    saved = progress.checkpoint
    if saved is None or progress.step is None or progress.step_interval is None:
        return math.inf
    return max(0, progress.step - saved.step) * progress.step_interval / max(1, progress.step_gap or 1)
