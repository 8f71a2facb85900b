"""What the manager counts of itself."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from specon_manager.core.state import Pause, State
from specon_manager.model import events as ev
from specon_manager.model.transactions import FINAL_STATES, TransactionState
from specon_manager.runtime.controller import Stepped
from specon_manager.runtime.metrics import Metrics
from specon_sidecar.classify import Category
from support.decisions.observed import Observed, moved


@pytest.fixture
def cluster():
    return Observed()


def test_every_category_and_state_is_there_from_the_start(cluster):
    """A series that appears with its first event cannot be alerted on."""
    for category in Category:
        assert cluster.value("specon_replicas", category=category.value) == 0
    for state in TransactionState:
        expected = None if state in FINAL_STATES else 0
        assert cluster.value("specon_moves_in_flight", state=state.value) == expected


def test_replicas_are_counted_by_category_and_phase(cluster):
    """The gauges are as of the scrape, down as well as up: no Tick has to come first."""
    a, b, c, _ = cluster.run("a", "b", "c", "d")
    cluster.report(a, Category.WATCHING)
    cluster.report(b, Category.DIVERGING)
    cluster.report(c, Category.STALLED)
    for category in (Category.WATCHING, Category.DIVERGING, Category.STALLED, Category.UNKNOWN):
        assert cluster.value("specon_replicas", category=category.value) == 1
    assert cluster.value("specon_replica_phases", phase="Running") == 4
    cluster.die(a, 0)
    assert cluster.value("specon_replicas", category="watching") == 0
    assert cluster.value("specon_replica_phases", phase="Running") == 3
    assert cluster.value("specon_replica_phases", phase="Succeeded") == 1


def test_reports_crashes_and_ticks_are_counted(cluster):
    """Each once, a doubled one and an end without a crash not at all as a crash."""
    a, b = cluster.run("a", "b")
    cluster.report(a)
    cluster.report(b)
    cluster.die(a, 1)
    cluster.die(b, 0)
    assert cluster.value("specon_reports_total") == 2
    assert cluster.value("specon_replica_crashes_total") == 1
    ticks = sum(isinstance(event, ev.Tick) for _, event, _ in cluster.history)
    assert cluster.value("specon_plan_duration_seconds_count") == ticks
    assert cluster.value("specon_plan_duration_seconds_bucket", le="0.005") == ticks
    assert cluster.value("specon_plan_duration_seconds_bucket", le="0.002") == 0


def test_a_move_is_counted_where_it_is_and_how_it_ended(cluster):
    """In flight by state; ended by purpose and outcome, with its downtime and its lost steps."""
    a = moved(cluster)
    cluster.tick()
    assert cluster.value("specon_moves_in_flight", state="Proposed") == 1
    cluster.carry_out()
    cluster.now += 4
    cluster.report(a, Category.CONVERGED, step=201)
    cluster.tick()
    assert cluster.value("specon_moves_in_flight", state="Proposed") == 0
    assert cluster.value("specon_moves_total", purpose="migrate", outcome="Succeeded") == 1
    assert cluster.value("specon_move_downtime_seconds_count") == 1
    assert cluster.value("specon_move_downtime_seconds_sum") == pytest.approx(
        cluster.state.history[0].downtime
    )
    assert cluster.value("specon_move_lost_steps_total") == 0


def test_decisions_are_counted_by_outcome(cluster):
    """An accepted one by what was ordered, a refused one by its reason, each change once."""
    moved(cluster)
    labels = {"policy": "specon", "proposal": "migrate"}
    assert cluster.value("specon_decisions_total", **labels, outcome="accepted") == 1
    admitted = {"policy": "specon", "proposal": "admit", "outcome": "accepted"}
    assert cluster.value("specon_decisions_total", **admitted) == 4


def test_names_are_labels_of_few_metrics(cluster):
    """Replicas are named by specon_job_*, which is bounded, nodes by one metric, incarnations by none."""
    a = moved(cluster)
    cluster.settle()
    lines = generate_latest(cluster.registry).decode().splitlines()
    named = {line.partition("{")[0] for line in lines if 'job_name="' in line}
    assert named
    assert all(name.startswith("specon_job_") for name in named)
    assert {line.partition("{")[0] for line in lines if '"node-' in line} == {"specon_node_replicas"}
    assert not [line for line in lines if cluster.live[a].incarnation in line]


def test_a_pause_is_told():
    """1 from the Tick that follows it on, 0 after its end and after this manager has ended to lead."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    seen = []
    for pause in (None, Pause(since=1.0, reason="why"), None, Pause(since=2.0)):
        state = State(pause=pause)
        metrics.observe(
            Stepped(before=state, after=state, event=ev.Tick(), actions=[], now=3.0, seconds=0.001)
        )
        seen.append(registry.get_sample_value("specon_paused"))
    metrics.forget()
    assert [*seen, registry.get_sample_value("specon_paused")] == [0, 1, 0, 1, 0]


def test_a_checkpoint_for_somebody_else_is_no_move_that_failed(cluster):
    """Kueue preempts every day: an alert on moves that fail must not follow each time."""
    (a,) = cluster.run("a")
    cluster.report(a)
    cluster.post(ev.SaveRequested(id="kueue-1", replica=a, reason="Kueue is about to preempt it"))
    cluster.carry_out()
    cluster.tick()
    labels = {"kind": "move", "policy": "save"}
    assert cluster.value("specon_transactions_total", state="Saved", **labels) == 1
    for state in sorted(FINAL_STATES):
        assert cluster.value("specon_transactions_total", state=state.value, **labels) == 0
