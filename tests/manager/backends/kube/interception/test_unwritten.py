"""What is remembered of wishes for moves that could not be written."""

from specon_manager.backends.kube.interception.unwritten import FORGOTTEN_SECONDS, REMEMBERED, Unwritten


def test_an_eviction_is_put_off_for_a_minute_and_then_passes():
    """However often it is asked for."""
    unwritten = Unwritten()
    assert [unwritten.put_off("u", at) for at in (0.0, 5.0, 59.0, 60.0, 65.0)] == [True] * 3 + [False] * 2


def test_a_failure_of_long_ago_is_no_reason_to_let_a_pod_go():
    """It is put off anew: also when somebody has asked for others all the time."""
    unwritten = Unwritten()
    unwritten.put_off("u", 0.0)
    for at in range(0, int(FORGOTTEN_SECONDS), 10):
        unwritten.put_off("other", float(at))
    assert unwritten.put_off("u", FORGOTTEN_SECONDS)
    assert not unwritten.put_off("other", FORGOTTEN_SECONDS)


def test_a_wish_that_is_there_ends_the_memory():
    """It does not matter who has written it."""
    unwritten = Unwritten()
    unwritten.put_off("u", 0.0)
    unwritten.note_written("u")
    assert unwritten.put_off("u", 70.0)


def test_more_pods_than_are_remembered_are_not_put_off_for_ever():
    """Those beyond it pass at once, and the others after their minute."""
    unwritten = Unwritten()
    pods = [str(number) for number in range(REMEMBERED + 1)]
    assert [unwritten.put_off(uid, 0.0) for uid in pods] == [True] * REMEMBERED + [False]
    assert not any(unwritten.put_off(uid, 60.0) for uid in pods)


def test_who_asks_every_six_minutes_is_not_put_off_for_ever():
    """The rounds of the descheduler are five minutes apart."""
    unwritten = Unwritten()
    assert [unwritten.put_off("u", at * 360.0) for at in range(3)] == [True, False, False]
