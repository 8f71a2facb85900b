"""Reviews cost the loop nothing, whatever anybody sends."""

import asyncio
import contextlib
import json
import threading
import time

import msgspec
import pytest

from specon_manager.backends.kube.admission import reviews as reviews_module
from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import NoReviewError
from specon_manager.backends.kube.admission.reviews import (
    MOST_BYTES,
    MOST_VALUES,
    MOST_WAITING,
    BusyError,
    Reviews,
    TooLargeError,
)
from support.kube.hostile_objects import DEAREST
from support.kube.pods import annotated, pod, review_of

SETTINGS = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://specon:443", ca_bundle="x" * 4000)
CPU_SECONDS = 0.05
"""What one review may take of a processor."""
LONGEST_GAP = 1.0
"""Seconds between two turns of a loop on a busy machine; the lease is renewed every two, within eight."""


def body_of(made):
    return json.dumps(review_of(made), separators=(",", ":")).encode()


def judge(reviews, body, entry="inject"):
    return reviews.judge(body, SETTINGS, {}, entry)


async def gaps(work, clock=time.monotonic):
    """Return the longest time, by this clock, for which the loop did nothing else while the work was done."""
    task, longest, last = asyncio.ensure_future(work), 0.0, clock()
    while not task.done():
        await asyncio.sleep(0.01)
        now = clock()
        longest, last = max(longest, now - last), now
    return longest, await task


@pytest.mark.parametrize("name", DEAREST)
def test_the_dearest_reviews_that_are_known_stay_cheap(name):
    """Processor time of this thread, the least of five: another process that takes turns is none of it."""
    body = body_of(DEAREST[name]())
    spent = []
    for _ in range(5):
        began = time.thread_time()
        with contextlib.suppress(TooLargeError, NoReviewError):
            reviews_module.answer_bounded(body, SETTINGS, {}, "inject")
        spent.append(time.thread_time() - began)
    assert min(spent) < CPU_SECONDS


async def test_a_loop_that_renews_a_lease_goes_on_while_reviews_are_judged(monkeypatch):
    """Also where one took two seconds: it is no turn of the loop's."""
    began = threading.Event()

    def slow(*_):
        began.set()
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            sum(range(1000))
        return {"response": {"allowed": True}}

    monkeypatch.setattr(reviews_module, "review", slow)
    longest, _ = await gaps(judge(Reviews(), body_of(pod())))
    assert began.is_set()
    assert longest < LONGEST_GAP


async def test_a_loop_goes_on_under_the_dearest_reviews_of_many():
    """All kinds of them at once, some more than once. What other processes take meanwhile does not count."""
    reviews = Reviews()
    bodies = [body_of(make()) for make in DEAREST.values()] * 3
    longest, answers = await gaps(
        asyncio.gather(*(judge(reviews, each) for each in bodies), return_exceptions=True),
        clock=time.process_time,
    )
    assert longest < LONGEST_GAP
    for answer in answers:
        assert isinstance(answer, dict | TooLargeError | NoReviewError | BusyError), answer


async def test_what_has_too_many_values_is_not_decoded():
    """The bound is of what stands between them."""
    made = pod(annotations=annotated())
    made["spec"]["containers"] += [{}] * MOST_VALUES
    with pytest.raises(NoReviewError, match="the review has more than 30000 values"):
        await judge(Reviews(), body_of(made))


async def test_only_so_many_wait_and_the_rest_is_told_so(monkeypatch):
    """Those that are sent when nobody judges any."""
    held = threading.Event()
    monkeypatch.setattr(reviews_module, "review", lambda *_: held.wait(60) and {})
    reviews = Reviews()
    waiting = [asyncio.ensure_future(judge(reviews, b"{}")) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="512 other reviews wait"):
        await judge(reviews, b"{}")
    held.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await judge(reviews, b"{}") == {}


async def test_what_waited_for_longer_than_anybody_listens_is_dropped(monkeypatch):
    """The API server has given up by then."""
    now, begun = [0.0], threading.Event()

    def judged(*_):
        begun.wait(60)
        now[0] += 3.0
        return {}

    monkeypatch.setattr(reviews_module, "review", judged)
    reviews = Reviews(monotonic=lambda: now[0])
    waiting = [asyncio.ensure_future(judge(reviews, b"{}")) for _ in range(4)]
    await asyncio.sleep(0)
    begun.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes[:2] == [{}, {}]
    assert [type(each) for each in outcomes[2:]] == [BusyError, BusyError]


async def test_bodies_that_come_slowly_fill_no_memory():
    """What is held of all of them at once is bounded, and given back with each."""
    reviews = Reviews()
    more = asyncio.Event()

    async def chunks(size):
        yield b"x" * size
        await more.wait()

    size = 2 * 1024 * 1024
    reading = [asyncio.ensure_future(reviews.read(chunks(size))) for _ in range(MOST_BYTES // size)]
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await reviews.read(chunks(size))
    more.set()
    assert {len(body) for body in await asyncio.gather(*reading)} == {size}
    assert len(await reviews.read(chunks(size))) == size


async def test_the_answer_is_that_of_a_review():
    """Nothing but the place where it is made has changed."""
    answer = await judge(Reviews(), body_of(pod(annotations=annotated())))
    assert answer["response"]["allowed"]
    assert msgspec.json.encode(answer)
