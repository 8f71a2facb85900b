"""What the jobs of each queue use together, and how many run and wait: for people and metrics. Pure."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from specon_manager.core.quotas import Usage
from specon_manager.core.state import State
from specon_manager.core.waiting import waiting_jobs
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import NOTHING, Resources


class QueueUse(Struct, frozen=True, kw_only=True):
    """Of one queue."""

    used: Resources = NOTHING
    """As quotas count it; without quotas, what its running and starting replicas request."""
    running: int = 0
    """Jobs with a replica that runs or starts."""
    waiting: int = 0
    """Jobs that are to be admitted and are not."""
    share: float | None = None
    """How many times its quota it has used over time; None where queues take no turns."""


def uses_of(state: State) -> Mapping[str, QueueUse]:
    """Return the use of each queue that has a quota, or that jobs name which wait or run; "" is no queue.

    Jobs that their owners let the cluster's scheduler place, and that name no queue, are of none. The time
    is linear in jobs and replicas.
    """
    waits = Counter(job.spec.queue for job in waiting_jobs(state))
    requested = dict.fromkeys(state.queues, NOTHING)
    active: dict[str, set[str]] = {name: set() for name in state.queues}
    for replica in state.replicas.values():
        job = state.jobs.get(replica.job)
        if job is None or not (replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING):
            continue
        queue = job.spec.queue
        if queue or not job.owned:
            requested[queue] = requested.get(queue, NOTHING) + replica.requests
            active.setdefault(queue, set()).add(job.name)
    usage = Usage(state.snapshot(now=0.0))  # the use does not depend on the time
    return {
        name: QueueUse(
            used=usage.used(name) if name in state.queues else requested.get(name, NOTHING),
            running=len(active.get(name, ())),
            waiting=waits[name],
            share=state.shares[name].mean if name in state.shares else None,
        )
        for name in sorted({*requested, *waits})
    }
