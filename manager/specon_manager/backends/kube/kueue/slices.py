"""Whether the number of workers of a job may change that Kueue sizes by slices of its Workload. Pure.

Fewer workers are written into the Workload, and their quota is free at once. More are a second Workload,
which waits for quota and is then admitted in the stead of the first. So growth is offered as far as it need
not wait:

| the job | its number of workers |
|---|---|
| is of a ClusterQueue that is not opted in | left alone |
| has a Workload without Kueue's mark of a slice | left alone: Kueue's feature gate is off |
| is peculiar (`peculiarity`) | left alone: the second Workload may get something else |
| has a slice that waits, or none that is admitted | may fall |
| is in a queue that is stopped, or in which somebody waits | may fall |
| else | may fall, and grow by what its ClusterQueue has free of its own, in the flavors that the job has |

A job stays one that may be sized while slices come and go: else nobody could write its former number again.

Source: Kueue at ff69552e79 (August 2026), `EnsureWorkloadSlices` and `normalizeActiveSlices` of
`pkg/workloadslicing`, `prepareWorkloadSlice` of `pkg/controller/jobframework/reconciler.go`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from specon_manager.backends.kube.kueue.facts import ClusterQueue, Share, Workload
from specon_manager.backends.kube.kueue.lines import SLACK, Cohort, line_of
from specon_manager.backends.kube.kueue.standing import not_covered
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_sidecar.counts import format_count

_GATE_OFF: Final = (
    'Kueue does not heed its annotation kueue.x-k8s.io/elastic-job: "true"'
    " (feature gate ElasticJobsViaWorkloadSlices)"
)
_MOST: Final = 1e6
"""More workers than any job has."""
Growth = tuple[int | None, str]
"""By how many workers the job may grow, None: as far as nodes hold them; and why by no more, in words."""


def current_slice(slices: Sequence[Workload]) -> Workload:
    """Return the slice, of at least one, whose quota a job has; where none has any, one that waits."""
    return max(slices, key=lambda each: (not each.is_pending, each.created_at, each.uid))


def apply_slices(owner: OwnerInfo, slices: Sequence[Workload], fixed: str, growth: Growth) -> OwnerInfo:
    """Return an owner with what its slices say: it is sized by its own object, and by nothing else."""
    headroom, why = growth
    return msgspec.structs.replace(
        owner,
        kueue=True,
        kueue_fixed=fixed,
        headroom=headroom,
        no_headroom=why,
        queued=any(each.is_pending for each in slices),
    )


def fixed_because(owner: OwnerInfo, slices: Sequence[Workload], *, covered: bool) -> str:
    """Return why the number of workers of a job is left to Kueue, in words; empty where it may change."""
    current = current_slice(slices)
    if not covered:
        return not_covered(current, "sized")
    if owner.kind != "Job":
        return f"it sizes no {owner.kind} by slices"
    if not all(each.elastic for each in slices):
        return _GATE_OFF
    return next((each.peculiar for each in slices if each.peculiar), "")


def growth(
    slices: Sequence[Workload], queue: ClusterQueue | None, line: Cohort | None, *, stopped: bool
) -> Growth:
    """Return by how many workers a job may grow without waiting for quota, and why by no more."""
    current = current_slice(slices)
    if len(slices) > 1 or current.is_pending:
        return 0, "a slice of its Workload waits for quota"
    if not current.admitted or current.evicted or not current.active or queue is None or line is None:
        return 0, "its Workload is not admitted at this moment"
    if stopped or queue.stopped:
        return 0, f"{f'ClusterQueue {queue.name}' if queue.stopped else 'its LocalQueue'} is stopped"
    if line.wanted:
        return 0, f"another Workload waits for {min(line.wanted)} in {line_of(queue)}"
    return _fitting_workers(current, queue, line)


def _fitting_workers(current: Workload, queue: ClusterQueue, line: Cohort) -> Growth:
    """Return for how many more pods the free quota is enough, and of what it has no more."""
    free = line.free.get(queue.name, {})
    bounds: list[tuple[int, Share]] = []
    for share, amount in current.usage.items():
        if amount > 0:
            # What is free may have been reckoned a moment before the job itself was admitted.
            quota = queue.quotas.get(share)
            left = 0.0 if quota is None else max(0.0, quota.nominal - amount)
            most = (min(free.get(share, 0.0), left) + SLACK) * current.pods / amount
            bounds.append((int(min(_MOST, most)), share))
    if not bounds:
        return None, ""
    most, (flavor, resource) = min(bounds)
    enough = (
        f"free quota for {format_count(most, 'more worker')}" if most else "no free quota for one more worker"
    )
    return most, f"ClusterQueue {queue.name} has {enough} ({resource} of the flavor {flavor})"
