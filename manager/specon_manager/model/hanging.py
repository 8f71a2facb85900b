"""Which replicas hang: one answer for those who show, count, tell and restart them."""

from typing import Final

from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.renewal import Chosen
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import UNTOUCHED_STATES

_MISSING: Final = frozenset({Phase.PENDING, Phase.STARTING, Phase.AWAITED, Phase.FAILED})
_RECENT: Final = 0.5  # of the silence: who has trained within it does not wait for who hangs


def hung_replicas(snapshot: Snapshot) -> tuple[Replica, ...]:
    """Return the replicas that hang, in the order of the replicas."""
    known = (snapshot.replicas[name] for name in _suspected(snapshot.replicas))
    return tuple(replica for replica in known if hangs(replica, snapshot))


def hangs(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether a replica hangs, and nothing that is known explains that its steps stopped.

    A replica that waits for a missing member of its gang does not hang. Neither does one that is about to end
    or has just started, or one with another member of its gang that still trains.
    """
    if not _suspect(replica) or replica.leaving is not None:
        return False
    job = snapshot.jobs[replica.job]
    flying = snapshot.moving.get(replica.name) or snapshot.changing.get(job.name)
    if flying is not None and flying.state not in UNTOUCHED_STATES:
        return False
    if not job.spec.coupled:
        return True
    members = [snapshot.replicas[name] for name in job.spec.replicas if name != replica.name]
    now = snapshot.now if replica.progress.reported_at is None else replica.progress.reported_at
    since = now - _RECENT * silence_of(replica.progress, now)
    return not any(
        each.phase in _MISSING or each.leaving is not None or _has_trained(each, since) for each in members
    )


def silence_of(progress: Progress, now: float) -> float:
    """Return for how long a replica that hangs had no step, seconds; pauses of its trainer are left out."""
    if progress.hang is None:
        return 0.0
    return progress.hang.silent + max(
        0.0, now - (now if progress.reported_at is None else progress.reported_at)
    )


def _has_trained(replica: Replica, since: float) -> bool:
    progress = replica.progress
    return progress.hang is None and progress.step_at is not None and progress.step_at > since


def _suspect(replica: Replica) -> bool:
    return replica.progress.hang is not None and replica.phase is Phase.RUNNING


_suspected: Final = Chosen(_suspect)
