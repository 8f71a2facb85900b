import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.classify.remaining import Pace


def pace(marks):
    result = Pace()
    for now, position in marks:
        result.mark(now, position)
    return result


def test_a_steady_pace_is_extrapolated():
    """Ten steps per second leave ten seconds for a hundred steps, give or take 4 %."""
    remaining = pace([(second, 10 * second) for second in range(5)]).remaining(40, 140)
    assert (remaining.value, remaining.uncertainty) == (10.0, pytest.approx(0.4))


def test_an_unsteady_pace_is_less_certain():
    """Of two paces with the same mean, the one that varies has the wider interval."""
    steady = pace([(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]).remaining(40, 140)
    unsteady = pace([(0, 0), (1, 2), (2, 20), (3, 22), (4, 40)]).remaining(40, 140)
    assert unsteady.value == steady.value
    assert unsteady.uncertainty > 5 * steady.uncertainty


def test_no_pace_from_one_mark():
    """A place without a way to it has no pace, and neither has a place that is not left."""
    assert pace([(1, 5)]).remaining(5, 10) is None
    assert pace([(1, 5), (2, 5), (3, 5)]).remaining(5, 10) is None


def test_a_run_that_goes_back_begins_a_new_pace():
    """The jump to the checkpoint of a resumed run is no training."""
    assert pace([(0, 0), (1, 100), (50, 60)]).remaining(60, 200) is None
    assert pace([(0, 0), (1, 100), (50, 60), (60, 70)]).remaining(70, 80).value == 10.0


def test_a_change_of_pace_is_followed():
    """After the last intervals at a new pace, nothing is left of the one before."""
    marks = [(second, 100 * second) for second in range(40)]
    marks += [(39 + second, 3900 + second) for second in range(1, 32)]
    assert pace(marks).remaining(3931, 3941).value == pytest.approx(10.0)


def test_past_its_total_nothing_is_left():
    """A job that goes on beyond its total has no negative time to go."""
    assert pace([(0, 0), (1, 10)]).remaining(30, 20).value == 0.0


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=80))
def test_any_marks_give_a_time_or_none(marks):
    """Whatever is marked, an estimate is not negative, and not less certain than its own size."""
    remaining = pace(marks).remaining(10.0, 1e9)
    assert remaining is None or 0 <= remaining.uncertainty <= remaining.value
