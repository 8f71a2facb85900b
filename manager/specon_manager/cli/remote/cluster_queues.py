"""Queues and who waits in them, as the manager of a cluster wrote it down. Pure.

It is not worked out again here: the manager knows nodes, budgets and quotas, and the reader may not see them.
"""

from collections import Counter
from collections.abc import Sequence

from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.quantities import quantity
from specon_manager.backends.kube.queues.record import queue_info
from specon_manager.backends.kube.records.expected_start import from_status
from specon_manager.backends.kube.records.job_record import JobPhase, Recorded
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.model.resources import Resources
from specon_manager.views.queues import QueueRow, WaitingRow
from specon_manager.views.times import iso


def waiting_rows(jobs: Sequence[Recorded], now: float) -> tuple[WaitingRow, ...]:
    """Return the jobs that wait, and what for, in the order of submission."""
    waiting = sorted((each for each in jobs if each.status.phase is JobPhase.WAITING), key=_order)
    return tuple(
        WaitingRow(
            job=each.job,
            queue=_queue(each),
            position=each.status.position or 0,
            overall=overall,
            since=None if each.status.since is None else iso(each.status.since.timestamp()),
            kind="",
            text=each.status.waiting_for or "",
            start=from_status(each.status.expected_start, now),
        )
        for overall, each in enumerate(waiting, 1)
    )


def queue_rows(jobs: Sequence[Recorded], queues: Sequence[Object]) -> tuple[QueueRow, ...]:
    """Return the queues by name: the TrainingQueues, and those that only jobs name."""
    waiting = Counter(_queue(each) for each in jobs if each.status.phase is JobPhase.WAITING)
    running = Counter(
        _queue(each) for each in jobs if each.status.phase not in {None, JobPhase.WAITING, JobPhase.ENDED}
    )
    rows = {
        name: QueueRow(
            queue=name,
            quota=None,
            borrow=False,
            limit=None,
            used=None,
            running=running[name],
            waiting=waiting[name],
        )
        for name in (waiting | running)
        if name
    }
    for item in queues:
        info, used = queue_info(item), _read_use(item)
        queue = info.queue
        rows[queue.name] = QueueRow(
            queue=queue.name,
            quota=queue.quota,
            borrow=queue.borrow,
            limit=queue.limit,
            used=used,
            borrowed=None if used is None else used - queue.quota,
            running=running[queue.name],
            waiting=waiting[queue.name],
            share=info.share,
        )
    return tuple(row for _, row in sorted(rows.items()))


def _read_use(item: Object) -> Resources | None:
    """Return what the manager wrote that a queue uses; None where it has not, or where it cannot be read."""
    use = mapping(item.get("status")).get("use")
    if not isinstance(use, dict):
        return None
    try:
        amounts = {name: max(0.0, quantity(str(use.get(name, "0")))) for name in ("cpu", "memory", "gpu")}
    except ValueError:
        return None
    return Resources(**amounts)


def _queue(job: Recorded) -> str:
    return str(job.spec.get("queue") or "")


def _order(job: Recorded) -> tuple[float, int, str]:
    text = job.text
    return (job.created_at, 0, job.job) if text is None else (text.submitted_at, text.order, job.job)
