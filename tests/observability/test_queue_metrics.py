"""Jobs that wait, are preempted and scaled."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Leaving, Phase, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.runtime.queue_metrics import QueueMetrics
from support.gangs import gang, worker
from support.observed import Observed

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
    metrics.count(before, after, 2.0)
    value = registry.get_sample_value
    assert counted == (
        value("specon_scaled_workers_total", {"direction": "out"}),
        value("specon_scaled_workers_total", {"direction": "in"}),
        value("specon_preemptions_total"),
    )
