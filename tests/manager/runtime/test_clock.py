"""Time that never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.runtime.clock import Clock


class Time:
    """A wall clock that anybody sets, and a monotonic one that nobody does."""

    def __init__(self, wall: float, monotonic: float = 77.0) -> None:
        self.wall = wall
        self.monotonic = monotonic

    def clock(self, at_least: float = 0.0) -> Clock:
        return Clock(at_least, wall=lambda: self.wall, monotonic=lambda: self.monotonic)


def test_the_clock_begins_at_the_wall_clock():
    """Seconds since the epoch, so that people can read them."""
    assert Time(1000.0).clock().now() == 1000.0


@given(jump=st.floats(-1e9, 1e9), passed=st.floats(0, 1e6))
def test_a_wall_clock_that_is_set_changes_nothing(jump, passed):
    """From its start on only the monotonic clock counts, whether the wall clock jumps on or back."""
    time = Time(1e9)
    clock = time.clock()
    time.wall += jump
    before = clock.now()
    time.monotonic += passed
    assert before == 1e9
    assert clock.now() - before == pytest.approx(passed, abs=1e-5)


def test_a_wall_clock_set_back_between_two_managers_cannot_turn_time_back():
    """The clock begins no earlier than the last time that an earlier manager wrote down."""
    time = Time(1000.0)
    clock = time.clock(at_least=5000.0)
    assert clock.now() == 5000.0
    time.monotonic += 2.5
    assert clock.now() == 5002.5


def test_time_that_passed_between_two_managers_counts():
    """Where the wall clock is ahead of what was written down, it is believed."""
    assert Time(9000.0).clock(at_least=5000.0).now() == 9000.0


def test_the_real_clocks_are_the_default():
    """Two looks at the real clock never go back."""
    clock = Clock()
    assert 1.6e9 < clock.now() <= clock.now()
