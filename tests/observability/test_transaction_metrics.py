"""Transactions as metrics: those in flight, those that are stuck, those that ended."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from specon_manager.core.state import State
from specon_manager.model.transactions import FINAL_STATES, Kind, Request, TransactionState, Witness
from specon_manager.runtime.transaction_metrics import TransactionMetrics
from specon_manager.views.transactions import find_ended
from specon_sidecar.classify import Category
from support.decisions.changed_jobs import NOW, change, changing, ended, nodes
from support.decisions.gangs import gang, on, with_gang, worker
from support.decisions.observed import Observed, moved


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return TransactionMetrics(registry)


def observe(metrics, before, after):
    metrics.observe(before, after, find_ended(before, after))


def test_transactions_are_counted_once_as_they_end(metrics, registry):
    """By kind, state and policy; duration of those that succeeded, downtime where there was one."""
    first = State(history=(ended(1),))
    rolled = ended(2, Kind.SCALE_IN, state=TransactionState.ROLLED_BACK, downtime=None)
    second = State(history=(ended(1), rolled))
    observe(metrics, State(), first)
    observe(metrics, first, second)
    observe(metrics, second, second)
    value = registry.get_sample_value
    labels = {"kind": "scale-out", "state": "Succeeded", "policy": "kod2"}
    assert value("specon_transactions_total", labels) == 1
    labels = {"kind": "scale-in", "state": "RolledBack", "policy": "kod2"}
    assert value("specon_transactions_total", labels) == 1
    assert value("specon_transaction_duration_seconds_sum", {"kind": "scale-out"}) == 12
    assert value("specon_transaction_duration_seconds_count", {"kind": "scale-in"}) == 0
    assert value("specon_transaction_downtime_seconds_sum", {"kind": "scale-out"}) == 3
    assert value("specon_transaction_downtime_seconds_count", {"kind": "scale-in"}) == 0
    # Under the names of version 0.1 as well.
    assert value("specon_changes_total", {"kind": "scale-out", "result": "Succeeded"}) == 1
    assert value("specon_changes_total", {"kind": "scale-in", "result": "RolledBack"}) == 1
    assert value("specon_change_duration_seconds_sum", {"kind": "scale-out"}) == 12
    assert value("specon_change_duration_seconds_count", {"kind": "scale-in"}) == 0
    assert value("specon_change_downtime_seconds_sum", {"kind": "scale-out"}) == 3
    assert value("specon_change_downtime_seconds_count", {"kind": "scale-in"}) == 0


def test_every_end_of_every_kind_has_a_series_from_the_begin(metrics, registry):
    """One that appears with its first event shows no increase for it."""
    metrics.count(changing(), NOW)
    for kind in Kind:
        for state in FINAL_STATES:
            for policy in ("fifo", "request"):
                labels = {"kind": kind.value, "state": state.value, "policy": policy}
                assert registry.get_sample_value("specon_transactions_total", labels) == 0
            if kind is not Kind.MOVE:
                labels = {"kind": kind.value, "result": state.value}
                assert registry.get_sample_value("specon_changes_total", labels) == 0


def test_what_is_in_flight(metrics, registry):
    """As of the last Tick; a standby tells nothing."""
    request = Request(id="r", replica="default/e/worker/0", at=NOW)
    metrics.count(msgspec.structs.replace(changing(), requests={"r": request}), NOW)
    value = registry.get_sample_value
    here = {"kind": "scale-out", "state": "Checkpointing"}
    assert value("specon_transactions_in_flight", here) == 1
    assert value("specon_transactions_in_flight", {"kind": "preempt", "state": "Leaving"}) == 0
    assert value("specon_oldest_transaction_age_seconds", {"kind": "scale-out"}) == 20
    assert value("specon_oldest_transaction_age_seconds", {"kind": "move"}) == 0
    assert value("specon_stuck_transactions", {"kind": "scale-out"}) == 0
    assert value("specon_queued_requests") == 1
    assert value("specon_changes_in_flight", {"kind": "scale-out"}) == 1
    assert value("specon_changes_in_flight", {"kind": "preempt"}) == 0
    assert value("specon_oldest_change_age_seconds") == 20
    metrics.forget()
    assert value("specon_transactions_in_flight", here) == 0
    assert value("specon_changes_in_flight", {"kind": "scale-out"}) == 0
    assert value("specon_queued_requests") == 0


def test_what_is_stuck_is_told(metrics, registry):
    """While it is, by kind."""
    (flying,) = changing().transactions.values()
    stuck = msgspec.structs.replace(flying, stuck="it does not end")
    metrics.count(changing().with_transaction(stuck), NOW)
    assert registry.get_sample_value("specon_stuck_transactions", {"kind": "scale-out"}) == 1
    metrics.count(changing(), NOW)
    assert registry.get_sample_value("specon_stuck_transactions", {"kind": "scale-out"}) == 0


def test_the_move_of_a_gang_counts_once(metrics, registry):
    """It has converged where all that save for it have, since the last of them did."""
    lead, other = worker("g"), worker("g", 1)
    state = with_gang(nodes(), gang("g", ps=0, resizing="none"), on("node-0", lead, other))
    for name, at in ((lead, 900.0), (other, 950.0)):
        known = state.replicas[name]
        progress = msgspec.structs.replace(known.progress, category=Category.CONVERGED, category_since=at)
        state = state.with_replica(msgspec.structs.replace(known, progress=progress))
    saved = {name: Witness(incarnation="1", downtime=3.0, steps_lost=2) for name in (lead, other)}
    ways = {"job": "g", "before": on("node-0", lead, other), "after": on("node-1", lead, other)}
    begun = change(Kind.MOVE, **ways, witnesses=saved)
    observe(metrics, state, flying := state.with_transaction(begun))
    over = msgspec.structs.replace(begun, state=TransactionState.SUCCEEDED, ended_at=1000.0, killed=(other,))
    observe(metrics, flying, msgspec.structs.replace(state, history=(over,)))
    value = registry.get_sample_value
    assert value("specon_transaction_downtime_seconds_sum", {"kind": "move"}) == 3
    assert value("specon_transaction_lost_steps_total", {"kind": "move"}) == 2
    assert value("specon_transaction_killed_replicas_total", {"kind": "move"}) == 1
    assert value("specon_moves_total", {"purpose": "", "outcome": "Succeeded"}) == 1
    assert value("specon_converged_to_moved_seconds_sum") == 50


def test_a_move_has_the_same_figures_under_both_names():
    """In flight by state; ended by policy, and by purpose as before; what it cost."""
    cluster = Observed()
    a = moved(cluster)
    cluster.tick()
    here = {"kind": "move", "state": "Proposed"}
    assert cluster.value("specon_transactions_in_flight", **here) == 1
    assert cluster.value("specon_moves_in_flight", state="Proposed") == 1
    cluster.carry_out()
    cluster.now += 4
    cluster.report(a, Category.CONVERGED, step=201)
    cluster.tick()
    labels = {"kind": "move", "state": "Succeeded", "policy": "specon"}
    assert cluster.value("specon_transactions_total", **labels) == 1
    (over,) = [each for each in cluster.state.history if each.kind is Kind.MOVE]
    for name in ("transaction", "move"):
        of_kind = {"kind": "move"} if name == "transaction" else {}
        assert cluster.value(f"specon_{name}_downtime_seconds_count", **of_kind) == 1
        assert cluster.value(f"specon_{name}_downtime_seconds_sum", **of_kind) == over.downtime
        assert cluster.value(f"specon_{name}_lost_steps_total", **of_kind) == 0
