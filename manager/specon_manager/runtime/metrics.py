"""Prometheus metrics of the manager. Labels are bounded: no replica, job or pod is one."""

from collections import Counter as Count
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.model.actions import Decision
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.events import ReportReceived, Tick
from specon_manager.model.moves import FINAL_STATES, Move, MoveState
from specon_manager.runtime.controller import Stepped
from specon_sidecar.classify import Category

_SECONDS: Final = (0.25, 0.5, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 300)
_PLAN_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)


class Metrics:
    """Counts what each step changed; an observer of the controller."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._replicas = Gauge(
            "specon_replicas", "Running replicas by category.", ["category"], registry=registry
        )
        self._phases = Gauge("specon_replica_phases", "Replicas by phase.", ["phase"], registry=registry)
        self._reports = Counter("specon_reports_total", "Reports taken in.", registry=registry)
        self._decisions = Counter(
            "specon_decisions_total",
            "Decisions by policy, proposal and refusal (accepted where it was ordered).",
            ["policy", "proposal", "outcome"],
            registry=registry,
        )
        self._in_flight = Gauge(
            "specon_moves_in_flight", "Moves in flight by state.", ["state"], registry=registry
        )
        self._moves = Counter(
            "specon_moves_total",
            "Moves that ended, by purpose and outcome.",
            ["purpose", "outcome"],
            registry=registry,
        )
        self._downtime = Histogram(
            "specon_move_downtime_seconds",
            "Last step before a move to first step after it.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._steps_lost = Counter(
            "specon_move_lost_steps_total", "Steps that moves had trained again.", registry=registry
        )
        self._crashes = Counter("specon_replica_crashes_total", "Crashes of replicas.", registry=registry)
        self._plan = Histogram(
            "specon_plan_duration_seconds",
            "Time that one Tick took: deadlines, policy and plan.",
            buckets=_PLAN_SECONDS,
            registry=registry,
        )
        for category in Category:
            self._replicas.labels(category.value)
        for state in MoveState:
            if state not in FINAL_STATES:
                self._in_flight.labels(state.value)

    def forget(self) -> None:
        """Set what describes the present to nothing: this manager leads no more, another one tells."""
        for category in Category:
            self._replicas.labels(category.value).set(0)
        for phase in Phase:
            self._phases.labels(phase.value).set(0)
        for state in MoveState:
            if state not in FINAL_STATES:
                self._in_flight.labels(state.value).set(0)

    def observe(self, stepped: Stepped) -> None:
        """Take one step in."""
        before, after = stepped.before, stepped.after
        if isinstance(stepped.event, ReportReceived):
            self._reports.inc()
        if isinstance(stepped.event, Tick):
            self._plan.observe(stepped.seconds)
            self._count(stepped)
        if after.decisions is not before.decisions:
            self._count_decisions(set(before.decisions), after.decisions)
        if after.history is not before.history:
            self._count_moves({move.id for move in before.history}, after.history)
        # Thousands of reports come, each with new records, and none is a crash.
        if after.replicas is not before.replicas and not isinstance(stepped.event, ReportReceived):
            self._count_crashes(before.replicas, after.replicas)

    def _count_decisions(self, known: Collection[Decision], decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if decision not in known:
                proposal = decision.proposal.partition(" ")[0].lower()
                outcome = "accepted" if decision.refusal is None else decision.refusal.value
                self._decisions.labels(decision.policy, proposal, outcome).inc()

    def _count_moves(self, known: Collection[str], moves: Iterable[Move]) -> None:
        for move in moves:
            if move.id in known:
                continue
            self._moves.labels(move.purpose, move.state.value).inc()
            if move.downtime is not None:
                self._downtime.observe(move.downtime)
            if move.steps_lost is not None:
                self._steps_lost.inc(move.steps_lost)

    def _count_crashes(self, before: Mapping[str, Replica], after: Mapping[str, Replica]) -> None:
        for name, replica in after.items():
            former = before.get(name)
            if former is not None and former is not replica and replica.crashes > former.crashes:
                self._crashes.inc(replica.crashes - former.crashes)

    def _count(self, stepped: Stepped) -> None:
        """Set the gauges; once per Tick is often enough."""
        replicas = stepped.after.replicas.values()
        categories = Count(r.progress.category for r in replicas if r.phase is Phase.RUNNING)
        for category in Category:
            self._replicas.labels(category.value).set(categories[category])
        phases = Count(replica.phase for replica in replicas)
        for phase in Phase:
            self._phases.labels(phase.value).set(phases[phase])
        states = Count(move.state for move in stepped.after.moves.values())
        for state in MoveState:
            if state not in FINAL_STATES:
                self._in_flight.labels(state.value).set(states[state])
