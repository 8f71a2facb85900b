"""Instructions to sidecars: kept until acknowledged, seen at once by whoever waits."""

import asyncio

import pytest

from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_manager.runtime.mailbox import Mailbox
from specon_sidecar.wire import CheckpointInstruction

A = "default/a/worker/0"
B = "default/b/worker/0"
LONG = 600.0


def request(identity: str = "move-1", *, replica: str = A, incarnation: str = "1", deadline: float = 100.0):
    return RequestCheckpoint(
        transaction="t",
        id=identity,
        replica=replica,
        incarnation=incarnation,
        deadline=deadline,
        reason="a move",
    )


def withdrawal(identity: str = "move-1", replica: str = A):
    return WithdrawRequest(id=identity, replica=replica, reason="over")


@pytest.fixture
def mailbox():
    return Mailbox()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_empty_mailbox_has_no_instructions(mailbox):
    """Nobody is told anything before there is something to tell."""
    assert mailbox.open(A, "1", now=0.0) == ()


def test_a_request_is_handed_out_until_it_is_withdrawn(mailbox):
    """It is repeated, so that one whose answer was lost is seen again."""
    mailbox.put(request())
    for _ in range(3):
        (instruction,) = mailbox.open(A, "1", now=40.0)
        assert isinstance(instruction, CheckpointInstruction)
        assert instruction.id == "move-1"
    mailbox.put(withdrawal())
    assert mailbox.open(A, "1", now=40.0) == ()


@pytest.mark.parametrize("now", [0.0, 40.0, 99.0, 100.0, 1e9])
def test_the_time_left_is_never_more_than_there_is_nor_negative(mailbox, now):
    """A sidecar gives up before the manager does, even when it asks after the deadline."""
    mailbox.put(request(deadline=100.0))
    (instruction,) = mailbox.open(A, "1", now=now)
    left = max(0.0, 100.0 - now)
    assert 0.8 * left <= instruction.seconds_left <= left


def test_other_incarnations_and_replicas_get_nothing(mailbox):
    """A request is for the incarnation that is to be evicted, and for no other."""
    mailbox.put(request(incarnation="1"))
    assert mailbox.open(A, "2", now=0.0) == ()
    assert mailbox.open(B, "1", now=0.0) == ()


def test_a_later_request_takes_the_place_of_the_earlier(mailbox):
    """A replica has one move at most, so it has one request at most."""
    mailbox.put(request("move-1"))
    mailbox.put(request("move-2"))
    assert [instruction.id for instruction in mailbox.open(A, "1", now=0.0)] == ["move-2"]


def test_a_late_withdrawal_does_not_take_out_a_newer_request(mailbox):
    """Withdrawing is by id."""
    mailbox.put(request("move-2"))
    mailbox.put(withdrawal("move-1"))
    mailbox.put(withdrawal("move-2", replica=B))
    assert [instruction.id for instruction in mailbox.open(A, "1", now=0.0)] == ["move-2"]


async def test_a_poll_returns_at_once_for_what_the_sidecar_does_not_know(mailbox):
    """What is there already is not waited for."""
    mailbox.put(request())
    await asyncio.wait_for(mailbox.news(A, "1", frozenset(), LONG), 60)


@pytest.mark.parametrize(
    ("incarnation", "known"), [("1", {"move-1"}), ("2", set())], ids=["known", "other incarnation"]
)
async def test_a_poll_waits_while_there_is_nothing_new_for_this_sidecar(mailbox, incarnation, known):
    """A known instruction and one for another incarnation are no news; the wait is bounded."""
    mailbox.put(request())
    waiting = asyncio.ensure_future(mailbox.news(A, incarnation, known, LONG))
    await turns()
    assert not waiting.done()
    mailbox.put(request("move-2", incarnation=incarnation))
    await asyncio.wait_for(waiting, 60)
    assert await asyncio.wait_for(mailbox.news(A, incarnation, {"move-2"}, 0.001), 60) is None


async def test_a_poll_sees_a_request_the_moment_it_comes(mailbox):
    """All that wait are told, and news for another replica wakes nobody."""
    polls = [asyncio.ensure_future(mailbox.news(A, "1", set(), LONG)) for _ in range(3)]
    await turns()
    mailbox.put(request(replica=B))
    await turns()
    assert not any(poll.done() for poll in polls)
    mailbox.put(request())
    await asyncio.wait_for(asyncio.gather(*polls), 60)


async def test_a_poll_after_the_news_waits_for_the_next(mailbox):
    """One piece of news does not keep later polls from waiting."""
    first = asyncio.ensure_future(mailbox.news(A, "1", set(), LONG))
    await turns()
    mailbox.put(request("move-1"))
    await asyncio.wait_for(first, 60)
    second = asyncio.ensure_future(mailbox.news(A, "1", {"move-1"}, LONG))
    await turns()
    assert not second.done()
    second.cancel()
