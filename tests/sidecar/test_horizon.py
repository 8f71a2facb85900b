import itertools
import math
import random
import re
import time

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specon_sidecar.classify import Category, ClassifierSettings, Interval, Judgement
from specon_sidecar.classify.curve import Curve
from specon_sidecar.classify.horizon import judge_by_horizon, outlook, unreachable
from specon_sidecar.classify.judgement import begin
from specon_sidecar.formats.sample import Sample

SETTINGS = ClassifierSettings(classifier="horizon", interval=1)
C = Category


def judgements(values, *, total=None, per_interval=10, settings=SETTINGS, start=None):
    """Judge after every so many samples of one second each."""
    curve, judgement = Curve(), start or begin(0.0, settings)
    found = []
    for step, value in enumerate(values, 1):
        curve.add(Sample("loss", value, step=step, total_steps=total), float(step))
        if step % per_interval == 0:
            interval = curve.close_interval(float(step))
            judgement = judge_by_horizon(
                judgement, interval, curve.values, curve.done, now=float(step), settings=settings
            )
            found.append(judgement)
    return found


def categories(values, **options):
    return [judgement.category for judgement in judgements(values, **options)]


def falling(count, *, noise=0.0, length=60.0, seed=1):
    """Return an exponential fall from 3 to 1."""
    chance = random.Random(seed)
    return [1 + 2 * math.exp(-step / length) + noise * chance.gauss(0, 1) for step in range(count)]


def test_few_points_are_unknown():
    """Below twelve points nothing is said about the end."""
    assert outlook([3.0, 2.0, 1.5], 0.5) is None
    assert categories([3.0, 2.0, 1.5], per_interval=1) == [C.UNKNOWN] * 3


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_a_curve_that_flattens_converges_once(noise):
    """Progressing, watching, converged, and it stays so: noise neither hides a verdict nor withdraws it."""
    seen = [category for category, _ in itertools.groupby(categories(falling(600, noise=noise), total=600))]
    assert [one for one in seen if one is not C.UNKNOWN][-1] is C.CONVERGED
    assert seen.count(C.CONVERGED) == 1


def test_the_verdict_is_right():
    """At the first verdict, no more is to come than was promised to be left."""
    values = falling(600, noise=0.05)
    first = next(i for i, one in enumerate(categories(values, total=600)) if one is C.CONVERGED)
    assert 2 * math.exp(-(10 * first + 10) / 60) / 2 < SETTINGS.remaining_gain


def test_a_curve_that_falls_to_its_end_converges_only_there():
    """A straight line has as much to gain as there are steps left: a verdict before 95 % of them is wrong."""
    assert C.CONVERGED not in categories([100.0 - 0.1 * step for step in range(570)], total=600)


def test_without_a_total_a_verdict_takes_longer():
    """A job of unknown length is taken to go on: the same curve converges later."""
    values = falling(900)
    known, unknown = categories(values, total=900), categories(values)
    assert unknown.index(C.CONVERGED) > known.index(C.CONVERGED)


def test_only_noise_is_unknown():
    """A job that never learns is neither progressing nor converged."""
    chance = random.Random(3)
    values = [2.3 + 0.05 * chance.gauss(0, 1) for _ in range(600)]
    assert set(categories(values, total=600)) == {C.UNKNOWN}


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1e6, 0.0), (1.0, -500.0)])
def test_scale_and_offset_of_the_metric_do_not_matter(scale, shift):
    """The same curve in another unit, or below zero, is judged the same."""
    values = falling(400, noise=0.03)
    assert categories(values, total=400) == categories([scale * one + shift for one in values], total=400)


def test_direction_of_the_metric_does_not_matter():
    """An accuracy that rises is judged like a loss that falls."""
    values = falling(400, noise=0.03)
    rising = msgspec.structs.replace(SETTINGS, goal="max")
    assert categories(values, total=400) == categories([-one for one in values], total=400, settings=rising)


def test_first_values_that_dwarf_the_rest_are_left_behind():
    """415, then 6 falling to 3: the first values do not make the rest of the run look converged."""
    values = [415.0] * 4 + [3 + 3 * math.exp(-step / 150) for step in range(596)]
    first = categories(values, total=600).index(C.CONVERGED)
    assert math.exp(-(10 * first) / 150) < 0.1


def test_warm_up_is_no_plateau():
    """A flat beginning, as long as the learning rate warms up, is unknown, not converged."""
    chance = random.Random(2)
    flat = [3 + 0.01 * chance.gauss(0, 1) for _ in range(100)]
    found = categories([*flat, *falling(500, noise=0.01)], total=600)
    assert set(found[:10]) == {C.UNKNOWN}
    assert C.PROGRESSING in found[10:20]


def test_a_fall_after_the_verdict_reopens_it():
    """A step of the learning rate makes a flat curve fall again: progressing within two intervals."""
    flat = falling(500, noise=0.01)
    found = categories([*flat, *[one - 0.5 for one in flat[-100:]]], total=600)
    assert found[49] is C.CONVERGED
    assert C.PROGRESSING in found[50:52]


def test_rare_reports_count_as_they_come():
    """Intervals without a report change nothing: one point per epoch is judged by points."""
    values, settings = falling(40, length=4.0), SETTINGS
    dense = judgements(values, total=40, per_interval=1)
    curve, judgement, found = Curve(), begin(0.0, settings), []
    for tick in range(200):
        if tick % 5 == 4:
            step = tick // 5 + 1
            curve.add(Sample("loss", values[step - 1], step=step, total_steps=40), float(tick))
        judgement = judge_by_horizon(
            judgement,
            curve.close_interval(float(tick)),
            curve.values,
            curve.done,
            now=float(tick),
            settings=settings,
        )
        if tick % 5 == 4:
            found.append(judgement.category)
    assert found == [one.category for one in dense]


def test_rising_for_good_diverges():
    """A loss that gave back half of its gain, three intervals in a row, is diverging; it may come back."""
    values = [*falling(300, noise=0.01), *[2.5] * 60, *[1.0] * 60]
    found = categories(values, total=1000)
    assert C.DIVERGING in found[30:36]
    assert found[-1] is not C.DIVERGING


def test_samples_that_are_not_finite_diverge():
    """Three NaN samples in a row are divergence, as for Algorithm 1."""
    assert categories([*falling(100), *[math.nan] * 10], total=200)[-1] is C.DIVERGING


def test_silence_stalls_and_the_verdict_survives_it():
    """A converged job that falls silent is stalled, and converged again with its next sample."""
    curve = Curve()
    judgement = judgements(falling(500), total=600)[-1]
    assert judgement.category is C.CONVERGED
    silent = Interval(value=None, silence=100.0, longest_gap=1.0)
    stalled = judge_by_horizon(judgement, silent, curve.values, None, now=700.0, settings=SETTINGS)
    assert stalled.category is C.STALLED
    again = judge_by_horizon(
        stalled, Interval(value=1.0, samples=1), falling(500), 0.9, now=710.0, settings=SETTINGS
    )
    assert again.category is C.CONVERGED


def test_a_judgement_survives_a_restart():
    """Written and read again, the memory of the classifier is the same."""
    judgement = judgements(falling(500, noise=0.02), total=600)[-1]
    assert msgspec.json.decode(msgspec.json.encode(judgement), type=Judgement) == judgement


def test_a_run_that_went_back_has_not_done_what_comes_again():
    """A restart from scratch is judged by its own curve, not as a divergence from the one before."""
    curve = Curve()
    for step in (*range(1, 301), *range(1, 101)):
        curve.add(Sample("loss", 3.0 - step / 150, step=step, total_steps=600), float(step))
    assert len(curve.values) == 100
    assert curve.done == pytest.approx(1 / 6)


@pytest.mark.parametrize("goal", ["min", "max"])
def test_a_run_put_back_to_before_it_had_converged_gains_again(goal):
    """Its trainer crashed, and the next one began with an early checkpoint; then it converges as before."""
    sign = -1 if goal == "max" else 1
    settings = msgspec.structs.replace(SETTINGS, goal=goal)
    curve, judgement, found = Curve(), begin(0.0, settings), []
    steps = [*range(1, 801), *range(101, 1001)]
    for now, step in enumerate(steps, 1):
        value = sign * (0.2 + 2 * math.exp(-step / 120))
        curve.add(Sample("loss", value, step=step, total_steps=1000), float(now))
        if now % 10 == 0:
            interval = curve.close_interval(float(now))
            judgement = judge_by_horizon(
                judgement, interval, curve.values, curve.done, now=float(now), settings=settings
            )
            found.append(judgement.category is C.CONVERGED)
    before, after = found[:80], found[80:]
    assert before[-1]
    assert before.index(True) - 10 <= after.index(True) + 10
    assert after[-1]


def test_a_gain_too_small_for_numbers_is_taken():
    """The last quarter gains the smallest number there is: nothing can be divided by what remains of it."""
    values = [1.0] * 100 + [5e-324 * (100 - k) for k in range(100)]
    assert 0 <= outlook(values, 0.5).until_converged <= 1


def test_confidence_falls_with_the_limit_and_with_what_is_to_come():
    """A smaller limit is less sure to be kept; a flatter end of the curve makes it surer."""
    steep, flat = outlook(falling(100), 0.5), outlook(falling(400), 0.5)
    assert steep.confidence(0.01) < steep.confidence(0.05)
    assert steep.confidence(0.02) < flat.confidence(0.02)
    assert steep.share > flat.share >= 0.0


@pytest.mark.parametrize(
    ("remaining", "confidence"), [(0.0027, 0.7), (0.02, 0.977), (0.01, 0.9), (None, None)]
)
def test_settings_that_a_curve_can_reach_are_taken(remaining, confidence):
    """The highest confidence is that of a run that is over and has no gain ahead."""
    assert unreachable(remaining, confidence) == ""
    over = outlook([math.exp(-step / 5) for step in range(400)], 1.0)
    assert over.confidence(remaining or 0.02) >= (confidence or 0.7)


@pytest.mark.parametrize(
    ("remaining", "confidence"), [(0.0025, 0.7), (0.0025, None), (0.02, 0.979), (None, 0.979)]
)
def test_settings_that_no_curve_can_reach_are_named_with_what_can_be(remaining, confidence):
    """Not even a run that is over would converge."""
    assert (
        f"{confidence or 0.7:g} is never reached with a remaining gain of {remaining or 0.02:g}"
        in unreachable(remaining, confidence)
    )
    over = outlook([math.exp(-step / 5) for step in range(400)], 1.0)
    assert over.confidence(remaining or 0.02) < (confidence or 0.7)


def test_looking_at_a_full_curve_is_cheap():
    """The end of an interval with 511 points takes less than a millisecond of processor time."""
    values = falling(511, noise=0.05)
    times = []
    for _ in range(20):
        before = time.process_time()
        outlook(values, 0.5)
        times.append(time.process_time() - before)
    assert min(times) < 0.001


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.floats(-10, 10), max_size=80),
    st.none() | st.floats(0, 1),
    st.sampled_from(["min", "max"]),
)
@example([0.0] * 10 + [-1.1984620899082106e307] * 2, None, "min")
def test_any_values_give_a_judgement(values, done, goal):
    """Whatever a log printed, nothing is raised, shares are finite and only what learnt converges."""
    settings = msgspec.structs.replace(SETTINGS, goal=goal)
    judgement = begin(0.0, settings)
    for number in range(1, len(values) + 1):
        judgement = judge_by_horizon(
            judgement,
            Interval(value=values[number - 1], samples=1),
            values[:number],
            done,
            now=float(number),
            settings=settings,
        )
        assert judgement.confidence is None or 0 <= judgement.confidence <= 1
        assert judgement.share is None or 0 <= judgement.share < math.inf
        assert judgement.category is not C.CONVERGED or judgement.verdict_best is not None


def test_no_share_beyond_the_whole_is_a_figure():
    """Of a run that has just begun far more than all of its gain so far is to come: that is said in words."""
    found = judgements([3 - 0.001 * step**1.5 for step in range(200)], total=100_000)
    reasons = [judgement.reason for judgement in found if judgement.share is not None]
    beyond = [judgement for judgement in found if judgement.share is not None and judgement.share > 1]
    assert beyond
    assert all("more than all of its gain so far still to come" in judgement.reason for judgement in beyond)
    figures = [float(text) for reason in reasons for text in re.findall(r"([\d.]+)% of its gain", reason)]
    assert all(figure <= 100 for figure in figures)


@pytest.mark.parametrize(("rate", "done"), [(4.0, 0.2), (8.0, 0.2), (16.0, 0.1)])
def test_the_time_until_it_has_converged_is_that_of_an_exponential_curve(rate, done):
    """Of the whole run's gain 2 % are left at ln(50) / rate of it, as long as the end is far below."""
    values = [math.exp(-rate * k / 1000) for k in range(int(1000 * done))]
    view = outlook(values, done)
    end = math.exp(-rate)
    truth = -math.log(end + 0.02 * (1 - end)) / rate
    assert view.until_converged == pytest.approx((truth - done) / (1 - done), abs=0.06)


@pytest.mark.parametrize("done", [0.1, 0.2])
def test_a_curve_that_has_hardly_converged_gains_for_as_long_again(done):
    """Its first gains were large, and many small ones follow: the way down of most real losses."""
    values = [1 / (1 + k / 3) ** 0.5 for k in range(1000)]
    view = outlook(values[: int(1000 * done)], done)
    assert view.confidence(0.02) < 0.4
    assert view.until_converged >= 0.999 * done / (1 - done)


def test_only_what_has_probably_converged_has_no_gain_to_come():
    """An estimate of no time left beside a small probability is no verdict: it would rank a job as one."""
    values = [math.exp(-16 * k / 1000) for k in range(1000)]
    for number in range(100, 1000, 20):
        view = outlook(values[:number], number / 1000)
        least = min(1.0, number / (1000 - number))
        assert view.confidence(0.02) >= 0.4 or view.until_converged > 0.999 * least
    assert view.until_converged == 0.0


def test_a_straight_line_converges_at_its_end_and_a_flat_one_has():
    """A line that falls as fast as ever gains until 98 % of its way; without a total nothing is said."""
    falling_on = [1.0 - k / 200 for k in range(100)]
    assert outlook(falling_on, 0.4).until_converged == pytest.approx(0.96, abs=0.03)
    assert outlook(falling_on, 0.5).until_converged == 1.0, "at least as long again"
    flat = [math.exp(-k / 5) for k in range(200)]
    assert outlook(flat, 0.5).until_converged == 0.0
    assert outlook(falling_on, None).until_converged is None


def test_no_verdict_while_worse_than_the_best():
    """A dip early in a run is no end: the value rose behind it, and most of the gain is still to come."""
    dip = [*falling(120, length=15), *(1.0 + 0.01 * min(n, 40) for n in range(80))]
    found = judgements(dip, total=220)
    assert C.CONVERGED not in [one.category for one in found]
    assert any("worse than its best" in one.reason for one in found)
