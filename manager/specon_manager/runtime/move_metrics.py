"""Metrics of moves: those in flight, how they ended, and what they cost."""

from collections import Counter as Count
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.core.requested_moves import PURPOSE
from specon_manager.core.state import State
from specon_manager.model.moves import FINAL_STATES, Move, MoveState
from specon_manager.policies.specon import MIGRATE, REBALANCE
from specon_sidecar.classify import Category

_SECONDS: Final = (0.25, 0.5, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 300)
_WAIT_SECONDS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
_USUAL_PURPOSES: Final = (MIGRATE, REBALANCE, PURPOSE)


class MoveMetrics:
    """Counts moves as they end, and shows those in flight as of the last Tick."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._in_flight = Gauge(
            "specon_moves_in_flight", "Moves in flight by state.", ["state"], registry=registry
        )
        self._oldest = Gauge(
            "specon_oldest_move_age_seconds",
            "Time since the oldest move in flight was proposed; 0 where none is.",
            registry=registry,
        )
        self._ended = Counter(
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
        self._since_converged = Histogram(
            "specon_converged_to_moved_seconds",
            "From the convergence of a replica to the end of its move, of moves that succeeded.",
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        self._converged_at: dict[str, float] = {}
        """By move in flight: since when its replica has converged."""
        # A series that appears with its first event shows no increase for it.
        for purpose in _USUAL_PURPOSES:
            self._expect(purpose)
        self.forget()

    def forget(self) -> None:
        """Set what describes the present to nothing."""
        self._converged_at.clear()
        self._oldest.set(0)
        for state in MoveState:
            if state not in FINAL_STATES:
                self._in_flight.labels(state.value).set(0)

    def observe(self, before: State, after: State) -> None:
        """Take in what a step changed."""
        if after.moves is not before.moves:
            for replica, move in after.moves.items():
                if before.moves.get(replica) is not move and move.id not in self._converged_at:
                    self._begin(move, after)
        if after.history is not before.history:
            known = {move.id for move in before.history}
            for move in after.history:
                if move.id not in known:
                    self._end(move)

    def count(self, state: State, now: float) -> None:
        """Set the gauges."""
        if len(self._converged_at) > len(state.moves):
            there = {move.id for move in state.moves.values()}
            self._converged_at = {move: at for move, at in self._converged_at.items() if move in there}
        states = Count(move.state for move in state.moves.values())
        for name in MoveState:
            if name not in FINAL_STATES:
                self._in_flight.labels(name.value).set(states[name])
        since = min((move.proposed_at for move in state.moves.values()), default=now)
        self._oldest.set(max(0.0, now - since))

    def _begin(self, move: Move, state: State) -> None:
        self._expect(move.purpose)
        replica = state.replicas.get(move.replica)
        if replica is not None and replica.progress.category is Category.CONVERGED:
            self._converged_at[move.id] = replica.progress.category_since

    def _expect(self, purpose: str) -> None:
        for outcome in sorted(FINAL_STATES):
            self._ended.labels(purpose, outcome.value)

    def _end(self, move: Move) -> None:
        converged_at = self._converged_at.pop(move.id, None)
        self._ended.labels(move.purpose, move.state.value).inc()
        if move.downtime is not None:
            self._downtime.observe(move.downtime)
        if move.steps_lost is not None:
            self._steps_lost.inc(move.steps_lost)
        if move.state is MoveState.SUCCEEDED and converged_at is not None and move.ended_at is not None:
            self._since_converged.observe(max(0.0, move.ended_at - converged_at))
