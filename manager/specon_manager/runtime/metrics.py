"""Prometheus metrics of the manager.

Labels are bounded: no pod, no incarnation is one. Nodes are labels of `specon_node_replicas`, replicas those
of `specon_job_*` alone, and of so many of them at most.
"""

from collections import Counter as Count
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from specon_manager.core.state import State
from specon_manager.model.actions import Decision
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.events import ReplicaStarted, ReportReceived, Tick
from specon_manager.model.overlay import differing
from specon_manager.runtime.controller import Stepped
from specon_manager.runtime.holding_metrics import HoldingMetrics
from specon_manager.runtime.job_metrics import MOST, JobMetrics
from specon_manager.runtime.node_metrics import NodeMetrics
from specon_manager.runtime.queue_metrics import QueueMetrics
from specon_manager.runtime.report_metrics import ReportMetrics
from specon_manager.runtime.speed_metrics import SpeedMetrics
from specon_manager.runtime.transaction_metrics import TransactionMetrics
from specon_manager.views.transactions import find_ended
from specon_sidecar.classify import Category

_PLAN_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics(Collector):
    """Counts what each step changed; an observer of the controller.

    Counts over all replicas are made at each scrape: scrapes are less frequent than Ticks.
    """

    def __init__(self, registry: CollectorRegistry, *, most_replicas: int = MOST) -> None:
        """Tell `registry`; `most_replicas` bounds how many replicas have series of their own."""
        self._state, self._now = State(), 0.0
        registry.register(self)  # before the gauges that it sets
        self._replicas = Gauge(
            "specon_replicas", "Running replicas by category.", ["category"], registry=registry
        )
        self._phases = Gauge("specon_replica_phases", "Replicas by phase.", ["phase"], registry=registry)
        self._decisions = Counter(
            "specon_decisions_total",
            "Decisions by policy, proposal and refusal (accepted where it was ordered).",
            ["policy", "proposal", "outcome"],
            registry=registry,
        )
        self._paused = Gauge(
            "specon_paused", "1 while nothing new is ordered: specon pause, specon resume.", registry=registry
        )
        self._crashes = Counter("specon_replica_crashes_total", "Crashes of replicas.", registry=registry)
        self._plan = Histogram(
            "specon_plan_duration_seconds",
            "Time that one Tick took: deadlines, policy and plan.",
            buckets=_PLAN_SECONDS,
            registry=registry,
        )
        self._reports = ReportMetrics(registry)
        self._transactions = TransactionMetrics(registry)
        self._queue = QueueMetrics(registry)
        self._speeds = SpeedMetrics(registry)
        self._nodes = NodeMetrics(registry)
        self._jobs = JobMetrics(registry, most_replicas)
        self._holding = HoldingMetrics(registry)

    def forget(self) -> None:
        """Set what describes the present to nothing: this manager leads no more, another one tells."""
        self._state = State()
        parts = (self._reports, self._transactions, self._speeds, self._nodes, self._jobs, self._holding)
        for part in parts:
            part.forget()

    def describe(self) -> list[Metric]:
        """Return none: those that are set here describe themselves."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Set the gauges that come after this in the registry; yield none."""
        self._count_replicas(self._state)
        self._queue.show(self._state, self._now)
        return iter(())

    def observe(self, stepped: Stepped) -> None:
        """Take one step in."""
        before, after, event = stepped.before, stepped.after, stepped.event
        self._state, self._now = after, stepped.now
        self._nodes.observe(after)
        self._holding.observe(stepped)
        self._jobs.observe(after, stepped.now)
        if after.transactions is not before.transactions or after.history is not before.history:
            ended = find_ended(before, after)
            self._transactions.observe(before, after, ended)
            self._queue.count_ended(ended)
            self._speeds.moves(before, after, ended)
        if isinstance(event, ReportReceived):
            self._reports.take(event.report, before, after)
            if after.replicas is not before.replicas:
                self._speeds.report(event.report.replica, after)
                self._jobs.report(event.report, after, stepped.now)
        elif after.replicas is not before.replicas:
            # Thousands of reports come, each with new records, and none is a crash.
            self._count_crashes(before.replicas, after.replicas)
        if isinstance(event, ReplicaStarted):
            self._queue.count_start(before, after, event.replica)
        if after.decisions is not before.decisions:
            self._count_decisions(set(before.decisions), after.decisions)
        if isinstance(event, Tick):
            self._plan.observe(stepped.seconds)
            self._count(stepped)

    def _count(self, stepped: Stepped) -> None:
        """Set the gauges of what changes with time; once per Tick is often enough."""
        after, now = stepped.after, stepped.now
        self._transactions.count(after, now)
        self._queue.count(stepped.before, after)
        self._reports.count(after, now)
        self._speeds.tick(after, now)
        self._jobs.tick(after)

    def _count_decisions(self, known: Collection[Decision], decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if decision not in known:
                proposal = decision.proposal.partition(" ")[0].lower()
                outcome = "accepted" if decision.refusal is None else decision.refusal.value
                self._decisions.labels(decision.policy, proposal, outcome).inc()

    def _count_crashes(self, before: Mapping[str, Replica], after: Mapping[str, Replica]) -> None:
        for name in differing(before, after):
            former, replica = before.get(name), after[name]
            if former is not None and former is not replica and replica.crashes > former.crashes:
                self._crashes.inc(replica.crashes - former.crashes)

    def _count_replicas(self, state: State) -> None:
        self._paused.set(state.pause is not None)
        phases = Count[Phase]()
        categories = Count[Category]()
        for replica in state.replicas.values():
            phases[replica.phase] += 1
            if replica.phase is Phase.RUNNING:
                categories[replica.progress.category] += 1
        for phase in Phase:
            self._phases.labels(phase.value).set(phases[phase])
        for category in Category:
            self._replicas.labels(category.value).set(categories[category])
