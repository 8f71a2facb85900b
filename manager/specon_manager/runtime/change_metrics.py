"""Metrics of changes of jobs: those in flight, how they ended, and what they cost; queues and who waits."""

import math
from collections import Counter as Count
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.core.queue_use import QueueUse, uses_of
from specon_manager.core.state import State
from specon_manager.core.waiting import KINDS, waiting_of
from specon_manager.model.changes import OVER, Change, ChangeKind
from specon_manager.model.resources import NOTHING, Resources

_SECONDS: Final = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_QUEUES_EVERY: Final = 2.0
"""Seconds: of a thousand waiting jobs the reasons take a while, and Ticks may follow one another at once."""
_MOST_QUEUES: Final = 100
OTHERS: Final = "(others)"
"""What the queues beyond the first hundred by name are counted as, so that the series are bounded."""
_RESOURCES: Final = ("cpu", "memory", "gpu")


class ChangeMetrics:
    """Counts changes as they end, and shows those in flight as of the last Tick, the queues as of 2 s ago."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._in_flight = Gauge(
            "specon_changes_in_flight",
            "Admissions, scalings and preemptions of jobs in flight by kind.",
            ["kind"],
            registry=registry,
        )
        self._oldest = Gauge(
            "specon_oldest_change_age_seconds",
            "Time since the oldest change of a job in flight was proposed; 0 where none is.",
            registry=registry,
        )
        self._ended = Counter(
            "specon_changes_total",
            "Changes of jobs that ended, by kind and result.",
            ["kind", "result"],
            registry=registry,
        )
        self._duration = Histogram(
            "specon_change_duration_seconds",
            "From the proposal of a change of a job to its end, of those that succeeded.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._downtime = Histogram(
            "specon_change_downtime_seconds",
            "Last step before to first step after a scaling for which the job was started anew.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._waiting = Gauge(
            "specon_waiting_jobs",
            f"Jobs that wait to be admitted, by queue and what they wait for: {', '.join(KINDS)}.",
            ["queue", "reason"],
            registry=registry,
        )
        self._longest = Gauge(
            "specon_starvation_excess_seconds",
            "By how much the job that waits longest has outwaited the starvation limit; 0 where none has, or "
            "where none is set.",
            registry=registry,
        )
        self._quota = Gauge(
            "specon_queue_quota",
            "Quota of a queue by resource: cores, bytes, devices.",
            ["queue", "resource"],
            registry=registry,
        )
        self._used = Gauge(
            "specon_queue_used",
            "What the jobs of a queue use of its quota together, by resource: cores, bytes, devices.",
            ["queue", "resource"],
            registry=registry,
        )
        self._jobs = Gauge(
            "specon_queue_running_jobs", "Jobs of a queue that run.", ["queue"], registry=registry
        )
        self._over = Gauge(
            "specon_queue_over_quota",
            "1 where a queue that may not borrow uses more than its quota, else 0.",
            ["queue"],
            registry=registry,
        )
        # A series that appears with its first event shows no increase for it.
        for kind in ChangeKind:
            self._duration.labels(kind.value)
            for result in sorted(OVER):
                self._ended.labels(kind.value, result.value)
        for kind in (ChangeKind.SCALE_OUT, ChangeKind.SCALE_IN):
            self._downtime.labels(kind.value)
        self.forget()

    def forget(self) -> None:
        """Set what describes the present to nothing."""
        for kind in ChangeKind:
            self._in_flight.labels(kind.value).set(0)
        self._counted_at = -math.inf
        for gauge in (self._oldest, self._longest):
            gauge.set(0)
        self._clear_queues()

    def observe(self, before: State, after: State) -> None:
        """Take in what a step changed."""
        if after.change_history is not before.change_history:
            known = {change.id for change in before.change_history}
            for change in after.change_history:
                if change.id not in known:
                    self._end(change)

    def count(self, state: State, now: float) -> None:
        """Set the gauges."""
        kinds = Count(change.kind for change in state.changes.values())
        for kind in ChangeKind:
            self._in_flight.labels(kind.value).set(kinds[kind])
        flying = state.changes.values()
        self._oldest.set(max((now - change.proposed_at for change in flying), default=0.0))
        if now - self._counted_at >= _QUEUES_EVERY:
            self._counted_at = now
            self._count_queues(state, now)

    def _end(self, change: Change) -> None:
        self._ended.labels(change.kind.value, change.state.value).inc()
        if change.state.value == "Succeeded" and change.ended_at is not None:
            self._duration.labels(change.kind.value).observe(max(0.0, change.ended_at - change.proposed_at))
        if change.downtime is not None:
            self._downtime.labels(change.kind.value).observe(change.downtime)

    def _count_queues(self, state: State, now: float) -> None:
        waiting = waiting_of(state, now)
        named = {*state.queues, *(each.queue for each in waiting.values())}
        shown = sorted(named)[:_MOST_QUEUES]
        labels = {name: name for name in shown} | dict.fromkeys(sorted(named)[_MOST_QUEUES:], OTHERS)
        self._clear_queues()
        counts = Count((labels[each.queue], each.kind) for each in waiting.values())
        for name in dict.fromkeys(labels.values()):
            for kind in KINDS:
                self._waiting.labels(name, kind).set(counts[name, kind])
        longest = max((now - each.since for each in waiting.values()), default=0.0)
        limit = state.settings.starvation
        self._longest.set(0.0 if limit is None else max(0.0, longest - limit))
        if state.queues:
            self._count_use(state, labels, uses_of(state, now, waiting))

    def _count_use(self, state: State, labels: Mapping[str, str], uses: Mapping[str, QueueUse]) -> None:
        shown = dict.fromkeys(labels[name] for name in state.queues)
        used, quotas = dict.fromkeys(shown, NOTHING), dict.fromkeys(shown, NOTHING)
        running = dict.fromkeys(shown, 0)
        for name, queue in state.queues.items():
            label, use = labels[name], uses[name]
            used[label] += use.used
            quotas[label] += queue.quota
            running[label] += use.running
            if label != OTHERS:
                self._over.labels(label).set(not queue.borrow and not use.used.fits(queue.quota))
        for label, amount in used.items():
            _set(self._used, label, amount)
            _set(self._quota, label, quotas[label])
            self._jobs.labels(label).set(running[label])

    def _clear_queues(self) -> None:
        for gauge in (self._waiting, self._quota, self._used, self._jobs, self._over):
            gauge.clear()


def _set(gauge: Gauge, queue: str, amount: Resources) -> None:
    for resource in _RESOURCES:
        gauge.labels(queue, resource).set(getattr(amount, resource))
