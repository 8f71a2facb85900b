"""The values that a simulated training prints."""

import math
from statistics import fmean, stdev

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specon_lab.engine.loss import CONVERGED, Losses, converged_part, value
from specon_lab.workloads.workload import LossCurve

curves = st.builds(
    LossCurve,
    first=st.floats(-1e3, 1e3),
    floor=st.floats(-1e3, 1e3),
    rate=st.floats(-20, 50),
    noise=st.just(0.0),
)


@given(curves)
def test_it_begins_at_the_first_value_and_ends_at_the_floor(curve):
    """At progress 0 and 1 the value is given."""
    assert value(curve, 0.0) == pytest.approx(curve.first, abs=1e-6)
    assert value(curve, 1.0) == pytest.approx(curve.floor, abs=1e-6)


@given(curves, st.floats(0, 1), st.floats(0, 1))
def test_it_only_ever_moves_towards_the_floor(curve, one, other):
    """Monotone between first value and floor."""
    early, late = sorted((one, other))
    assert abs(value(curve, late) - curve.floor) <= abs(value(curve, early) - curve.floor) + 1e-9


@example(5e-324)
@given(st.floats(-20, 50))
def test_a_training_converges_where_98_percent_of_its_gain_are_made(rate):
    """Before that part less of the gain is made, at it just so much."""
    part = converged_part(LossCurve(rate=rate))
    assert 0 < part < 1
    assert 1 - value(LossCurve(rate=rate), part) == pytest.approx(CONVERGED)


def test_figure_1_of_specon():
    """After a fifth of the time a VAE has made 65 % of its gain, a Bi-RNN 98 %, a GRU 90 %."""
    gained = [1 - value(LossCurve(rate=rate), 0.2) for rate in (5.2, 19.6, 11.5)]
    assert gained == pytest.approx([0.65, 0.98, 0.90], abs=0.01)


def test_a_rate_of_0_is_a_straight_line():
    """The limit of slow decay."""
    assert value(LossCurve(first=4.0, floor=2.0, rate=0.0), 0.25) == 3.5


def test_the_same_seed_prints_the_same_whoever_asks_in_what_order():
    """The noise of a step depends on the seed and the step alone."""
    curve = LossCurve(noise=0.1)
    forwards, backwards = Losses(curve, 500, "1/ns/job"), Losses(curve, 500, "1/ns/job")
    assert [forwards.at(step) for step in range(501)] == [backwards.at(step) for step in range(500, -1, -1)][
        ::-1
    ]


def test_another_seed_prints_other_noise():
    """Jobs and repetitions differ."""
    curve = LossCurve(noise=0.1)
    assert Losses(curve, 500, "1/ns/job").at(7) != Losses(curve, 500, "2/ns/job").at(7)


def test_the_noise_is_relative_to_the_whole_gain():
    """A noise of 0.05 on a curve from 12 to 2 has a standard deviation of 0.5 and no bias."""
    curve = LossCurve(first=12.0, floor=2.0, noise=0.05)
    losses = Losses(curve, 4000, "seed")
    errors = [losses.at(step) - value(curve, step / 4000) for step in range(4001)]
    assert stdev(errors) == pytest.approx(0.5, rel=0.05)
    assert abs(fmean(errors)) < 0.05


def test_memory_is_bounded_in_long_trainings():
    """A training of a hundred million steps keeps a few thousand numbers, and still has noise that varies."""
    losses = Losses(LossCurve(noise=0.1), 10**8, "seed")
    printed = {losses.at(step) - value(LossCurve(), step / 10**8) for step in range(0, 10**8, 10**6)}
    assert len(printed) > 90
    assert len(losses._noise) <= 4093


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("first", math.inf), ("floor", math.nan), ("rate", math.inf), ("rate", -1e6), ("noise", -0.1)],
)
def test_a_wrong_field_is_named(field, wrong):
    """Bad input is an error with the field and its value."""
    with pytest.raises(ValueError, match=f"curve {field}"):
        Losses(msgspec.structs.replace(LossCurve(), **{field: wrong}), 100, "seed")
