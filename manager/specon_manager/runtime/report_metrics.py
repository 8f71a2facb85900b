"""Metrics of what sidecars say: reports, lines of logs, and replicas that nobody hears of."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.hanging import hung_replicas
from specon_sidecar.wire import Report

SILENT_SECONDS: Final = 300.0
"""A running replica that was not heard of for so long is silent."""
_SUSPECT_SECONDS: Final = 60.0

_Read = tuple[int, int, int]
"""Lines, samples and unparsed lines of a log."""


class ReportMetrics:
    """Counts reports and what they say of logs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reports = Counter("specon_reports_total", "Reports taken in.", registry=registry)
        self._ignored = Counter(
            "specon_reports_ignored_total",
            "Reports that said nothing new: doubled, late, or of a former sidecar.",
            registry=registry,
        )
        self._counters = (
            Counter("specon_log_lines_total", "Lines of training logs that were read.", registry=registry),
            Counter("specon_log_samples_total", "Samples found in training logs.", registry=registry),
            Counter(
                "specon_log_unparsed_lines_total",
                "Lines of training logs that the reader of their format could make nothing of.",
                registry=registry,
            ),
        )
        self._silent = Gauge(
            "specon_silent_replicas",
            f"Running replicas whose sidecar was not heard of for {SILENT_SECONDS:.0f} s.",
            registry=registry,
        )
        self._hung = Gauge(
            "specon_replicas_hung",
            "Running replicas whose steps stopped for many times their usual interval while they wait.",
            registry=registry,
        )
        self._read: dict[str, _Read] = {}
        self._suspects: dict[str, tuple[str | None, float]] = {}
        """Incarnations that were not heard of for a while, and since when that was noticed."""

    def forget(self) -> None:
        """Set what describes the present to nothing."""
        self._read.clear()
        self._suspects.clear()
        self._silent.set(0)
        self._hung.set(0)

    def take(self, report: Report, before: State, after: State) -> None:
        """Count a report, and the lines that were read since the one before it."""
        if after.replicas is before.replicas:
            self._ignored.inc()
            return
        self._reports.inc()
        read = (report.lines, report.samples, report.unparsed)
        known = self._read.get(report.replica)
        self._read[report.replica] = read
        if known is None:
            # Another manager counted the samples read before this one took over.
            former = before.replicas.get(report.replica)
            if former is None or former.progress.reported_at is not None:
                return
            known = (0, 0, 0)
        for counter, now, then in zip(self._counters, read, known, strict=True):
            if now != then:  # less than before: it started from the beginning
                counter.inc(now - then if now > then else now)

    def count(self, state: State, now: float) -> None:
        """Set the gauges of silent and of hung replicas, and forget replicas that no longer exist."""
        self._hung.set(len(hung_replicas(state.snapshot(now))))
        if len(self._read) > len(state.replicas):
            self._read = {name: read for name, read in self._read.items() if name in state.replicas}
        suspects = {}
        for replica in state.replicas.values():
            if replica.phase is Phase.RUNNING and _unheard(replica, now) > _SUSPECT_SECONDS:
                known = self._suspects.get(replica.name)
                fresh = known is None or known[0] != replica.incarnation
                suspects[replica.name] = (replica.incarnation, now) if known is None or fresh else known
        self._suspects = suspects
        longest = SILENT_SECONDS - _SUSPECT_SECONDS
        self._silent.set(sum(now - since > longest for _, since in suspects.values()))


def _unheard(replica: Replica, now: float) -> float:
    """Return the time since the last report, seconds."""
    reported_at = replica.progress.reported_at
    return float("inf") if reported_at is None else now - reported_at
