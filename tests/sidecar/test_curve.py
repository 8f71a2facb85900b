import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.classify.curve import Curve
from specon_sidecar.formats.sample import Sample


def sample(value, step=None, total=None):
    return Sample("loss", value, step=step, total_steps=total)


def test_interval_value_is_the_mean_of_its_samples():
    """An interval is judged by the mean of its finite samples."""
    curve = Curve()
    curve.extend([sample(1.0), sample(3.0), sample(math.nan)], 1.0)
    interval = curve.close_interval(5.0)
    assert (interval.value, interval.samples, interval.nonfinite_run, interval.silence) == (2.0, 3, 1, 4.0)


def test_literal_interval_value_is_the_last_sample():
    """As the paper reads its file: the last value counts."""
    curve = Curve(last_value=True)
    curve.extend([sample(1.0), sample(3.0)], 1.0)
    assert curve.close_interval(5.0).value == 3.0


def test_interval_without_samples_has_no_value():
    """Closing an interval begins an empty one."""
    curve = Curve()
    curve.add(sample(1.0), 1.0)
    curve.close_interval(2.0)
    assert curve.close_interval(3.0).value is None


def test_nothing_seen_is_no_silence():
    """Silence is counted from the first sample on."""
    assert Curve().close_interval(100.0).silence == 0.0


def test_longest_gap_is_remembered():
    """The longest time between two samples is what silence is compared with."""
    curve = Curve()
    for at in (0.0, 5.0, 6.0):
        curve.add(sample(1.0), at)
    assert curve.close_interval(7.0).longest_gap == 5.0


@given(st.integers(0, 5000))
def test_memory_is_bounded_and_the_mean_is_kept(count):
    """Whatever the length of the run, at most 512 points are kept, and merging loses no weight."""
    curve = Curve()
    for step in range(count):
        curve.add(sample(float(step % 7), step), float(step))
    assert len(curve.points) <= 512
    assert curve.count == count
    assert all(0.0 <= point.value <= 6.0 for point in curve.points)
    assert [point.step for point in curve.points] == sorted(point.step for point in curve.points)


def test_remaining_time_is_steps_left_by_the_rate():
    """At a steady ten steps per second, 100 steps left take ten seconds, give or take 4 %."""
    curve = Curve()
    for second in range(4):
        curve.add(sample(1.0, second * 10, 130), float(second))
        curve.close_interval(float(second))
    remaining = curve.remaining_seconds()
    assert remaining is not None
    assert (remaining.value, remaining.uncertainty) == (10.0, pytest.approx(0.4))
    gain = curve.expected_gain(0.1, 5.0)
    assert gain is not None
    assert gain.value + gain.uncertainty == pytest.approx(0.2)


def test_pace_in_epochs_is_none_in_steps():
    """Where steps with a total come after epochs, the time that is left is reckoned from the steps alone."""
    curve = Curve()
    for second in range(4):
        curve.add(Sample("loss", 1.0, epoch=second, total_epochs=40), float(second))
        curve.close_interval(float(second))
    for second in range(4, 8):
        curve.add(Sample("loss", 1.0, step=second * 10, epoch=4, total_steps=170), float(second))
        assert second > 4 or curve.remaining_seconds() is None
        curve.close_interval(float(second))
    remaining = curve.remaining_seconds()
    assert remaining is not None
    assert remaining.value == 10.0


def test_steps_that_go_back_give_no_rate():
    """A resumed run repeats steps: no negative or infinite speed comes of it."""
    curve = Curve()
    for at, step in ((0.0, 100), (1.0, 40)):
        curve.add(sample(1.0, step, 200), at)
        curve.close_interval(at)
    assert curve.remaining_seconds() is None


def test_state_goes_on_where_it_was():
    """A successor has the same points, count and step."""
    curve = Curve()
    for step in range(1500):
        curve.add(sample(1.0, step, 3000), float(step))
    successor = Curve(curve.state)
    assert successor.state == curve.state


def test_epochs_tell_what_is_done_where_no_total_of_steps_is_known():
    """`Epoch 3/40` is a total too; a total of steps goes before it."""
    curve = Curve()
    curve.add(Sample("loss", 1.0, step=7, epoch=10, total_epochs=40), 0.0)
    assert curve.done == 0.25
    curve.add(Sample("loss", 1.0, step=8, epoch=10, total_epochs=40, total_steps=16), 1.0)
    assert curve.done == 0.5
    assert Curve(curve.state).done == 0.5


def test_without_a_total_nothing_is_known_to_be_done():
    """A step alone is no share."""
    curve = Curve()
    curve.add(sample(1.0, 7), 0.0)
    assert curve.done is None


def test_steps_that_count_within_an_epoch_keep_the_curve():
    """Steps that begin anew without a total are the next epoch, not a restart."""
    curve = Curve()
    for step in (1, 2, 3, 1, 2, 3):
        curve.add(sample(1.0, step), 0.0)
    assert len(curve.values) == 6


def test_another_run_in_the_same_log_begins_a_new_curve():
    """Back to the first step, and the value back to the first one: nothing of the run before counts."""
    curve = Curve()
    run = [Sample("loss", 3 - step / 50, step) for step in range(1, 101)]
    curve.extend(run, 1.0)
    curve.extend(run[:40], 2.0)
    assert curve.runs == 2
    assert len(curve.values) == 40


def test_steps_of_an_epoch_begin_no_new_curve():
    """A step that goes back while the epoch or the value goes on is the same run."""
    curve = Curve()
    for epoch in range(3):
        curve.extend([Sample("loss", 9 - epoch - step / 50, step, float(epoch)) for step in range(50)], 1.0)
    assert curve.runs == 1


def test_total_that_was_passed_was_none():
    """`step 10/600` counted within an epoch, as later steps show."""
    curve = Curve()
    curve.add(Sample("loss", 3.0, 600, 0.0, 600), 1.0)
    assert curve.done == 1
    curve.add(Sample("loss", 2.0, 601, 1.0), 2.0)
    assert curve.done is None
