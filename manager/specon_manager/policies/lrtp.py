"""LRTP, longest remaining time preemption: Big-C's rule, as FitGpp's authors compare with it.

W. Chen, J. Rao, X. Zhou, "Preemptive, Low Latency Datacenter Scheduling via Lightweight Virtualization",
USENIX ATC 2017; used in section 4.1 of FitGpp (arXiv 1902.01613), where the remaining time is known exactly.
"""

from collections.abc import Iterator

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.preemption.trials import TrialsFirstSettings, trials_first
from specon_manager.policies.preemption.victims import Candidate, Sequential, preemptible


class LrtpSettings(TrialsFirstSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those that the preemptive policies have in common."""


def propose(snapshot: Snapshot, settings: LrtpSettings) -> Iterator[Proposal]:
    """Start trials, preempt the longest for those that have no room, then start best-effort jobs."""
    now = snapshot.now

    def strategy_of(running: list[Candidate]) -> Sequential:
        candidates = preemptible(running, settings.max_preemptions)
        seconds = {candidate.name: remaining(candidate, now) for candidate in candidates}
        candidates.sort(key=lambda one: (-(seconds[one.name] or 0.0), one.job.order, one.name))
        return Sequential(candidates, lambda one: _why(seconds[one.name]))

    return trials_first(snapshot, settings, strategy_of)


def remaining(candidate: Candidate, now: float) -> float | None:
    """Return how long the job still trains, seconds; None where nothing is known of it.

    A report counts that was made since the job trains without a break; else the declared duration less the
    time it has trained. The replica that says the most decides.
    """
    job, reported = candidate.job, []
    for replica in candidate.replicas:
        progress = replica.progress
        if progress.remaining_seconds is None or progress.reported_at is None or job.trains_since is None:
            continue
        if progress.reported_at >= job.trains_since:
            reported.append(progress.remaining_seconds.value - (now - progress.reported_at))
    if reported:
        return max(0.0, *reported)
    if job.spec.declared_seconds is None:
        return None
    return max(0.0, job.spec.declared_seconds - job.attained(now))


def _why(seconds: float | None) -> str:
    if seconds is None:
        return "how long this one still trains is not known, and no longer time is known of any other"
    return f"this one still trains for {seconds:.0f} s, the longest of those left"
