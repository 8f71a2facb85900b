"""RAND: random best-effort jobs are preempted until a trial has room. A baseline of FitGpp's experiments.

The choice depends on the seed, the time and the names alone, so a run can be repeated.
"""

from collections.abc import Iterator

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.preemption.running import Running
from specon_manager.policies.preemption.trials import TrialsFirstSettings, trials_first
from specon_manager.policies.preemption.victims import Sequential, preemptible, shuffle


class RandSettings(TrialsFirstSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The seed, and what the preemptive policies have in common."""

    seed: int = 0
    """Another seed, other victims."""


def propose(snapshot: Snapshot, settings: RandSettings) -> Iterator[Proposal]:
    """Start trials, preempt at random for those that have no room, then start best-effort jobs."""

    def strategy_of(running: Running) -> Sequential:
        candidates = preemptible(running.all(), settings.max_preemptions)
        order = shuffle(candidates, settings.seed, snapshot.now)
        return Sequential(order, lambda _: "this one was drawn at random")

    return trials_first(snapshot, settings, strategy_of)
