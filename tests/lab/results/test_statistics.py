"""Means, percentiles and intervals of confidence."""

import builtins
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.results.statistics import change, interval, mean, percentile, student_quantile

finite = st.floats(min_value=-1e9, max_value=1e9)
some = st.lists(finite, min_size=1, max_size=50)


def test_nothing_has_no_mean_no_percentile_and_no_interval():
    """An unknown figure is None, never 0."""
    assert mean([]) is None
    assert percentile([], 50) is None
    assert interval([]) is None
    assert change([], []) is None


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0, 1.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 100, 5.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 95, 4.8),
        ([0.0, 10.0, 20.0], 75, 15.0),
    ],
)
def test_percentiles_interpolate_between_neighbours(values, percent, expected):
    """Type 7 of Hyndman and Fan, worked out by hand."""
    assert percentile(values, percent) == pytest.approx(expected)


@given(some, st.floats(min_value=0, max_value=100))
def test_a_percentile_is_that_of_numpy(values, percent):
    """An independent implementation agrees."""
    numpy = pytest.importorskip("numpy")
    expected = float(numpy.percentile(values, percent))
    assert percentile(sorted(values), percent) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(some)
def test_percentiles_rise_and_stay_between_the_extremes(values):
    """A higher percentile is never smaller, and none lies outside of the values."""
    ordered = sorted(values)
    found = [percentile(ordered, percent) for percent in (0, 25, 50, 95, 99, 100)]
    assert found[0] == ordered[0]
    assert found[-1] == ordered[-1]
    # One rounding apart at most where neighbours are almost the same.
    assert all(one <= other + 1e-9 * abs(other) for one, other in itertools.pairwise(found))


@pytest.mark.parametrize("percent", [-1, 101, math.nan])
def test_a_percentile_outside_of_the_range_is_an_error(percent):
    """It names the value."""
    with pytest.raises(ValueError, match="percent: "):
        percentile([1.0], percent)


def test_one_run_shows_no_spread():
    """Its mean is known, its interval is not."""
    found = interval([3.0])
    assert (found.mean, found.low, found.high, found.runs) == (3.0, None, None, 1)
    assert found.half_width is None


def test_an_interval_is_that_of_a_textbook():
    """Mean 5, s = sqrt(5/2) over 5 values, t(4, 0.975) = 2.776."""
    pytest.importorskip("scipy")
    found = interval([3.0, 4.0, 5.0, 6.0, 7.0])
    half = 2.7764451 * math.sqrt(2.5 / 5)
    assert (found.low, found.high) == pytest.approx((5 - half, 5 + half), rel=1e-6)
    assert found.half_width == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.7062), (7, 2.36462), (30, 2.04227)])
def test_the_quantiles_are_those_of_the_tables(freedom, expected):
    """Student's t, two sides, 95 %."""
    pytest.importorskip("scipy")
    assert student_quantile(freedom, 0.975) == pytest.approx(expected, rel=1e-5)


def test_equal_runs_have_an_interval_of_no_width():
    """A workload without chance in it says the same each time."""
    found = interval([2.0, 2.0, 2.0])
    assert (found.low, found.high, found.runs) == (2.0, 2.0, 3)


def test_more_confidence_makes_a_wider_interval():
    """99 % of the intervals are to hold the mean, not 95 %."""
    pytest.importorskip("scipy")
    values = [1.0, 2.0, 4.0]
    assert interval(values, 0.99).half_width > interval(values, 0.95).half_width


def test_a_confidence_of_one_is_an_error():
    """No finite interval holds every mean."""
    with pytest.raises(ValueError, match="confidence: 1"):
        interval([1.0, 2.0], 1)


def test_pairs_show_what_the_spread_between_seeds_hides():
    """Runs that differ by 1 each are told apart though they spread over 200."""
    pytest.importorskip("scipy")
    found = change([101.0, 201.0, 301.0], [100.0, 200.0, 300.0])
    assert found.difference.mean == 1.0
    assert (found.difference.low, found.difference.high) == (1.0, 1.0)
    assert found.percent.mean == pytest.approx((1 + 0.5 + 1 / 3) / 3)


def test_a_baseline_of_nothing_has_no_percent():
    """A division by 0 is unknown, the difference is known."""
    pytest.importorskip("scipy")
    found = change([1.0, 2.0], [0.0, 4.0])
    assert found.percent is None
    assert found.difference.mean == -0.5


def test_pairs_need_a_partner_each():
    """A missing run is an error, not a shift of all the pairs behind it."""
    with pytest.raises(ValueError, match="baseline: 1 values for 2 runs"):
        change([1.0, 2.0], [1.0])


def test_without_scipy_it_says_what_to_install(monkeypatch):
    """One sentence with the command."""
    original = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name=name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModuleNotFoundError, match=r"need scipy: pip install 'specon\[simulate\]'"):
        interval([1.0, 2.0])
    assert interval([1.0]).mean == 1.0
