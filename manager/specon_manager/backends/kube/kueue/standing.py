"""Whether a job that Kueue manages may be moved by deactivating its Workload, and if not, why. Pure.

An inactive Workload gives its quota back, and Kueue admits it again once it is active: at the place in its
queue that its age gives it, if it still fits. So a move is safe where nobody waits for that quota, and where
the job would get the same flavor again.

| the Workload | why it is left alone |
|---|---|
| is of a ClusterQueue that is not opted in, or is not admitted | nothing is ours to do |
| is a slice of an elastic job, or peculiar (`peculiarity`) | its next admission may be another one |
| has another flavor than the first of its ClusterQueue | Kueue would try the first again |
| is in a queue that is stopped, or has less quota than is used | it would not be admitted again |
| shares its quota with one that waits | the move would be a preemption in disguise |

Source: Kueue at ff69552e79 (August 2026), `Reconcile` of `pkg/controller/core/workload_controller.go` and of
`pkg/controller/jobframework/reconciler.go`, `findFlavorForPodSets` of `pkg/scheduler/flavorassigner`.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.kueue.facts import ClusterQueue, Workload
from specon_manager.backends.kube.kueue.lines import Cohort, line_of
from specon_manager.backends.kube.objects.owner import OwnerInfo

ELASTIC: Final = "its Workload is a slice of an elastic job"


class KueueMoveSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether jobs that Kueue manages are moved by deactivating and activating their Workloads."""

    enabled: bool = False
    cluster_queues: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...], Meta(max_length=1000)
    ] = ()
    """Whose jobs are moved, and whose elastic jobs are sized."""

    def __post_init__(self) -> None:
        """Raise ValueError where it is switched on for nobody."""
        if self.enabled and not self.cluster_queues:
            raise ValueError("cluster_queues: names no ClusterQueue, so that nothing would be moved")


def objection(
    workload: Workload,
    owner: OwnerInfo,
    queue: ClusterQueue | None,
    line: Cohort | None,
    *,
    covered: bool,
    stopped: bool,
) -> str:
    """Return why a job is not moved by its Workload, in words; empty where it may be.

    `queue` and `line` are those that gave it its quota, `covered`: they are opted in, `stopped`: its
    LocalQueue admits nothing. What we have deactivated is in our hands already.
    """
    if workload.mark and not workload.active:
        return ""
    if not covered:
        return not_covered(workload, "moved")
    if not workload.active:
        return "its Workload is inactive, and not by a move"
    if owner.slices or workload.elastic:
        return ELASTIC
    if workload.peculiar:
        return workload.peculiar
    if not workload.admitted or workload.evicted or queue is None or line is None:
        return "its Workload is not admitted at this moment"
    return _by_its_queue(workload, queue, line, stopped=stopped)


def not_covered(workload: Workload, done: str) -> str:
    """Return that nobody has opted in for the jobs of its ClusterQueue, in words."""
    name = f"ClusterQueue {workload.cluster_queue}" if workload.cluster_queue else "its ClusterQueue"
    return f"the jobs of {name} are not {done} (kueue.moves.clusterQueues)"


def apply_workload(owner: OwnerInfo, workload: Workload, against: str) -> OwnerInfo:
    """Return an owner with what its Workload says: that is where it is told to leave and to come."""
    return msgspec.structs.replace(
        owner,
        kueue=True,
        kueue_against=against,
        workload=workload.name,
        workload_uid=workload.uid,
        queued=workload.is_pending,
        suspended=owner.suspended or not workload.active,
        suspended_for=workload.mark or owner.suspended_for,
    )


def _by_its_queue(workload: Workload, queue: ClusterQueue, line: Cohort, *, stopped: bool) -> str:
    """Return why an admitted Workload would not get the same again, in words; empty where it would."""
    if stopped or queue.stopped:
        what = f"ClusterQueue {queue.name}" if queue.stopped else "its LocalQueue"
        return f"{what} is stopped, and would not admit it again"
    if other := _flavor_before(workload, queue):
        return other
    if exceeded := sorted(line.exceeded & workload.usage.keys()):
        flavor, resource = exceeded[0]
        said = f"{line_of(queue)} uses more {resource} of the flavor {flavor} than it has"
        return f"{said}: it might not come back"
    if wanted := sorted(line.wanted & {resource for _, resource in workload.usage}):
        said = f"another Workload waits for {wanted[0]} in {line_of(queue)}"
        return f"{said}, and would get the quota that a move gives back"
    return ""


def _flavor_before(workload: Workload, queue: ClusterQueue) -> str:
    """Return which flavor Kueue would try before the one that the Workload has, in words; empty for none."""
    for flavor, resource in sorted(workload.usage):
        tried = next((flavors for covered, flavors in queue.groups if resource in covered), ())
        if tried and tried[0] != flavor:
            return f"Kueue may give it the flavor {tried[0]} instead of {flavor} at its next admission"
    return ""
