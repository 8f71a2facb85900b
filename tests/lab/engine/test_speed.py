"""Speed of a gang by its size and by where its workers are."""

import itertools
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.engine.speed import gang_speed, speedup
from specon_lab.workloads.workload import Network, Training

RESNET = (1.0, 1.54, 2.41, 3.01)
NETWORK = Network(step_bytes=2 * 102e6, step_seconds=0.5)
TRAINING = Training(seconds=100.0, speedup=RESNET, network=NETWORK)
BANDWIDTH = 117e6

gangs = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 4), min_size=1)


@given(gangs, st.lists(st.sampled_from("abcdef"), max_size=2))
def test_as_many_workers_as_its_owner_asked_for_without_a_network_is_1(workers, ps_nodes):
    """Without a network model the speed is that of the number of workers, wherever they are."""
    count = sum(workers.values())
    training = Training(seconds=100.0, speedup=RESNET)
    assert gang_speed(training, workers, ps_nodes, count, BANDWIDTH) == 1.0


def test_no_speedup_means_linear():
    """Twice as many workers are twice as fast where nothing else is known."""
    assert gang_speed(Training(seconds=1.0), {"a": 4}, (), 2, BANDWIDTH) == 2.0


@given(st.floats(0.1, 20.0))
def test_on_a_slower_accelerator_a_step_takes_longer_and_the_network_as_long(pace):
    """Alone on a node it is so many times as slow; over the network what is waited for is the same."""
    assert gang_speed(TRAINING, {"a": 4}, ("a",), 4, BANDWIDTH, pace=pace) == pytest.approx(1 / pace)
    fixed = msgspec.structs.replace(TRAINING, network=msgspec.structs.replace(NETWORK, fixed_quota=True))
    local, network = 0.5 * 4 / 3.01, 2 * 204e6 / 117e6
    expected = local / (local * pace + network)
    assert gang_speed(fixed, {"a": 2, "b": 2}, ("a",), 4, BANDWIDTH, pace=pace) == pytest.approx(expected)


def test_beyond_the_last_known_number_of_workers_the_speed_stays():
    """The fifth and sixth worker bring nothing."""
    training = Training(seconds=1.0, speedup=RESNET)
    assert gang_speed(training, {"a": 6}, (), 1, BANDWIDTH) == 3.01


def test_without_a_worker_it_stands():
    """No workers, no speed."""
    assert gang_speed(TRAINING, {}, ("a",), 4, BANDWIDTH) == 0.0


def test_remote_workers_of_a_shared_pool_by_hand():
    """Steps in one pool: the local half keeps its speed, the remote half has that of its longer steps.

    Four workers, two remote: a step takes 0.5 * 4 / 3.01 = 0.665 s, and 2 * 204 MB / 117 MB/s = 3.487 s more.
    """
    local = 0.5 * 4 / 3.01
    expected = (2 + 2 * local / (local + 2 * 204e6 / 117e6)) / 4
    assert gang_speed(TRAINING, {"a": 2, "b": 2}, ("a",), 4, BANDWIDTH) == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(0.5800, abs=1e-4)


def test_with_a_fixed_quota_the_slowest_worker_decides():
    """One remote worker of four slows all of them to its own speed."""
    training = msgspec.structs.replace(TRAINING, network=msgspec.structs.replace(NETWORK, fixed_quota=True))
    local = 0.5 * 4 / 3.01
    expected = local / (local + 204e6 / 117e6)
    assert gang_speed(training, {"a": 3, "b": 1}, ("a",), 4, BANDWIDTH) == pytest.approx(expected, rel=1e-12)


def test_without_a_parameter_server_the_node_with_the_most_workers_is_the_local_one():
    """Three workers on one node and one elsewhere are one remote worker, however the nodes are called."""
    with_ps = gang_speed(TRAINING, {"a": 1, "b": 3}, ("b",), 4, BANDWIDTH)
    assert gang_speed(TRAINING, {"a": 1, "b": 3}, (), 4, BANDWIDTH) == with_ps
    assert gang_speed(TRAINING, {"b": 1, "a": 3}, (), 4, BANDWIDTH) == with_ps


def test_two_parameter_servers_on_one_node_count_it_once():
    """Naming a node twice makes no more workers local than there are."""
    assert gang_speed(TRAINING, {"a": 2, "b": 2}, ("a", "a"), 4, BANDWIDTH) == gang_speed(
        TRAINING, {"a": 2, "b": 2}, ("a",), 4, BANDWIDTH
    )


@given(st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_each_worker_that_is_further_away_costs(near, far, fixed_quota):
    """A gang with more remote workers is slower than one of the same size; with none it has full speed."""
    total = near + far
    network = msgspec.structs.replace(NETWORK, fixed_quota=fixed_quota)
    training = Training(seconds=1.0, network=network)
    found = [
        gang_speed(training, {"a": total - remote, "b": remote}, ("a",), max(1, total), BANDWIDTH)
        for remote in range(total + 1)
    ]
    if total:
        assert found[0] == 1.0
    assert all(later < before for before, later in itertools.pairwise(found))
    assert all(speed >= 0 for speed in found)


@given(st.integers(1, 8), st.integers(1, 8), st.floats(1e6, 1e12), st.floats(1.01, 10))
def test_a_faster_network_is_never_slower(near, far, bandwidth, times):
    """Monotone in the bandwidth, up to the speed without a network."""
    training = Training(seconds=1.0, network=NETWORK)
    workers = {"a": near, "b": far}
    slow = gang_speed(training, workers, ("a",), near + far, bandwidth)
    assert slow <= gang_speed(training, workers, ("a",), near + far, bandwidth * times) <= 1.0


@pytest.mark.parametrize(
    ("training", "wanted", "bandwidth", "named"),
    [
        (TRAINING, 0, BANDWIDTH, "wanted 0"),
        (TRAINING, 2, 0.0, "bandwidth 0.0"),
        (Training(seconds=1.0, speedup=(1.0, 0.0)), 2, BANDWIDTH, "speedup 0.0 with 2 workers"),
        (Training(seconds=1.0, speedup=(math.nan,)), 2, BANDWIDTH, "speedup nan"),
    ],
)
def test_an_argument_out_of_bounds_is_named(training, wanted, bandwidth, named):
    """Bad input is an error with the argument and its value."""
    with pytest.raises(ValueError, match=named):
        gang_speed(training, {"a": 1, "b": 1}, ("a",), wanted, bandwidth)


def test_speedups_are_those_that_were_measured():
    """Entry n - 1 is the speed with n workers."""
    assert [speedup(TRAINING, n) for n in (1, 2, 3, 4, 9)] == [*RESNET, 3.01]
