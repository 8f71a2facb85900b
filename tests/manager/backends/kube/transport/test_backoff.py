"""Pauses between tries: longer after each failure, bounded, short again after a success."""

import random

from specon_manager.backends.kube.transport.backoff import Backoff


def test_each_pause_is_twice_as_long_up_to_a_bound():
    """However often it fails, no number overflows."""
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    for _ in range(5000):
        backoff.next()
    assert backoff.next() == 3.0


def test_a_success_begins_anew():
    """The next failure waits as long as the first one did."""
    backoff = Backoff(0.5, 3.0)
    backoff.next()
    backoff.next()
    assert backoff.failures == 2
    backoff.succeed()
    assert (backoff.failures, backoff.next()) == (0, 0.5)


def test_who_failed_together_comes_back_apart():
    """Between a half and all of it."""
    pauses = {Backoff(1.0, 8.0, random.Random(seed)).next() for seed in range(20)}
    assert len(pauses) == 20
    assert all(0.5 <= pause <= 1.0 for pause in pauses)
