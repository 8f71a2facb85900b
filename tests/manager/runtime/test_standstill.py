"""A process that was frozen reads what waited at its sockets as if that came now."""

import pytest

from specon_manager.runtime.standstill import LONGEST, WAITS_SECONDS, Standstill


class Watched:
    """A standstill with a clock that the test moves."""

    def __init__(self):
        self.time = 1000.0
        self.standstill = Standstill(monotonic=lambda: self.time)
        self.standstill.look()

    def pass_by(self, seconds):
        self.time += seconds


def test_a_process_that_runs_has_not_stood_still():
    """However busy it is for a second."""
    watched = Watched()
    for _ in range(20):
        assert not watched.standstill.is_recent()
        watched.pass_by(LONGEST / 2)
        watched.standstill.look()


@pytest.mark.parametrize("looked_first", [False, True])
def test_what_is_read_right_after_a_standstill_may_have_waited(looked_first):
    """Whether the next look or a request that waited comes first; a moment later nothing waits any more."""
    watched = Watched()
    watched.pass_by(60.0)
    if looked_first:
        watched.standstill.look()
    assert watched.standstill.is_recent()
    watched.standstill.look()
    assert watched.standstill.is_recent()
    watched.pass_by(WAITS_SECONDS)
    watched.standstill.look()
    assert not watched.standstill.is_recent()


def test_where_nobody_looks_nothing_is_noticed():
    """Before the server listens."""
    assert not Standstill(monotonic=lambda: 5.0).is_recent()
