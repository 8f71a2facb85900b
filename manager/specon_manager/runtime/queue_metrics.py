"""Metrics of scheduling: jobs that wait, are preempted and scaled."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase, Replica

_WAIT_SECONDS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)


class QueueMetrics:
    """Counts what each Tick admits, preempts and scales, and shows the queue as of the last one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._length = Gauge(
            "specon_queue_jobs",
            "Jobs that wait to be admitted; those that their owners place wait at the scheduler instead.",
            registry=registry,
        )
        self._oldest = Gauge(
            "specon_queue_oldest_seconds",
            "How long the job that waits longest has waited; 0 where none does.",
            registry=registry,
        )
        self._waited = Histogram(
            "specon_queue_wait_seconds",
            "From the submission of a job to its first admission (its first run, where its owner places it).",
            buckets=_WAIT_SECONDS,
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

    def forget(self) -> None:
        """Set what describes the present to nothing."""
        self._length.set(0)
        self._oldest.set(0)

    def started(self, before: State, after: State, replica: str) -> None:
        """Take in the start of a replica, with which a job that its owner places begins."""
        known = after.replicas.get(replica)
        if known is not None and known.job in after.jobs:
            self._admitted(before.jobs.get(known.job), after.jobs[known.job])

    def count(self, before: State, after: State, now: float) -> None:
        """Take in what a Tick changed, and set the gauges."""
        if after.jobs is not before.jobs:
            for name, job in after.jobs.items():
                former = before.jobs.get(name)
                if former is not None and former is not job:
                    self._admitted(former, job)
                    self._preemptions.inc(max(0, job.preemptions - former.preemptions))
        if after.replicas is not before.replicas:
            self._count_scaled(before.replicas, after.replicas)
        pending, active = set(), set()
        for replica in after.replicas.values():
            if replica.phase is Phase.PENDING:
                pending.add(replica.job)
            elif replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
                active.add(replica.job)
        waiting = [after.jobs[name].queued_at for name in pending - active if name in after.jobs]
        self._length.set(len(waiting))
        self._oldest.set(max(0.0, now - min(waiting, default=now)))

    def _admitted(self, before: Job | None, after: Job) -> None:
        if after.admitted_at is not None and (before is None or before.admitted_at is None):
            self._waited.observe(max(0.0, after.admitted_at - after.submitted_at))

    def _count_scaled(self, before: Mapping[str, Replica], after: Mapping[str, Replica]) -> None:
        for name, replica in after.items():
            former = before.get(name)
            if former is None or former is replica:
                continue
            if former.phase is Phase.ABSENT and replica.phase is Phase.STARTING:
                self._scaled.labels("out").inc()
            told = replica.leaving
            if former.leaving is None and told is not None and told.purpose == "scale-in":
                self._scaled.labels("in").inc()
