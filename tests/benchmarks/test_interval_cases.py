"""By how much intervals are too narrow, as the benchmark of expected starts finds it."""

import math
from pathlib import Path
from random import Random

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TICK = 5.0


@pytest.fixture(name="cases")
def module_of_cases(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import interval_cases  # noqa: PLC0415 - it is no package

    return interval_cases


@pytest.fixture(name="case")
def maker(cases):
    def make(truth, earliest=100.0, latest=200.0):
        return cases.Case(earliest=earliest, latest=latest, truth=truth, tick=TICK)

    return make


def draw(case, rng, count):
    """Return cases with intervals that are too narrow: half as wide, in logarithms, as they should be."""
    drawn = []
    for _ in range(count):
        middle = math.exp(rng.uniform(3.0, 9.0))
        truth = middle * math.exp(rng.gauss(0.0, 0.5))
        drawn.append(case(truth, middle * math.exp(-0.4), middle * math.exp(0.4)))
    return drawn


@pytest.mark.parametrize("truth", [0.0, 42.0, 99.0, 150.0, 201.0, 900.0])
def test_an_interval_contains_the_truth_with_the_factor_that_it_needs(case, truth):
    """With a little less it does not: the factor and the predicate agree."""
    needed = case(truth).needed
    for factor, inside in ((needed * 1.0001, True), (needed * 0.9999, False)):
        earliest = (100.0 + TICK) / factor - TICK
        latest = (200.0 + TICK) * factor - TICK
        assert case(truth, earliest, latest).inside is inside


def test_an_interval_that_holds_needs_no_factor_above_1(cases, case):
    """At its ends it needs just 1, with what counts as the same time."""
    for truth in (100.0 - cases.SAME, 200.0 + cases.SAME):
        assert case(truth).inside
        assert case(truth).needed == pytest.approx(1.0)
    assert case(150.0).needed < 1.0
    assert case(300.0).needed > 1.0


def test_the_factor_is_that_which_ninety_of_a_hundred_need_no_more_than(cases, case):
    """It is the largest of 9 and the second largest of 19: the new case counts as the worst."""
    known = [case(200.0 + cases.SAME + 10.0 * number) for number in range(19)]
    assert cases.calibrate(known) == known[17].needed
    assert cases.calibrate(known[:9]) == known[8].needed
    assert cases.calibrate(known[::-1]) == cases.calibrate(known), "the order does not matter"


def test_fewer_than_nine_cases_give_no_factor(cases, case):
    """Not even the largest of theirs would hold in nine of ten."""
    with pytest.raises(ValueError, match="cases: 8 are too few"):
        cases.calibrate([case(150.0)] * 8)


def test_new_cases_hold_as_often_as_they_say(cases, case):
    """Fewer than 65 of 100 hold as they are, and 90 with the factor of others."""
    rng = Random(1)
    factor = cases.calibrate(draw(case, rng, 400))
    new = draw(case, rng, 4000)
    assert sum(each.inside for each in new) / len(new) < 0.65
    held = sum(each.needed <= factor for each in new) / len(new)
    assert 0.87 <= held <= 0.93
