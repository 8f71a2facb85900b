"""What metrics of version 0.1 were called, told as well: dashboards and alerts of others ask for them."""

import math
from collections import Counter as Count
from collections.abc import Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.core.requested_moves import PURPOSE
from specon_manager.model.transactions import FINAL_STATES, Kind, Transaction, TransactionState
from specon_manager.policies.specon import MIGRATE, REBALANCE

_MOVE_SECONDS: Final = (0.25, 0.5, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 300)
_CHANGE_SECONDS: Final = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_USUAL_PURPOSES: Final = (MIGRATE, REBALANCE, PURPOSE)
_FLYING: Final = tuple(state for state in TransactionState if state not in FINAL_STATES)
_CHANGES: Final = tuple(kind for kind in Kind if kind is not Kind.MOVE)


class FormerMetrics:
    """Transactions as moves by purpose and as changes of jobs by kind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._moves = Gauge(
            "specon_moves_in_flight",
            "Former name of specon_transactions_in_flight, of moves.",
            ["state"],
            registry=registry,
        )
        self._oldest_move = Gauge(
            "specon_oldest_move_age_seconds",
            "Former name of specon_oldest_transaction_age_seconds, of moves.",
            registry=registry,
        )
        self._moves_ended = Counter(
            "specon_moves_total",
            "Former name of specon_transactions_total, of moves, by purpose.",
            ["purpose", "outcome"],
            registry=registry,
        )
        self._move_downtime = Histogram(
            "specon_move_downtime_seconds",
            "Former name of specon_transaction_downtime_seconds, of moves.",
            buckets=_MOVE_SECONDS,
            registry=registry,
        )
        self._steps_lost = Counter(
            "specon_move_lost_steps_total",
            "Former name of specon_transaction_lost_steps_total, of moves.",
            registry=registry,
        )
        self._changes = Gauge(
            "specon_changes_in_flight",
            "Former name of specon_transactions_in_flight, of transactions other than moves.",
            ["kind"],
            registry=registry,
        )
        self._oldest_change = Gauge(
            "specon_oldest_change_age_seconds",
            "Former name of specon_oldest_transaction_age_seconds, of transactions other than moves.",
            registry=registry,
        )
        self._changes_ended = Counter(
            "specon_changes_total",
            "Former name of specon_transactions_total, of transactions other than moves.",
            ["kind", "result"],
            registry=registry,
        )
        self._duration = Histogram(
            "specon_change_duration_seconds",
            "Former name of specon_transaction_duration_seconds, of transactions other than moves.",
            ["kind"],
            buckets=_CHANGE_SECONDS,
            registry=registry,
        )
        self._change_downtime = Histogram(
            "specon_change_downtime_seconds",
            "Former name of specon_transaction_downtime_seconds, of scalings.",
            ["kind"],
            buckets=_CHANGE_SECONDS,
            registry=registry,
        )
        # A series that appears with its first event shows no increase for it.
        for purpose in _USUAL_PURPOSES:
            self._expect(purpose)
        for kind in _CHANGES:
            self._duration.labels(kind.value)
            for state in sorted(FINAL_STATES):
                self._changes_ended.labels(kind.value, state.value)
        for kind in (Kind.SCALE_OUT, Kind.SCALE_IN):
            self._change_downtime.labels(kind.value)

    def begin(self, transaction: Transaction) -> None:
        """Take in one that has begun."""
        if transaction.kind is Kind.MOVE:
            self._expect(transaction.purpose)

    def count(self, flying: Collection[Transaction], now: float) -> None:
        """Set the gauges to the transactions in flight."""
        moves = [each for each in flying if each.kind is Kind.MOVE]
        states = Count(each.state for each in moves)
        for state in _FLYING:
            self._moves.labels(state.value).set(states[state])
        kinds = Count(each.kind for each in flying)
        for kind in _CHANGES:
            self._changes.labels(kind.value).set(kinds[kind])
        oldest = {True: math.inf, False: math.inf}
        for each in flying:
            is_move = each.kind is Kind.MOVE
            oldest[is_move] = min(oldest[is_move], each.proposed_at)
        self._oldest_move.set(max(0.0, now - min(oldest[True], now)))
        self._oldest_change.set(max(0.0, now - min(oldest[False], now)))

    def end(self, transaction: Transaction) -> None:
        """Take in one that has ended."""
        kind, state, downtime = transaction.kind, transaction.state, transaction.downtime
        if kind is Kind.MOVE:
            self._expect(transaction.purpose)
            self._moves_ended.labels(transaction.purpose, state.value).inc()
            if downtime is not None:
                self._move_downtime.observe(downtime)
            if transaction.steps_lost is not None:
                self._steps_lost.inc(transaction.steps_lost)
            return
        self._changes_ended.labels(kind.value, state.value).inc()
        if state is TransactionState.SUCCEEDED and transaction.ended_at is not None:
            self._duration.labels(kind.value).observe(
                max(0.0, transaction.ended_at - transaction.proposed_at)
            )
        if downtime is not None:
            self._change_downtime.labels(kind.value).observe(downtime)

    def _expect(self, purpose: str) -> None:
        for state in sorted(FINAL_STATES):
            self._moves_ended.labels(purpose, state.value)
