"""Gangs that a policy places replica by replica, put together: such a job starts as a whole or not at all."""

from collections.abc import Iterable, Iterator

from specon_manager.model.actions import Admit, AdmitGang, Proposal
from specon_manager.model.snapshot import Snapshot


def gather_gangs(proposals: Iterable[Proposal], snapshot: Snapshot) -> Iterator[Proposal]:
    """Pass the proposals on, with one for each waiting gang instead of those for its single replicas.

    This holds for jobs that change as a whole and have no replica on a node; a worker that crashed beside
    others is started by itself. A replica without a place is missing from the gang, and the plan says so.
    """
    gangs: dict[str, dict[str, str]] = {}
    reasons: dict[str, str] = {}
    for proposal in proposals:
        if isinstance(proposal, Admit) and (job := _gang(proposal, snapshot)) is not None:
            gangs.setdefault(job, {})[proposal.replica] = proposal.node
            reasons.setdefault(job, proposal.reason)
        else:
            yield proposal
    for job, placement in gangs.items():
        yield AdmitGang(job=job, placement=placement, reason=reasons[job])


def _gang(proposal: Admit, snapshot: Snapshot) -> str | None:
    """Return the name of the gang that waits and that the replica belongs to, None where there is none."""
    replica = snapshot.replicas.get(proposal.replica)
    return replica.job if replica is not None and snapshot.starts_whole(replica.job) else None
