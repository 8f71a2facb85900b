"""A flood of messages with a good token is slowed down, and nobody else notices."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.runtime import message_rate
from specon_manager.runtime.message_rate import MessageRates, RateLimits
from specon_sidecar.reporting.outbox import OutboxSettings

ONE = ("ns/job/worker/0", "uid")
OTHER = ("ns/other/worker/0", "uid-2")


def test_a_sidecar_that_comes_back_with_all_it_kept_is_within_the_burst():
    """The defaults fit together: every kept change, and as many answers and questions."""
    assert RateLimits().burst >= 2 * OutboxSettings().changes


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=300))
def test_in_any_time_no_more_than_burst_and_rate_pass(pauses):
    """Whatever the pattern, at most burst + rate * time messages are taken."""
    rates = MessageRates(RateLimits(per_second=5.0, burst=10))
    now = taken = 0.0
    for pause in pauses:
        now += pause
        taken += rates.wait(*ONE, now) == 0.0
    assert taken <= 10 + 5.0 * now + 1e-6


@given(st.integers(0, 50), st.floats(0.5, 20))
def test_who_waits_as_told_is_taken(before, rate):
    """The time that is named is enough, and no more than the next token takes."""
    rates = MessageRates(RateLimits(per_second=rate, burst=8))
    waits = [rates.wait(*ONE, 100.0) for _ in range(before)]
    last = waits[-1] if waits else 0.0
    assert last <= 1.0 / rate + 1e-9
    assert rates.wait(*ONE, 100.0 + last + 1.0 / rate + 1e-6) == 0.0


def test_others_are_not_slowed_down(monkeypatch):
    """Each incarnation has its own; the number that is kept is bounded."""
    monkeypatch.setattr(message_rate, "_MOST_BUCKETS", 3)
    rates = MessageRates(RateLimits(per_second=1.0, burst=1))
    assert rates.wait(*ONE, 0.0) == 0.0
    assert rates.wait(*ONE, 0.0) > 0.0
    assert rates.wait(*OTHER, 0.0) == 0.0
    for number in range(10):
        rates.wait("ns/job/worker/1", str(number), 0.0)
    assert len(rates._buckets) == 3


@pytest.mark.parametrize("change", [{"per_second": 0.0}, {"burst": 0}])
def test_limits_that_let_nothing_pass_are_refused(change):
    """By the field's name."""
    with pytest.raises(msgspec.ValidationError, match=next(iter(change))):
        msgspec.convert(change, RateLimits)


async def test_a_flood_is_answered_with_429_and_a_time(listening):
    """With Retry-After, in seconds; what was taken before counts, the rest is not looked at."""
    async with listening(rate_limits=RateLimits(per_second=0.1, burst=3)) as server:
        answers = [await server.tell() for _ in range(5)]
        assert [status for status, _ in answers] == [204, 204, 204, 429, 429]
        assert 1 <= int(answers[-1][1]["Retry-After"]) <= 10


async def test_a_stranger_uses_up_nobody_s_messages(listening):
    """Only who shows the token of an incarnation counts against it."""
    async with listening(rate_limits=RateLimits(per_second=0.1, burst=2)) as server:
        for _ in range(5):
            assert (await server.tell(headers={"Authorization": "Bearer x"}))[0] == 403
        assert (await server.tell())[0] == 204


async def test_who_makes_up_replicas_has_one_share_for_all_of_them(listening, monkeypatch):
    """A pod's token is good for any name of its namespace: only those that are known count for themselves."""
    async with listening(rate_limits=RateLimits(per_second=0.1, burst=2)) as server:
        may_report = server.tokens.may_report

        async def of_the_namespace(shown, replica, incarnation):
            return shown == "pod" or await may_report(shown, replica, incarnation)

        monkeypatch.setattr(server.tokens, "may_report", of_the_namespace)
        strange = {"Authorization": "Bearer pod"}
        bodies = [server.report(replica=f"ns/made-up-{index}/worker/0") for index in range(4)]
        answers = [(await server.tell(body, headers=strange))[0] for body in bodies]
        assert answers == [503, 503, 429, 429]
        assert (await server.tell())[0] == 204
