"""LRTP, longest remaining time preemption: Big-C's rule, as FitGpp's authors compare with it.

W. Chen, J. Rao, X. Zhou, "Preemptive, Low Latency Datacenter Scheduling via Lightweight Virtualization",
USENIX ATC 2017; used in section 4.1 of FitGpp (arXiv 1902.01613), where the remaining time is known exactly.
"""

import math
from collections.abc import Iterator

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.preemption.running import Running
from specon_manager.policies.preemption.trials import TrialsFirstSettings, trials_first
from specon_manager.policies.preemption.victims import Sequential, preemptible
from specon_manager.policies.remaining_work import remaining_seconds


class LrtpSettings(TrialsFirstSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those that the preemptive policies have in common."""


def propose(snapshot: Snapshot, settings: LrtpSettings) -> Iterator[Proposal]:
    """Start trials, preempt the longest for those that have no room, then start best-effort jobs."""

    def strategy_of(running: Running) -> Sequential:
        candidates = preemptible(running.all(), settings.max_preemptions)
        seconds = {candidate.name: remaining_seconds(candidate.job, snapshot) for candidate in candidates}
        candidates.sort(key=lambda one: (-_read_remaining(seconds[one.name]), one.job.order, one.name))
        return Sequential(candidates, lambda one: _why(seconds[one.name]))

    return trials_first(snapshot, settings, strategy_of)


def _read_remaining(seconds: float) -> float:
    """Return the remaining time, nothing where it is not known: those go last."""
    return 0.0 if math.isinf(seconds) else seconds


def _why(seconds: float) -> str:
    if math.isinf(seconds):
        return "how long this one still trains is not known, and no longer time is known of any other"
    return f"this one still trains for {seconds:.0f} s, the longest of those left"
