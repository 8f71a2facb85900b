import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.classify import Category, ClassifierSettings, Interval, Judgement
from specon_sidecar.classify.judgement import begin
from specon_sidecar.classify.specon import judge

SETTINGS = ClassifierSettings(alpha=0.01, interval=30)
LITERAL = ClassifierSettings(alpha=0.01, interval=30, literal=True)
C = Category


def run(values, settings=SETTINGS, start=None):
    """Judge one interval per value; None is an interval without a sample."""
    judgement = start or begin(0.0, settings)
    silence, seen = 0.0, False
    judgements = []
    for number, value in enumerate(values, start=1):
        seen = seen or value is not None
        silence = 0.0 if value is not None or not seen else silence + settings.interval
        interval = Interval(value=value, samples=0 if value is None else 1, silence=silence)
        judgement = judge(judgement, interval, number * settings.interval, settings)
        judgements.append(judgement)
    return judgements


def categories(values, settings=SETTINGS):
    return [judgement.category for judgement in run(values, settings)]


def test_two_falling_gains_below_alpha_converge():
    """Lines 6 to 14: progressing, then watching, then converged, each by a falling gain below alpha."""
    assert categories([1.0, 0.5, 0.493, 0.488, 0.485]) == [
        C.UNKNOWN,
        C.PROGRESSING,
        C.WATCHING,
        C.CONVERGED,
        C.CONVERGED,
    ]


def test_a_gain_that_does_not_fall_changes_nothing():
    """Lines 15 to 17: below alpha but not below the previous gain, the category stays."""
    assert categories([1.0, 0.5, 0.495, 0.489])[-2:] == [C.WATCHING, C.WATCHING]


@pytest.mark.parametrize("before", [[1.0, 0.5, 0.493], [1.0, 0.5, 0.493, 0.488]])
def test_growth_resets_to_progressing(before):
    """Lines 18 to 22: a gain at or above alpha puts watching and converged jobs back to progressing."""
    assert categories([*before, before[-1] - 0.1])[-1] is C.PROGRESSING


def test_gain_equal_to_alpha_is_growth():
    """The case that the paper leaves out: G = alpha counts as progressing."""
    settings = ClassifierSettings(alpha=0.25)
    assert categories([4.0, 2.0, 1.0], settings)[-1] is C.PROGRESSING


def test_gains_are_relative_to_the_first_value():
    """The same curve in another unit is judged the same."""
    curve = [1.0, 0.5, 0.493, 0.488, 0.3]
    assert categories(curve) == categories([500 * value for value in curve])


def test_scale_range_measures_by_the_values_seen():
    """An accuracy that begins near zero has no useful first value; the range of values has."""
    settings = ClassifierSettings(goal="max", scale="range")
    assert categories([0.001, 0.5, 0.8, 0.805, 0.806], settings)[-2:] == [C.WATCHING, C.CONVERGED]


def test_first_value_of_zero_divides_nothing():
    """A metric that begins at exactly 0 is measured by its range."""
    assert run([0.0, 0.0, -1.0, -1.0])[2].gain == 1.0


def test_interval_without_sample_is_skipped():
    """A job slower than the interval does not converge by silence (unlike in the paper)."""
    assert categories([1.0, 0.5, None, None, None])[1:] == [C.PROGRESSING] * 4


def test_gain_is_spread_over_skipped_intervals():
    """G is a gain per interval: half the scale over four intervals is an eighth per interval."""
    assert run([1.0, None, None, None, 0.5])[-1].gain == pytest.approx(0.125)


def test_never_learnt_is_unknown():
    """A job whose value only wanders never converges: nothing was learnt that could be finished."""
    assert set(categories([2.30, 2.301, 2.299, 2.3, 2.33, 2.331, 2.3312])) == {C.UNKNOWN}


def test_long_silence_stalls_and_samples_resume():
    """Silence beyond ten intervals is a stall; samples bring back the category that it interrupted."""
    judgements = run([1.0, 0.5, 0.493, *[None] * 11, 0.492])
    assert [one.category for one in judgements[-2:]] == [C.STALLED, C.CONVERGED]
    assert judgements[-3].category is C.WATCHING


def test_silence_shorter_than_five_times_the_longest_gap_is_no_stall():
    """A job that prints once an hour is not stalled after ten intervals."""
    judgement = run([1.0, 0.5])[-1]
    quiet = Interval(value=None, silence=400.0, longest_gap=100.0)
    assert judge(judgement, quiet, 500.0, SETTINGS).category is C.PROGRESSING


def test_nonfinite_samples_in_a_row_diverge():
    """Three NaN samples in a row mean divergence, two do not."""
    judgement = run([1.0, 0.5])[-1]
    two, three = (
        judge(judgement, Interval(value=None, samples=n, nonfinite_run=n), 90.0, SETTINGS) for n in (2, 3)
    )
    assert (two.category, three.category) == (C.PROGRESSING, C.DIVERGING)


def test_rising_for_three_intervals_diverges():
    """A value that lost more than half of what was gained, three times in a row, diverges."""
    assert categories([1.0, 0.2, 0.7, 0.8, 0.9])[-3:] == [C.PROGRESSING, C.PROGRESSING, C.DIVERGING]


def test_rising_from_the_start_diverges():
    """A job that never improved diverges once its value is far above the first one."""
    assert categories([1.0, 5.0, 25.0, 125.0])[-1] is C.DIVERGING


def test_diverged_job_that_recovers_progresses():
    """Out of divergence a job that had learnt is progressing, whatever its gain."""
    assert categories([1.0, 0.2, 0.7, 0.8, 0.9, 0.3])[-1] is C.PROGRESSING


def test_not_classifiable_begins_anew_with_a_value():
    """The first value ends not-classifiable."""
    start = Judgement(category=C.NOT_CLASSIFIABLE, since=0.0)
    assert [one.category for one in run([1.0, 0.5], start=start)] == [C.UNKNOWN, C.PROGRESSING]


def test_since_is_kept_while_the_category_holds():
    """`since` is when the category was entered, not when it was last confirmed."""
    judgements = run([1.0, 0.5, 0.493, 0.488, 0.485])
    assert [one.since for one in judgements] == [0.0, 60.0, 90.0, 120.0, 120.0]


def test_literal_starts_in_progressing_with_absolute_gains():
    """As printed: every container begins in PC, and E is not normalised."""
    assert categories([500.0, 499.5, 499.4], LITERAL) == [C.PROGRESSING] * 3


def test_literal_converges_in_two_intervals():
    """As printed (with line 12 by the prose): two falling gains below alpha."""
    assert categories([0.5, 0.495, 0.491], LITERAL)[1:] == [C.WATCHING, C.CONVERGED]


def test_literal_takes_silence_as_no_gain():
    """As printed: the last value is returned again, so that a slow job looks as if it stood still."""
    assert categories([0.5, 0.3, None], LITERAL)[-1] is C.WATCHING


FINITE = st.floats(allow_nan=False, allow_infinity=False)
INTERVALS = st.builds(
    Interval,
    value=st.none() | FINITE | st.floats(),
    samples=st.integers(0, 5),
    nonfinite_run=st.integers(0, 4),
    silence=st.floats(0, 1e6),
    longest_gap=st.floats(0, 1e4),
)
ALLOWED = {
    C.UNKNOWN: {C.UNKNOWN, C.PROGRESSING, C.WATCHING, C.STALLED, C.DIVERGING},
    C.PROGRESSING: {C.PROGRESSING, C.WATCHING, C.STALLED, C.DIVERGING},
    C.WATCHING: {C.PROGRESSING, C.WATCHING, C.CONVERGED, C.STALLED, C.DIVERGING},
    C.CONVERGED: {C.PROGRESSING, C.CONVERGED, C.STALLED, C.DIVERGING},
    C.DIVERGING: {C.UNKNOWN, C.PROGRESSING, C.DIVERGING, C.STALLED},
}


@given(st.lists(INTERVALS, max_size=40), st.sampled_from(["first", "range"]), st.sampled_from(["min", "max"]))
def test_judge_never_raises_and_keeps_to_the_table(intervals, scale, goal):
    """Whatever is observed, only the transitions of the table are made, and converged only after learning."""
    settings = ClassifierSettings(alpha=0.01, scale=scale, goal=goal)
    judgement = begin(0.0, settings)
    for number, interval in enumerate(intervals):
        before = judgement
        judgement = judge(before, interval, float(number), settings)
        origin = before.interrupted if before.category is C.STALLED else before.category
        allowed = ALLOWED[origin or C.PROGRESSING] | ({C.STALLED} if before.category is C.STALLED else set())
        assert judgement.category in allowed
        assert judgement.learnt or judgement.category not in {C.PROGRESSING, C.WATCHING, C.CONVERGED}
        assert judgement.since <= number


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.floats(1e-6, 0.9))
def test_alpha_separates_growth_from_the_rest(values, alpha):
    """A gain of alpha or more never ends in watching or converged; one below never resets."""
    settings = ClassifierSettings(alpha=alpha)
    judgements = run(values, settings)
    for before, after in itertools.pairwise(judgements):
        if after.gain is None or math.isnan(after.gain) or after.gain >= alpha:
            assert after.category not in {C.WATCHING, C.CONVERGED}
        elif before.category in {C.WATCHING, C.CONVERGED}:
            assert after.category is not C.PROGRESSING
