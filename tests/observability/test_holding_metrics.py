"""Core-seconds and GPU-seconds: what is held while it has converged, and what moves give back."""

import pytest
from prometheus_client import CollectorRegistry

from specon_manager.model.resources import Resources
from specon_manager.runtime.holding_metrics import HoldingMetrics
from specon_sidecar.classify import Category
from support.watching.watched import WatchedCluster


@pytest.fixture
def cluster():
    cluster = WatchedCluster()
    cluster.registry = CollectorRegistry()
    cluster.metrics = HoldingMetrics(cluster.registry)
    cluster.observers.append(cluster.metrics.observe)
    return cluster


def held(cluster, part, kind="core"):
    return cluster.registry.get_sample_value(f"specon_held_{kind}_seconds_total", {"part": part})


def test_each_part_is_counted_from_nought(cluster):
    """A series that appears with its first second would show no increase for it."""
    assert [held(cluster, part) for part in ("all", "converged", "freed")] == [0, 0, 0]
    a = cluster.submit("a", requests=Resources(cpu=2))
    cluster.tick()
    cluster.carry_out()
    for step in range(31):
        cluster.tell(a, 1.0, step=step, category=Category.CONVERGED if step > 10 else Category.PROGRESSING)
    assert held(cluster, "converged") == pytest.approx(2 * 19)
    assert held(cluster, "converged", "gpu") == 0
    assert held(cluster, "all") >= 2 * 30
    assert held(cluster, "freed") == 0


def test_another_manager_counts_what_comes_after_this_one(cluster):
    """The time between two terms is nobody's."""
    a = cluster.submit("a", requests=Resources(cpu=1))
    cluster.tick()
    cluster.carry_out()
    cluster.tell(a, 1.0, step=1)
    before = held(cluster, "all")
    cluster.metrics.forget()
    cluster.tell(a, 1.0, step=2, after=1000.0)
    assert held(cluster, "all") == before
