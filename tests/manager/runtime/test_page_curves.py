"""What the status page remembers of curves: bounded, evenly spread, and always with the newest point."""

import itertools
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.runtime.page.curves import Curves
from specon_sidecar.classify import Category
from support.watching.watched import WatchedCluster


def watched(*jobs, **options):
    cluster, curves = WatchedCluster(), Curves(**options)
    cluster.observers.append(curves.observe)
    return cluster, curves, cluster.run(*jobs)


def test_a_curve_has_what_was_reported():
    """Time, value and category of each report, oldest first."""
    cluster, curves, (a,) = watched("a")
    cluster.tell(a, 2.0, step=1)
    cluster.tell(a, 1.0, step=2, category=Category.WATCHING)
    first, second = curves.of(a)
    assert (first.value, first.category) == (2.0, Category.PROGRESSING)
    assert (second.value, second.category) == (1.0, Category.WATCHING)
    assert second.at - first.at == 1.0


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.integers(2, 30), st.integers(2, 30))
def test_a_curve_is_bounded_and_keeps_its_ends(reports, kept, most):
    """However many reports come, the first and the newest stay, in order, within both bounds."""
    cluster, curves, (a,) = watched("a", points=kept)
    for step in range(reports):
        cluster.tell(a, float(step), step=step)
    values = [point.value for point in curves.of(a, most)]
    assert len(values) <= min(kept, most)
    assert values == sorted(set(values))
    assert values[-1] == reports - 1
    assert values[0] == 0 or len(values) == 1


def test_points_are_spread_over_the_whole_time():
    """No gap between neighbours is much larger than the mean one."""
    cluster, curves, (a,) = watched("a", points=50)
    for step in range(1000):
        cluster.tell(a, float(step), step=step)
    times = [point.at for point in curves.of(a)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) <= 3 * (times[-1] - times[0]) / len(gaps)


def test_heartbeats_without_news_add_nothing():
    """The same step with the same value and category is one point."""
    cluster, curves, (a,) = watched("a")
    for _ in range(5):
        cluster.tell(a, 2.0, step=1)
    assert len(curves.of(a)) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_what_is_no_number_is_no_point(value):
    """A state read from elsewhere may have NaN: no line goes there."""
    cluster, curves, (a,) = watched("a")
    steps = []
    cluster.observers.append(steps.append)
    cluster.tell(a, 1.0, step=1)
    replica = cluster.state.replicas[a]
    odd = msgspec.structs.replace(replica, progress=msgspec.structs.replace(replica.progress, value=value))
    curves.observe(msgspec.structs.replace(steps[-1], after=cluster.state.with_replica(odd)))
    assert [point.value for point in curves.of(a)] == [1.0]


def test_a_newcomer_takes_the_place_of_who_is_silent():
    """With all places taken, one that was silent for long gives way, and one that reports does not."""
    cluster, curves, (a, b, c) = watched("a", "b", "c", replicas=2, silent_seconds=100)
    for replica in (a, b, c):
        cluster.tell(replica, 1.0, step=1)
    assert [len(curves.of(each)) for each in (a, b, c)] == [1, 1, 0]
    cluster.tell(b, 0.9, step=2)
    cluster.tell(c, 0.9, step=2, after=200)
    assert [len(curves.of(each)) for each in (a, b, c)] == [0, 2, 1]
    assert len(curves) == 2
