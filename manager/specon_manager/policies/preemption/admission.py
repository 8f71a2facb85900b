"""Starting what waits: a job as a whole, the room it has a claim to first; queues with a blocking head."""

from collections.abc import Iterable, Iterator, Mapping

from specon_manager.model.actions import Admit, AdmitGang
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle
from specon_manager.policies.placement import readmissions
from specon_manager.policies.preemption.queues import Queued, Queues
from specon_sidecar.counts import format_count


def restart(snapshot: Snapshot, queues: Queues, idle: Idle) -> Iterator[Admit]:
    """Start again what crashed of jobs that occupy nodes, before anybody else is given the room."""
    if not queues.torn:
        return
    for proposal in readmissions(snapshot):
        idle.take(proposal.node, snapshot.replicas[proposal.replica].requests)
        yield proposal


def start(waiting: Queued, idle: Idle, snapshot: Snapshot) -> AdmitGang | None:
    """Propose to start the job where it has a claim, else wherever there is room; None: nowhere.

    The room of an admitted job is taken and its claim given up.
    """
    name = waiting.name
    claim = snapshot.claims.get(name)
    if claim is None:
        if (placement := idle.place(waiting.replicas)) is None:
            return None
        return _admission(waiting, placement, "the first room in the order of the queue")
    held = idle.release(name)
    if (placement := idle.place_at(waiting.replicas, dict(claim.placement))) is not None:
        return _admission(waiting, placement, "the room that was kept for it is free")
    if (placement := idle.place(waiting.replicas)) is not None:
        return _admission(waiting, placement, "room elsewhere before that kept for it is free")
    for node, amounts in held.items():
        idle.reserve(name, node, amounts)
    return None


def admit_in_order(queue: Iterable[Queued], idle: Idle, snapshot: Snapshot) -> Iterator[AdmitGang]:
    """Start jobs from the head of the queue until one does not fit: nobody overtakes it.

    A job that would not fit if the nodes were empty blocks nobody, for it would do so forever.
    """
    for waiting in queue:
        if (proposal := start(waiting, idle, snapshot)) is not None:
            yield proposal
        elif idle.ever_hold(waiting.replicas):
            return


def _admission(waiting: Queued, placement: Mapping[str, str], why: str) -> AdmitGang:
    job = waiting.job
    again = f", again after {format_count(job.preemptions, 'preemption')}" if job.preemptions else ""
    where = ", ".join(sorted(set(placement.values())))
    reason = f"{job.spec.job_class} job {job.order}{again}: {why}, on {where}"
    return AdmitGang(job=waiting.name, placement=placement, reason=reason)
