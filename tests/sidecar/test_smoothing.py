import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.classify.smoothing import block_medians, median_error, noise, running_medians

VALUES = st.lists(st.floats(-1e6, 1e6), max_size=60)


@given(VALUES, st.integers(0, 10).map(lambda half: 2 * half + 1))
def test_running_medians_are_those_of_all_windows(values, window):
    """Sliding a window gives what sorting each window anew gives."""
    expected = [median(values[i : i + window]) for i in range(len(values) - window + 1)]
    assert running_medians(values, window) == expected


@given(VALUES, st.integers(1, 20))
def test_blocks_are_few_and_keep_the_range(values, most):
    """Block medians are at most as many as asked for, and none is outside of what it stands for."""
    blocks = block_medians(values, most)
    assert len(blocks) <= most
    assert all(min(values) <= block <= max(values) for block in blocks)


def test_noise_is_measured_on_top_of_a_trend():
    """A straight line has no noise; normal noise on it is measured as what it is, within a tenth."""
    assert noise([3.0 * step for step in range(20)]) == 0.0
    chance = random.Random(1)
    assert noise([step + chance.gauss(0, 2) for step in range(2000)]) == pytest.approx(2.0, rel=0.1)


def test_too_few_values_have_no_noise():
    """One value differs from nothing."""
    assert noise([1.0]) == noise([]) == 0.0


def test_error_of_a_median_falls_with_the_root_of_its_window():
    """Four times the values, half the error."""
    assert median_error(1.0, 4) == 2 * median_error(1.0, 16)
