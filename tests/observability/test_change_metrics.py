"""Changes of jobs, queues and who waits, as metrics."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from specon_manager.core.state import State
from specon_manager.core.waiting import KINDS
from specon_manager.model.changes import ChangeKind, ChangeState
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.runtime.change_metrics import OTHERS, ChangeMetrics
from support.changed_jobs import NOW, SECONDS_WAITED, changing, elastic, ended, nodes
from support.gangs import with_gang


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return ChangeMetrics(registry)


def test_changes_are_counted_once_as_they_end(metrics, registry):
    """By kind and result; duration of those that succeeded, downtime where there was one."""
    first = State(change_history=(ended(1),))
    rolled = ended(2, ChangeKind.SCALE_IN, state=ChangeState.ROLLED_BACK, downtime=None)
    second = State(change_history=(ended(1), rolled))
    metrics.observe(State(), first)
    metrics.observe(first, second)
    metrics.observe(second, second)
    value = registry.get_sample_value
    assert value("specon_changes_total", {"kind": "scale-out", "result": "Succeeded"}) == 1
    assert value("specon_changes_total", {"kind": "scale-in", "result": "RolledBack"}) == 1
    assert value("specon_change_duration_seconds_sum", {"kind": "scale-out"}) == 12
    assert value("specon_change_duration_seconds_count", {"kind": "scale-in"}) == 0
    assert value("specon_change_downtime_seconds_sum", {"kind": "scale-out"}) == 3
    assert value("specon_change_downtime_seconds_count", {"kind": "scale-in"}) == 0


def test_every_result_of_every_kind_has_a_series_from_the_begin(metrics, registry):
    """One that appears with its first event shows no increase for it."""
    for kind in ChangeKind:
        for result in ("Succeeded", "RolledBack", "Failed"):
            labels = {"kind": kind.value, "result": result}
            assert registry.get_sample_value("specon_changes_total", labels) == 0


def test_what_is_in_flight_and_who_waits(metrics, registry):
    """As of the last Tick; a standby tells nothing."""
    metrics.count(changing(), NOW)
    value = registry.get_sample_value
    assert value("specon_changes_in_flight", {"kind": "scale-out"}) == 1
    assert value("specon_changes_in_flight", {"kind": "preempt"}) == 0
    assert value("specon_oldest_change_age_seconds") == 20
    assert value("specon_waiting_jobs", {"queue": "team", "reason": "quota"}) == 1
    assert value("specon_waiting_jobs", {"queue": "team", "reason": "room"}) == 0
    assert value("specon_starvation_excess_seconds") == SECONDS_WAITED - 100
    metrics.forget()
    assert value("specon_changes_in_flight", {"kind": "scale-out"}) == 0
    assert value("specon_waiting_jobs", {"queue": "team", "reason": "quota"}) is None


def test_quota_and_use_of_queues(metrics, registry):
    """A queue over its quota that may not borrow is told to be that; one that may is not."""
    state = changing()
    metrics.count(state, NOW)
    value = registry.get_sample_value
    assert value("specon_queue_quota", {"queue": "team", "resource": "cpu"}) == 2
    assert value("specon_queue_used", {"queue": "team", "resource": "cpu"}) == 3
    assert value("specon_queue_running_jobs", {"queue": "team"}) == 1
    assert value("specon_queue_over_quota", {"queue": "team"}) == 1
    lent = msgspec.structs.replace(state.queues["team"], borrow=True)
    metrics.count(msgspec.structs.replace(state, queues={"team": lent}), NOW + 5)
    assert value("specon_queue_over_quota", {"queue": "team"}) == 0


def test_a_queue_that_is_gone_has_no_series(metrics, registry):
    """Neither of its quota nor of those that waited in it."""
    metrics.count(changing(), NOW)
    metrics.count(nodes(), NOW + 5)
    families = {family.name: family.samples for family in registry.collect()}
    assert families["specon_queue_quota"] == families["specon_waiting_jobs"] == []


def test_queues_are_not_looked_at_with_every_tick(metrics, registry):
    """Ticks may follow one another at once; what is in flight is told by each of them all the same."""
    metrics.count(changing(), NOW)
    metrics.count(nodes(), NOW + 1)
    value = registry.get_sample_value
    assert value("specon_changes_in_flight", {"kind": "scale-out"}) == 0
    assert value("specon_queue_running_jobs", {"queue": "team"}) == 1
    metrics.count(nodes(), NOW + 3)
    assert value("specon_queue_running_jobs", {"queue": "team"}) is None


def test_series_are_bounded(metrics, registry):
    """Of thousands of queues a hundred have series of their own; the others are counted together."""
    queues = {f"q{n:04}": Queue(name=f"q{n:04}", quota=Resources(cpu=1.0)) for n in range(1000)}
    state = msgspec.structs.replace(nodes(), queues=queues)
    for number in range(200):
        state = with_gang(state, elastic(f"j{number}", queue=f"q{number:04}"), {})
    metrics.count(state, NOW)
    value = registry.get_sample_value
    assert value("specon_queue_quota", {"queue": OTHERS, "resource": "cpu"}) == 900
    waiting = sum(
        value("specon_waiting_jobs", {"queue": queue, "reason": kind}) or 0
        for queue in [f"q{number:04}" for number in range(100)] + [OTHERS]
        for kind in KINDS
    )
    assert waiting == 200
    (family,) = [family for family in registry.collect() if family.name == "specon_waiting_jobs"]
    assert len(family.samples) == 101 * len(KINDS)
