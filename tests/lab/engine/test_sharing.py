"""Sharing of a node's cores: weighted max-min fairness and contention."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.engine.sharing import efficiency, grants, speeds

demands = st.floats(0.01, 100)
weights = st.floats(0.001, 1000)
replicas = st.lists(st.tuples(demands, weights), min_size=1, max_size=12)
cores = st.floats(0.1, 200)
contentions = st.floats(0, 10)


@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("contention", [0.0, 0.1, 1.0])
def test_equal_replicas_share_equally_and_all_pay_for_contention(count, contention):
    """N replicas that could each use the whole node get 1 / n / (1 + beta (n - 1))."""
    expected = 1 / count / (1 + contention * (count - 1))
    found = speeds([8.0] * count, [1.0] * count, 8.0, contention)
    assert found == pytest.approx([expected] * count, rel=1e-12)


def test_what_one_cannot_use_the_others_get():
    """Water filling by hand: of 10 cores the one that wants 2 gets 2, the others share 8 by weight."""
    assert grants([2.0, 10.0, 10.0], [1.0, 1.0, 3.0], 10.0) == pytest.approx([2.0, 2.0, 6.0])


def test_a_replica_that_hardly_runs_hardly_disturbs():
    """With a small weight the effective number of replicas is near 1, and so is the factor."""
    heavy, light = speeds([8.0, 8.0], [1.0, 0.001], 8.0, 1.0)
    assert heavy > 0.99
    assert 0 < light < 0.001


def test_who_reserved_what_it_needs_is_neither_slowed_nor_slows():
    """A demand of 0 has full speed, and the others the speed that they have without it."""
    assert speeds([0.0, 8.0, 8.0], [1.0, 1.0, 1.0], 8.0, 0.5) == [
        1.0,
        *speeds([8.0] * 2, [1.0] * 2, 8.0, 0.5),
    ]


def test_nobody_there_is_no_error():
    """An empty node has no speeds."""
    assert speeds([], [], 8.0, 0.1) == []


@given(replicas, cores)
def test_all_cores_are_handed_out_or_all_demands_are_met(wants, capacity):
    """Work-conserving: the sum is the smaller one of demand and cores, and nobody gets more than it wants."""
    wanted, weight = zip(*wants, strict=True)
    handed = grants(wanted, weight, capacity)
    assert math.fsum(handed) == pytest.approx(min(math.fsum(wanted), capacity), rel=1e-9)
    assert all(0 < grant <= demand for grant, demand in zip(handed, wanted, strict=True))


@given(replicas, cores)
def test_who_gets_less_than_it_wants_has_no_less_per_weight_than_anybody(wants, capacity):
    """The max-min rule itself: more for one of them would be less for one that has no more."""
    wanted, weight = zip(*wants, strict=True)
    handed = grants(wanted, weight, capacity)
    levels = [grant / each for grant, each in zip(handed, weight, strict=True)]
    for level, grant, demand in zip(levels, handed, wanted, strict=True):
        if grant < demand * (1 - 1e-9):
            assert level >= max(levels) * (1 - 1e-9)


@given(replicas, cores, st.floats(1, 100), st.data())
def test_more_weight_never_means_fewer_cores(wants, capacity, times, data):
    """Monotone: a larger weight gives its owner no less, and nobody else more."""
    wanted, weight = (list(part) for part in zip(*wants, strict=True))
    one = data.draw(st.integers(0, len(wanted) - 1))
    before = grants(wanted, weight, capacity)
    weight[one] *= times
    after = grants(wanted, weight, capacity)
    assert after[one] >= before[one] * (1 - 1e-9)
    for i, (was, now) in enumerate(zip(before, after, strict=True)):
        if i != one:
            assert now <= was * (1 + 1e-9)


@given(replicas, cores, contentions)
def test_speeds_are_shares_of_full_speed(wants, capacity, contention):
    """Each speed is above 0 and at most 1, and together they use no more than the node has."""
    wanted, weight = zip(*wants, strict=True)
    found = speeds(wanted, weight, capacity, contention)
    assert all(0 < speed <= 1 for speed in found)
    used = math.fsum(speed * demand for speed, demand in zip(found, wanted, strict=True))
    assert used <= capacity * (1 + 1e-9)
    assert used == pytest.approx(
        min(math.fsum(wanted), capacity) * efficiency(grants(wanted, weight, capacity), contention)
    )


@given(replicas, cores, contentions, st.randoms())
def test_the_order_of_the_replicas_does_not_matter(wants, capacity, contention, random):
    """What one gets depends on what is on its node, not on its place in the list."""
    order = list(range(len(wants)))
    random.shuffle(order)
    mixed = [wants[i] for i in order]
    straight = speeds(*zip(*wants, strict=True), capacity, contention)
    found = speeds(*zip(*mixed, strict=True), capacity, contention)
    assert found == pytest.approx([straight[i] for i in order], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([1.0], [], 8.0, 0.0), "1 demands and 0 weights"),
        (([1.0], [1.0], 0.0, 0.0), "cores 0.0"),
        (([1.0], [1.0], math.nan, 0.0), "cores nan"),
        (([-1.0], [1.0], 8.0, 0.0), "demand -1.0"),
        (([1.0], [0.0], 8.0, 0.0), "weight 0.0"),
        (([1.0], [1.0], 8.0, -0.1), "contention -0.1"),
    ],
)
def test_an_argument_out_of_bounds_is_named(arguments, named):
    """Bad input is an error with the argument and its value."""
    with pytest.raises(ValueError, match=named):
        speeds(*arguments)
