"""Queues with their quotas; jobs that wait, are preempted and scaled."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from specon_manager.core.state import State
from specon_manager.core.waiting import KINDS
from specon_manager.model.cluster import Job, Leaving, Phase, Replica
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind, TransactionState
from specon_manager.runtime.queue_metrics import OTHERS, QueueMetrics
from support.decisions.changed_jobs import NOW, SECONDS_WAITED, changing, elastic, ended, nodes
from support.decisions.gangs import gang, with_gang, worker
from support.decisions.observed import Observed

FIFO = Settings(policy="fifo", tick=1.0)


@pytest.fixture
def cluster():
    return Observed(nodes=1, settings=FIFO)


def submit(cluster, *jobs):
    for job in jobs:
        cluster.submit(job, requests=Resources(cpu=1.0))


def test_waiting_jobs_are_counted_with_the_longest_wait(cluster):
    """Those that nothing is started of; a job that runs waits no more."""
    submit(cluster, "a", "b")
    cluster.tick(0)
    cluster.carry_out()
    assert cluster.value("specon_queue_jobs") == 1
    cluster.tick(7)
    assert cluster.value("specon_queue_oldest_seconds") == 7
    assert cluster.value("specon_queue_wait_seconds_count") == 1
    cluster.die("default/a/worker/0", 0)
    cluster.tick(3)
    cluster.carry_out()
    cluster.tick(0)
    assert cluster.value("specon_queue_jobs") == 0
    assert cluster.value("specon_queue_oldest_seconds") == 0
    assert cluster.value("specon_queue_wait_seconds_count") == 2
    assert cluster.value("specon_queue_wait_seconds_sum") == 10


def test_a_crash_is_no_admission(cluster):
    """The wait of a job ends once."""
    submit(cluster, "a")
    cluster.tick(0)
    cluster.carry_out()
    cluster.die("default/a/worker/0", 1)
    for _ in range(5):
        cluster.tick()
        cluster.carry_out()
    assert cluster.value("specon_queue_wait_seconds_count") == 1


SPEC = gang("g", workers=2, ps=0, most=3, fewest=1)
RUNNING, ABSENT, STARTING = Phase.RUNNING, Phase.ABSENT, Phase.STARTING


def state(*phases, preemptions=0, told_to_end=()):
    replicas = {
        name: Replica(name=name, job=SPEC.name, phase=phase, node="node-0")
        for name, phase in zip(SPEC.replicas, phases, strict=True)
    }
    for name in told_to_end:
        told = Leaving(purpose="scale-in", since=1.0, deadline=9.0, reason="less room")
        replicas[name] = msgspec.structs.replace(replicas[name], leaving=told)
    job = Job(spec=SPEC, order=0, submitted_at=0.0, admitted_at=1.0, preemptions=preemptions)
    return State(replicas=replicas, jobs={SPEC.name: job})


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (state(RUNNING, RUNNING, ABSENT), state(RUNNING, RUNNING, STARTING), (1, 0, 0)),
        (
            state(RUNNING, RUNNING, RUNNING),
            state(RUNNING, RUNNING, RUNNING, told_to_end=[worker("g", 1), worker("g", 2)]),
            (0, 2, 0),
        ),
        (state(RUNNING, RUNNING, ABSENT), state(RUNNING, RUNNING, ABSENT, preemptions=1), (0, 0, 1)),
        (state(RUNNING, RUNNING, ABSENT), state(RUNNING, RUNNING, ABSENT), (0, 0, 0)),
    ],
    ids=["out", "in", "preempted", "nothing"],
)
def test_scaling_and_preemptions_are_counted(before, after, counted):
    """Each worker that a job grows or shrinks by, and each time that a job is sent back to the queue."""
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry)
    metrics.count(before, after)
    value = registry.get_sample_value
    assert counted == (
        value("specon_scaled_workers_total", {"direction": "out"}),
        value("specon_scaled_workers_total", {"direction": "in"}),
        value("specon_preemptions_total"),
    )


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return QueueMetrics(registry)


@pytest.mark.parametrize(
    ("over", "counted"),
    [
        (ended(1), (1, 0, 0)),
        (ended(1, Kind.SCALE_IN, after={worker("e"): "node-0"}), (0, 1, 0)),
        (ended(1, Kind.PREEMPT), (0, 0, 1)),
        (ended(1, state=TransactionState.ROLLED_BACK), (0, 0, 0)),
        (ended(1, Kind.ADMIT, before={}), (0, 0, 0)),
    ],
    ids=["out", "in", "preempted", "rolled back", "admitted"],
)
def test_what_transactions_did_is_counted_as_they_end(metrics, registry, over, counted):
    """With whatever event that is: not only what a Tick changes."""
    metrics.count_ended([over])
    value = registry.get_sample_value
    assert counted == (
        value("specon_scaled_workers_total", {"direction": "out"}),
        value("specon_scaled_workers_total", {"direction": "in"}),
        value("specon_preemptions_total"),
    )


def test_who_waits_and_for_what(metrics, registry):
    """As of the scrape, the sum under its former name too; a standby tells nothing."""
    metrics.show(changing(), NOW)
    value = registry.get_sample_value
    assert value("specon_waiting_jobs", {"queue": "team", "reason": "quota"}) == 1
    assert value("specon_waiting_jobs", {"queue": "team", "reason": "room"}) == 0
    assert value("specon_queue_jobs") == 1
    assert value("specon_queue_oldest_seconds") == SECONDS_WAITED
    assert value("specon_starvation_excess_seconds") == SECONDS_WAITED - 100
    metrics.show(State(), NOW)
    assert value("specon_waiting_jobs", {"queue": "team", "reason": "quota"}) is None
    assert value("specon_queue_jobs") == value("specon_starvation_excess_seconds") == 0


def test_quota_and_use_of_queues(metrics, registry):
    """A queue over its quota that may not borrow is told to be that; one that may is not."""
    state = changing()
    metrics.show(state, NOW)
    value = registry.get_sample_value
    assert value("specon_queue_quota", {"queue": "team", "resource": "cpu"}) == 2
    assert value("specon_queue_used", {"queue": "team", "resource": "cpu"}) == 4
    assert value("specon_queue_running_jobs", {"queue": "team"}) == 1
    assert value("specon_queue_over_quota", {"queue": "team"}) == 1
    lent = msgspec.structs.replace(state.queues["team"], borrow=True)
    lends = msgspec.structs.replace(state, queues={"team": lent})
    metrics.show(lends, NOW + 5)
    assert value("specon_queue_over_quota", {"queue": "team"}) == 0


def test_a_queue_that_is_gone_has_no_series(metrics, registry):
    """Neither of its quota nor of those that waited in it."""
    metrics.show(changing(), NOW)
    metrics.show(nodes(), NOW + 5)
    families = {family.name: family.samples for family in registry.collect()}
    assert families["specon_queue_quota"] == families["specon_waiting_jobs"] == []


def test_series_are_bounded(metrics, registry):
    """Only a hundred queues have series of their own; the others are counted together."""
    queues = {f"q{n:04}": Queue(name=f"q{n:04}", quota=Resources(cpu=1.0)) for n in range(1000)}
    state = msgspec.structs.replace(nodes(), queues=queues)
    for number in range(200):
        state = with_gang(state, elastic(f"j{number}", queue=f"q{number:04}"), {})
    metrics.show(state, NOW)
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
