"""Metrics of transactions: those in flight, those that are stuck, how they ended, and what they cost."""

from collections import Counter as Count
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specon_manager.core.requested_moves import POLICY
from specon_manager.core.state import State
from specon_manager.core.transaction.table import SKIPPED
from specon_manager.model.transactions import FINAL_STATES, Kind, Transaction, TransactionState
from specon_manager.runtime.former_metrics import FormerMetrics
from specon_sidecar.classify import Category

_SECONDS: Final = (0.25, 0.5, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 300, 600, 1800)
_WAIT_SECONDS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
_SAVED: Final = "Saved"
_FLYING: Final = tuple(state for state in TransactionState if state not in FINAL_STATES)


class TransactionMetrics:
    """Counts transactions as they end, and shows those in flight as of the last Tick."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._in_flight = Gauge(
            "specon_transactions_in_flight",
            "Moves, admissions, scalings and preemptions in flight by kind and state.",
            ["kind", "state"],
            registry=registry,
        )
        self._oldest = Gauge(
            "specon_oldest_transaction_age_seconds",
            "Time since the oldest transaction in flight of a kind was proposed; 0 where none is.",
            ["kind"],
            registry=registry,
        )
        self._stuck = Gauge(
            "specon_stuck_transactions",
            "Transactions in flight that cannot come to an end, by kind; they count in no budget.",
            ["kind"],
            registry=registry,
        )
        self._requests = Gauge(
            "specon_queued_requests",
            "Requested moves that wait for others in flight.",
            registry=registry,
        )
        self._ended = Counter(
            "specon_transactions_total",
            "Transactions that ended, by kind, final state, and the policy that proposed them (request: a "
            "person).",
            ["kind", "state", "policy"],
            registry=registry,
        )
        self._duration = Histogram(
            "specon_transaction_duration_seconds",
            "From the proposal of a transaction to its end, of those that succeeded.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._downtime = Histogram(
            "specon_transaction_downtime_seconds",
            "Last step before to first step after a transaction, of replicas that ended and train again.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._steps_lost = Counter(
            "specon_transaction_lost_steps_total",
            "Steps that had to be trained again because of transactions, by kind.",
            ["kind"],
            registry=registry,
        )
        self._killed = Counter(
            "specon_transaction_killed_replicas_total",
            "Replicas that were killed for transactions, for they did not end within their grace period.",
            ["kind"],
            registry=registry,
        )
        self._since_converged = Histogram(
            "specon_converged_to_moved_seconds",
            "From the convergence of a replica, or gang, to the end of its move, of moves that succeeded.",
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        self._former = FormerMetrics(registry)
        self._converged_at: dict[str, float] = {}
        """By move in flight: since when all that save for it have converged."""
        self._policies: set[str] = set()
        # A series that appears with its first event shows no increase for it.
        self._expect(POLICY)
        for kind in Kind:
            self._duration.labels(kind.value)
            self._downtime.labels(kind.value)
            self._steps_lost.labels(kind.value)
            self._killed.labels(kind.value)
        self.forget()

    def forget(self) -> None:
        """Set what describes the present to nothing."""
        self._converged_at.clear()
        self._count(State(), 0.0)

    def observe(self, before: State, after: State, ended: Iterable[Transaction]) -> None:
        """Take in what a step changed, and what ended with it."""
        if after.transactions is not before.transactions:
            for name, each in after.transactions.items():
                if name not in before.transactions:
                    self._begin(each, after)
        for each in ended:
            self._note_end(each)

    def count(self, state: State, now: float) -> None:
        """Set the gauges."""
        if len(self._converged_at) > len(state.transactions):
            flying = state.transactions
            self._converged_at = {name: at for name, at in self._converged_at.items() if name in flying}
        self._expect(state.settings.policy)
        self._count(state, now)

    def _count(self, state: State, now: float) -> None:
        flying = state.transactions.values()
        states = Count((each.kind, each.state) for each in flying)
        for kind in Kind:
            here = [each for each in flying if each.kind is kind]
            for name in _FLYING:
                if name not in SKIPPED[kind] or states[kind, name]:  # on the way back none is skipped
                    self._in_flight.labels(kind.value, name.value).set(states[kind, name])
            self._oldest.labels(kind.value).set(max((now - each.proposed_at for each in here), default=0.0))
            self._stuck.labels(kind.value).set(sum(bool(each.stuck) for each in here))
        self._requests.set(len(state.requests))
        self._former.count(flying, now)

    def _begin(self, transaction: Transaction, state: State) -> None:
        self._expect(transaction.policy)
        self._former.begin(transaction)
        if transaction.kind is not Kind.MOVE:
            return
        lead = [state.replicas[name].progress for name in transaction.witnesses if name in state.replicas]
        if lead and all(each.category is Category.CONVERGED for each in lead):
            self._converged_at[transaction.id] = max(each.category_since for each in lead)

    def _expect(self, policy: str) -> None:
        """Begin the series of a policy at 0."""
        if policy in self._policies:
            return
        self._policies.add(policy)
        for kind in Kind:
            for state in sorted(FINAL_STATES):
                self._ended.labels(kind.value, state.value, policy)

    def _note_end(self, transaction: Transaction) -> None:
        self._expect(transaction.policy)
        converged_at = self._converged_at.pop(transaction.id, None)
        if transaction.saved_in_place:
            self._ended.labels(transaction.kind.value, _SAVED, transaction.policy).inc()
            return  # no move failed: none was to be
        kind, succeeded = transaction.kind.value, transaction.state is TransactionState.SUCCEEDED
        self._ended.labels(kind, transaction.state.value, transaction.policy).inc()
        if transaction.downtime is not None:
            self._downtime.labels(kind).observe(transaction.downtime)
        if transaction.steps_lost is not None:
            self._steps_lost.labels(kind).inc(transaction.steps_lost)
        self._killed.labels(kind).inc(len(transaction.killed))
        if succeeded and transaction.ended_at is not None:
            self._duration.labels(kind).observe(max(0.0, transaction.ended_at - transaction.proposed_at))
            if converged_at is not None:
                self._since_converged.observe(max(0.0, transaction.ended_at - converged_at))
        self._former.end(transaction)
