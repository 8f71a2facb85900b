"""Reports, the lines of logs that they tell of, and replicas that send none."""

import pytest

from specon_manager.runtime.report_metrics import SILENT_SECONDS
from support.decisions.observed import Observed


@pytest.fixture
def cluster():
    return Observed()


def lines(cluster):
    names = ("lines", "samples", "unparsed_lines")
    return [cluster.value(f"specon_log_{name}_total") for name in names]


def test_lines_are_counted_once(cluster):
    """Reports tell how many there were so far; what counts is by how many they grew."""
    a, b = cluster.run("a", "b")
    cluster.report(a, lines=10, samples=4, unparsed=6)
    cluster.report(a, lines=15, samples=5, unparsed=10)
    cluster.report(b, lines=1, samples=1)
    assert lines(cluster) == [16, 6, 10]


def test_a_log_that_is_read_anew_is_counted_from_its_begin(cluster):
    """As Prometheus takes a counter that falls."""
    (a,) = cluster.run("a")
    cluster.report(a, lines=10, samples=4, unparsed=6)
    cluster.report(a, lines=3, samples=3, unparsed=0)
    assert lines(cluster) == [13, 7, 6]


def test_what_another_manager_counted_is_not_counted_again(cluster):
    """A new leader begins with what the first report of each replica says."""
    (a,) = cluster.run("a")
    cluster.report(a, lines=10, samples=4, unparsed=6)
    cluster.metrics.forget()
    cluster.report(a, lines=12, samples=5, unparsed=7)
    assert lines(cluster) == [10, 4, 6]
    cluster.report(a, lines=13, samples=6, unparsed=7)
    assert lines(cluster) == [11, 5, 6]


def test_a_doubled_report_is_ignored(cluster):
    """And counted as such."""
    (a,) = cluster.run("a")
    cluster.report(a, lines=10)
    _, event, _ = cluster.history[-1]
    cluster.post(event)
    assert cluster.value("specon_reports_total") == 1
    assert cluster.value("specon_reports_ignored_total") == 1
    assert lines(cluster)[0] == 10


def test_a_replica_that_reports_is_not_silent(cluster):
    """However long it runs."""
    (a,) = cluster.run("a")
    for _ in range(int(SILENT_SECONDS // 30) + 2):
        cluster.report(a)
        cluster.tick(30)
    assert cluster.value("specon_silent_replicas") == 0


@pytest.mark.parametrize("reported", [True, False])
def test_a_replica_that_does_not_report_is_silent_after_five_minutes(cluster, reported):
    """Whether it ever reported or not; its end is no silence."""
    (a,) = cluster.run("a")
    if reported:
        cluster.report(a)
    waited = 0
    while not cluster.value("specon_silent_replicas"):
        cluster.tick(10)
        waited += 10
        assert waited < 2 * SILENT_SECONDS
    assert SILENT_SECONDS - 60 <= waited <= SILENT_SECONDS + 20
    cluster.die(a, 0)
    cluster.tick()
    assert cluster.value("specon_silent_replicas") == 0
