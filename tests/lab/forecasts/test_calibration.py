"""By how much intervals are wider than worlds make them: taken from cases, and applied to starts."""

import math
from random import Random

import pytest

from specon_lab.forecasts.calibration import SAME, Case, calibrate, widen
from specon_lab.forecasts.starts import Start

TICK = 5.0


def case(truth, earliest=100.0, latest=200.0):
    return Case(earliest=earliest, latest=latest, truth=truth, tick=TICK)


def start(earliest=100.0, latest=200.0, median=150.0):
    return Start(median=median, earliest=earliest, latest=latest, surely_after=earliest)


def drawn(rng, count):
    """Return cases whose intervals are too narrow: their truths spread over twice as much of logarithms."""
    cases = []
    for _ in range(count):
        middle = math.exp(rng.uniform(3.0, 9.0))
        truth = middle * math.exp(rng.gauss(0.0, 0.5))
        cases.append(case(truth, middle * math.exp(-0.4), middle * math.exp(0.4)))
    return cases


@pytest.mark.parametrize("truth", [0.0, 42.0, 99.0, 150.0, 201.0, 900.0])
def test_an_interval_contains_the_truth_with_the_factor_that_it_needs(truth):
    """A little less, and it does not: what is calibrated on is what is judged."""
    needed = case(truth).needed
    for factor, inside in ((needed * 1.0001, True), (needed * 0.9999, False)):
        earliest = (100.0 + TICK) / factor - TICK
        latest = (200.0 + TICK) * factor - TICK
        assert case(truth, earliest, latest).inside is inside


def test_an_interval_that_holds_needs_no_factor_above_1():
    """The predicate and the factor agree about the ends, with what counts as the same time."""
    assert case(100.0 - SAME).inside
    assert case(100.0 - SAME).needed == pytest.approx(1.0)
    assert case(200.0 + SAME).inside
    assert case(200.0 + SAME).needed == pytest.approx(1.0)
    assert case(150.0).needed < 1.0
    assert case(300.0).needed > 1.0


def test_the_factor_is_that_which_ninety_of_a_hundred_need_no_more_than():
    """Of 9 the largest, of 19 the second largest: one new case more is counted, as it may be the worst."""
    cases = [case(200.0 + SAME + 10.0 * number) for number in range(19)]
    assert calibrate(cases) == cases[17].needed
    assert calibrate(cases[:9]) == cases[8].needed
    assert calibrate(cases[::-1]) == calibrate(cases), "the order does not matter"


def test_fewer_than_nine_cases_give_no_factor():
    """Ten new ones would not be held by any factor of theirs."""
    with pytest.raises(ValueError, match="cases: 8 are too few"):
        calibrate([case(150.0)] * 8)


def test_intervals_that_hold_too_often_are_not_made_narrower():
    """A few cases may err less than the next ones."""
    assert calibrate([case(150.0)] * 30) == 1.0


def test_new_cases_hold_as_often_as_they_say():
    """Of intervals that are too narrow 58 of 100 hold; calibrated on others 90 of 100 do."""
    rng = Random(1)
    factor = calibrate(drawn(rng, 400))
    new = drawn(rng, 4000)
    assert sum(each.inside for each in new) / len(new) < 0.65
    held = sum(each.needed <= factor for each in new) / len(new)
    assert 0.87 <= held <= 0.93


def test_an_interval_becomes_wider_at_both_ends_and_its_median_stays():
    """Both ends move by one factor, from a Tick before now on."""
    told = widen(start(), 2.0, TICK)
    assert (told.earliest, told.median, told.latest) == (47.5, 150.0, 405.0)
    assert told.surely_after == 47.5
    at_once = widen(start(0.0, 0.0, 0.0), 2.0, TICK)
    assert (at_once.earliest, at_once.median, at_once.latest) == (0.0, 0.0, TICK), "a moment becomes a time"


def test_a_factor_of_1_changes_nothing():
    """Intervals are as the worlds make them."""
    assert widen(start(), 1.0, TICK) == start()


def test_an_end_that_is_not_known_stays_so():
    """Beyond what was played there is no time that a factor makes known."""
    told = widen(start(100.0, math.inf, math.inf), 2.0, TICK)
    assert (told.earliest, told.median, told.latest) == (47.5, math.inf, math.inf)
