"""For how long jobs may wait until they end later than with equal shares."""

from hypothesis import given
from hypothesis import strategies as st

from specon_manager.policies.equal_shares import JobService, slack

SECONDS = st.floats(0.0, 1e4)


def sharer(present, attained, remaining):
    return JobService(present, attained, remaining)


def test_who_just_came_waits_as_long_as_the_others_would_take_of_its_time():
    """10 s and 30 s: with equal shares the first ends after 20 s, the other after 40 s."""
    assert slack([sharer(0.0, 0.0, 10.0), sharer(0.0, 0.0, 30.0)]) == [10.0, 10.0]


def test_what_a_job_lacks_until_now_counts_for_each_that_is_there():
    """One job had all 60 s; equal shares would have been 20 s of both and 40 s of it alone."""
    assert slack([sharer(60.0, 60.0, 50.0), sharer(20.0, 0.0, 50.0)]) == [50.0 + 2 * 10, 50.0 - 2 * 10]


def test_a_job_alone_that_lacks_nothing_has_no_time_to_wait():
    """It ends when it would."""
    assert slack([sharer(60.0, 60.0, 50.0)]) == [0.0]


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=8))
def test_the_least_left_first_ends_nobody_late_who_lacks_nothing(jobs):
    """Where all came at once and had equal shares until now, in that order all end in time."""
    present = jobs[0][0]
    there = [sharer(present, present / len(jobs), rest) for _, _, rest in jobs]
    order = sorted(zip(there, slack(there), strict=True), key=lambda each: each[0].remaining)
    waits = 0.0
    for job, left in order:
        assert waits <= left + 1e-6
        waits += job.remaining
