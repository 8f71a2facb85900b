"""What the jobs of each queue use together, and how many run and wait: for people and metrics. Pure."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from specon_manager.core.quotas import Usage
from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting, waiting_of
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import NOTHING, Resources


class QueueUse(Struct, frozen=True, kw_only=True):
    """Of one queue."""

    used: Resources
    """As quotas count it; without quotas, what its running and starting replicas request."""
    running: int
    """Jobs of which something runs or starts."""
    waiting: int


def uses_of(state: State, now: float, waiting: Mapping[str, Waiting] | None = None) -> Mapping[str, QueueUse]:
    """Return the use of each queue that has a quota, or that jobs name which wait or run; "" is no queue.

    Jobs that their owners let the cluster's scheduler place, and that name no queue, are of none. `waiting`
    is who waits, where the caller knows it already.
    """
    waits = Counter(each.queue for each in (waiting_of(state, now) if waiting is None else waiting).values())
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
    usage = Usage(state.snapshot(now))
    return {
        name: QueueUse(
            used=usage.used(name) if name in state.queues else requested.get(name, NOTHING),
            running=len(active.get(name, ())),
            waiting=waits[name],
        )
        for name in sorted({*requested, *waits})
    }
