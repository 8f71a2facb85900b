"""Metrics of what replicas hold, and of what moves of converged ones free: what a stat row sums up."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter

from specon_manager.runtime.controller import Stepped
from specon_manager.views.holding import Held, Holding

_PARTS: Final = ("all", "converged", "freed")


class HoldingMetrics:
    """Counts core-seconds and GPU-seconds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        parts = (
            "all: held by running replicas; converged: by those that have converged; freed: what those held "
            "on nodes that they left by a move."
        )
        labels = ["part"]
        self._cores = Counter(
            "specon_held_core_seconds_total", f"Processors times seconds, {parts}", labels, registry=registry
        )
        self._gpus = Counter(
            "specon_held_gpu_seconds_total", f"GPUs times seconds, {parts}", labels, registry=registry
        )
        # A series that appears with its first event shows no increase for it.
        for part in _PARTS:
            self._cores.labels(part)
            self._gpus.labels(part)
        self._holding: Holding | None = None

    def forget(self) -> None:
        """Begin again with the next step: another manager counts until then."""
        self._holding = None

    def observe(self, stepped: Stepped) -> None:
        """Take one step in."""
        if self._holding is None:
            self._holding = Holding(stepped.now)
        before = self._holding.held
        self._holding.observe(stepped.before, stepped.after, stepped.now)
        self._add(before, self._holding.held)

    def _add(self, before: Held, after: Held) -> None:
        if after is before:
            return
        for part in _PARTS:
            grown = getattr(after, part) - getattr(before, part)
            self._cores.labels(part).inc(grown.cpu)
            self._gpus.labels(part).inc(grown.gpu)
