"""Instructions to sidecars: kept until acknowledged, seen at once by a sidecar that waits."""

import asyncio

import msgspec
import pytest

from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_manager.runtime.mailbox import Mailbox
from specon_sidecar.wire import Acknowledgement, CheckpointInstruction, ReleaseInstruction

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


PAUSED = "move-1"


def pausing(identity=PAUSED, **fields):
    return msgspec.structs.replace(request(identity, **fields), pause=30.0)


def answer(identity=PAUSED, *, paused=True, incarnation="1"):
    return Acknowledgement(
        schema=1, replica=A, incarnation=incarnation, id=identity, done=True, paused=paused
    )


def release(identity=PAUSED):
    return msgspec.structs.replace(withdrawal(identity), release=True)


def ids(mailbox, now=0.0, incarnation="1"):
    return [one.id for one in mailbox.open(A, incarnation, now)]


def test_a_request_says_how_long_to_pause(mailbox):
    """In seconds, and never longer than the wire allows."""
    mailbox.put(pausing())
    mailbox.put(msgspec.structs.replace(pausing(replica=B), pause=1e8))
    assert [mailbox.open(replica, "1", 0.0)[0].pause for replica in (A, B)] == [30.0, 3600.0]


@pytest.mark.parametrize("withdrawn_first", [True, False], ids=["rolled back before", "after"])
def test_a_trainer_that_pauses_is_released_once_nobody_needs_it(mailbox, withdrawn_first):
    """Whichever comes first, the answer or the withdrawal; until the sidecar says that it has done so."""
    mailbox.put(pausing())
    happenings = [lambda: mailbox.heard(answer()), lambda: mailbox.put(release())]
    for happened in reversed(happenings) if withdrawn_first else happenings:
        assert not any(isinstance(one, ReleaseInstruction) for one in mailbox.open(A, "1", 0.0))
        happened()
    for _ in range(2):
        (told,) = mailbox.open(A, "1", 0.0)
        assert (told.request, isinstance(told, ReleaseInstruction)) == (PAUSED, True)
    assert ids(mailbox, incarnation="2") == []
    mailbox.heard(answer(told.id, paused=False))
    assert ids(mailbox) == []


def test_a_sidecar_that_did_not_say_that_its_trainer_pauses_is_never_told_to_release_it(mailbox):
    """One of an earlier version refuses every message with an instruction that it does not know."""
    mailbox.put(pausing())
    mailbox.heard(answer(paused=False))
    mailbox.heard(answer(incarnation="0"))
    mailbox.put(release())
    assert ids(mailbox) == []


def test_what_is_told_to_end_is_not_released(mailbox):
    """Else it would train on between the request and its end; it is where that is called off later."""
    mailbox.put(pausing())
    mailbox.heard(answer())
    mailbox.put(withdrawal())
    mailbox.heard(answer())
    assert ids(mailbox) == []
    mailbox.put(release())
    assert ids(mailbox) == ["release.move-1"]


def test_the_next_request_takes_the_place_of_a_release(mailbox):
    """The sidecar ends an earlier pause by itself then; the same request given again changes nothing."""
    for order in (pausing(), pausing()):
        mailbox.put(order)
        mailbox.heard(answer())
    mailbox.put(pausing("move-2"))
    mailbox.put(release())
    assert ids(mailbox) == ["move-2"]


def test_a_release_is_forgotten_when_the_pause_is_over_by_itself(mailbox):
    """Nobody pauses beyond the deadline of the request and the length of the pause."""
    mailbox.put(pausing(deadline=100.0))
    mailbox.heard(answer())
    mailbox.put(release())
    assert ids(mailbox, now=130.0) == ["release.move-1"]
    assert ids(mailbox, now=130.5) == []


async def test_a_poll_sees_a_release_the_moment_it_comes(mailbox):
    """As it sees a request; one that the sidecar works at already is no news."""
    mailbox.put(pausing())
    mailbox.heard(answer())
    waiting = asyncio.ensure_future(mailbox.news(A, "1", {PAUSED}, LONG))
    await turns()
    assert not waiting.done()
    mailbox.put(release())
    await asyncio.wait_for(waiting, 60)
    await asyncio.wait_for(mailbox.news(A, "1", {PAUSED}, LONG), 60)
    again = asyncio.ensure_future(mailbox.news(A, "1", {PAUSED, "release.move-1"}, LONG))
    await turns()
    assert not again.done()
    again.cancel()
