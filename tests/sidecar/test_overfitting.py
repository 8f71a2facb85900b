import random

import msgspec
import pytest

from specon_sidecar.classify.overfitting import Validation, extend, overfits


def known(values, name="val_loss"):
    series = Validation()
    for value in values:
        series = extend(series, name, value)
    return series


def flag(values, *, more_is_better=False):
    return overfits(known(values), more_is_better=more_is_better)


FALLING = [3.0, 2.0, 1.5, 1.2, 1.0]
RISING = [1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]


def test_a_loss_that_rises_since_long_overfits():
    """The best value is older than half of the run, and more than a tenth of the gain is lost again."""
    assert flag(FALLING + RISING)


def test_a_higher_metric_that_falls_since_long_overfits():
    """Where more is better the rule is the same, upside down."""
    values = [-value for value in FALLING + RISING]
    assert flag(values, more_is_better=True)
    assert not flag(values)


def test_a_recent_best_is_no_overfitting():
    """A rise that is younger than half of the run may still be a moment."""
    assert not flag(FALLING + RISING[:3])


def test_new_bests_take_the_flag_back():
    """Validation that gets better than ever again is no overfitting any more."""
    assert not flag(FALLING + RISING + [0.8, 0.7, 0.6])


def test_a_rise_of_less_than_a_tenth_of_the_gain_is_none():
    """A flat end that creeps up is no loss worth telling."""
    assert not flag(FALLING + [1.0 + 0.01 * number for number in range(12)])


@pytest.mark.parametrize("seed", range(20))
def test_noise_sets_no_flag(seed):
    """A noisy plateau has its best value anywhere, and nothing is lost after it."""
    noisy = random.Random(seed)
    plateau = [1.0 + noisy.gauss(0, 0.2) for _ in range(100)]
    assert not any(flag(FALLING + plateau[:end]) for end in range(len(plateau)))


def test_noise_does_not_hide_a_rise():
    """A rise of many times the noise is told."""
    noisy = random.Random(1)
    falling = [1 + 2 * 0.9**number + noisy.gauss(0, 0.05) for number in range(40)]
    assert flag(falling + [1 + 0.02 * number + noisy.gauss(0, 0.05) for number in range(60)])


@pytest.mark.parametrize("values", [[], [1.0], [3.0, 1.0, 1.5, 2.0, 2.5]])
def test_few_values_say_nothing(values):
    """Below six values there is no trend."""
    assert not flag(values)


def test_a_series_that_never_gained_does_not_overfit():
    """Where the first value is the best there is no gain to lose again."""
    assert not flag([1.0 + number for number in range(20)])


def test_the_memory_of_a_long_run_is_bounded():
    """Neighbours are merged, and the flag is the same."""
    values = [abs(number - 3000) + 10.0 for number in range(10_000)]
    series = known(values)
    assert len(series.values) <= 128
    assert len(series.pending) < series.stride
    assert overfits(series, more_is_better=False)


def test_another_name_begins_anew():
    """Two series are never mixed."""
    series = extend(known(FALLING), "test_loss", 5.0)
    assert (series.name, series.values) == ("test_loss", (5.0,))


def test_what_is_known_survives_a_move():
    """The state file holds all of it."""
    series = known([float(number) for number in range(301)])
    assert msgspec.json.decode(msgspec.json.encode(series), type=Validation) == series
