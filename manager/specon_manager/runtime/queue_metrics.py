"""Metrics of scheduling: queues and their quotas, jobs that wait, are preempted and scaled."""

from collections import Counter as Count
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.core.queue_use import QueueUse, uses_of
from specon_manager.core.state import State
from specon_manager.core.transaction.members import workers
from specon_manager.core.waiting import KINDS, list_waits, waiting_jobs
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.overlay import differing
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.transactions import Kind, Transaction, TransactionState

_WAIT_SECONDS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
_MOST_QUEUES: Final = 100
OTHERS: Final = "(others)"
"""What the queues beyond the first hundred by name are counted as, so that the series are bounded."""
_RESOURCES: Final = ("cpu", "memory", "gpu")


class QueueMetrics:
    """Counts who is admitted, preempted and scaled; shows who waits, and why."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting = Gauge(
            "specon_waiting_jobs",
            f"Jobs that wait to be admitted, by queue and what they wait for: {', '.join(KINDS)}.",
            ["queue", "reason"],
            registry=registry,
        )
        self._length = Gauge(
            "specon_queue_jobs",
            "Former name of the sum of specon_waiting_jobs.",
            registry=registry,
        )
        self._oldest = Gauge(
            "specon_queue_oldest_seconds",
            "How long the job that waits longest has waited; 0 where none does.",
            registry=registry,
        )
        self._excess = Gauge(
            "specon_starvation_excess_seconds",
            "By how much the job that waits longest has outwaited the starvation limit; 0 where none has, or "
            "where none is set.",
            registry=registry,
        )
        self._waited = Histogram(
            "specon_queue_wait_seconds",
            "From the submission of a job to its first admission (its first run, where its owner places it).",
            buckets=_WAIT_SECONDS,
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
            "Use of a queue's quota by all of its jobs, by resource: cores, bytes, devices.",
            ["queue", "resource"],
            registry=registry,
        )
        self._running = Gauge(
            "specon_queue_running_jobs", "Jobs of a queue that run.", ["queue"], registry=registry
        )
        self._over = Gauge(
            "specon_queue_over_quota",
            "1 where a queue that may not borrow uses more than its quota, else 0.",
            ["queue"],
            registry=registry,
        )
        self._preemptions = Counter(
            "specon_preemptions_total", "Preemptions of running jobs.", registry=registry
        )
        self._scaled = Counter(
            "specon_scaled_workers_total",
            "Workers that were started (out) or ended (in) because their job was scaled.",
            ["direction"],
            registry=registry,
        )
        for direction in ("out", "in"):
            self._scaled.labels(direction)

    def count_start(self, before: State, after: State, replica: str) -> None:
        """Take in the start of a replica, with which a job that its owner places begins."""
        known = after.replicas.get(replica)
        if known is not None and known.job in after.jobs:
            self._admit(before.jobs.get(known.job), after.jobs[known.job])

    def count_ended(self, ended: Iterable[Transaction]) -> None:
        """Take in the transactions that ended: preemptions and scalings of jobs that are changed by them."""
        for each in ended:
            if each.state is not TransactionState.SUCCEEDED:
                continue
            if each.kind is Kind.PREEMPT:
                self._preemptions.inc()
            elif each.kind in {Kind.SCALE_IN, Kind.SCALE_OUT}:
                difference = workers(each.after) - workers(each.before)
                self._scaled.labels("out" if difference > 0 else "in").inc(abs(difference))

    def count(self, before: State, after: State) -> None:
        """Take in what a Tick changed."""
        if after.jobs is not before.jobs:
            for name, job in after.jobs.items():
                former = before.jobs.get(name)
                if former is not None and former is not job:
                    self._admit(former, job)
                    if not job.spec.transacted:
                        self._preemptions.inc(max(0, job.preemptions - former.preemptions))
        if after.replicas is not before.replicas:
            self._count_scaled(before.replicas, after)

    def show(self, state: State, now: float) -> None:
        """Set the gauges of those who wait, and of the queues."""
        since = [job.queued_at or job.submitted_at for job in waiting_jobs(state)]
        longest = max(0.0, now - min(since, default=now))
        limit = state.settings.starvation
        self._length.set(len(since))
        self._oldest.set(longest)
        self._excess.set(0.0 if limit is None else max(0.0, longest - limit))
        self._count_queues(state, now)

    def _admit(self, before: Job | None, after: Job) -> None:
        if after.admitted_at is not None and (before is None or before.admitted_at is None):
            self._waited.observe(max(0.0, after.admitted_at - after.submitted_at))

    def _count_scaled(self, before: Mapping[str, Replica], after: State) -> None:
        """Count workers of jobs that are scaled at once."""
        for name in differing(before, after.replicas):
            former, replica = before.get(name), after.replicas[name]
            job = after.jobs.get(replica.job)
            if former is None or job is None or job.spec.transacted:
                continue
            if former.phase is Phase.ABSENT and replica.phase is Phase.STARTING:
                self._scaled.labels("out").inc()
            told = replica.leaving
            if former.leaving is None and told is not None and told.purpose == "scale-in":
                self._scaled.labels("in").inc()

    def _count_queues(self, state: State, now: float) -> None:
        waiting = list_waits(state, now)
        named = sorted({*state.queues, *(each.queue for each in waiting.values())})
        labels = {name: name for name in named[:_MOST_QUEUES]} | dict.fromkeys(named[_MOST_QUEUES:], OTHERS)
        self._clear_queues()
        counts = Count((labels[each.queue], each.kind) for each in waiting.values())
        for name in dict.fromkeys(labels.values()):
            for kind in KINDS:
                self._waiting.labels(name, kind).set(counts[name, kind])
        if state.queues:
            self._count_use(state, labels, uses_of(state))

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
            self._running.labels(label).set(running[label])

    def _clear_queues(self) -> None:
        for gauge in (self._waiting, self._quota, self._used, self._running, self._over):
            gauge.clear()


def _set(gauge: Gauge, queue: str, amount: Resources) -> None:
    for resource in _RESOURCES:
        gauge.labels(queue, resource).set(getattr(amount, resource))
