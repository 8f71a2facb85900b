"""When jobs start, as a manager asks beside its loop: seldom, bounded, and never to its harm."""

import asyncio
import contextlib
import sys

import msgspec
import pytest

from specon_manager.model.cluster import Served
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.runtime.forecasting import Asked, Forecasts, ask_process
from support.decisions.changed_jobs import NOW, elastic, nodes
from support.decisions.gangs import with_gang

JOB = "default/w"
SOON = ExpectedStart(in_seconds=60.0, earliest_seconds=10.0, latest_seconds=100.0, worlds=19)
WAITING = with_gang(nodes(), elastic("w"), {})


class Lab:
    """What answers instead of a process."""

    def __init__(self, answer=None):
        self.answer, self.asked = {JOB: SOON} if answer is None else answer, []

    async def __call__(self, question):
        self.asked.append(msgspec.msgpack.decode(question, type=Asked))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, bytes) else msgspec.msgpack.encode(self.answer)


@contextlib.asynccontextmanager
async def asking(lab, state=WAITING):
    """Yield forecasts that ask without a pause, and what is set at each answer that is news."""
    news = asyncio.Event()
    forecasts = Forecasts(lambda: state, lambda: NOW, every=0.0, ask=lab, changed=news.set)
    running = asyncio.create_task(forecasts.run())
    async with asyncio.timeout(10):
        yield forecasts, news
    running.cancel()


async def test_an_answer_grows_old_with_the_clock():
    """What was a minute away is half a minute away half a minute later, and never before now."""
    async with asking(Lab()) as (forecasts, news):
        await news.wait()
    assert forecasts.start_of(JOB, NOW) == SOON
    later = forecasts.start_of(JOB, NOW + 30)
    assert (later.in_seconds, later.earliest_seconds, later.latest_seconds) == (30.0, 0.0, 70.0)
    assert forecasts.tell(NOW + 30) == {JOB: later}
    assert forecasts.start_of("default/other", NOW) is None


async def test_nobody_is_asked_while_nobody_waits():
    """A cluster that has room costs nothing."""
    lab = Lab()
    async with asking(lab, nodes()):
        await asyncio.sleep(0.05)
    assert lab.asked == []


@pytest.mark.parametrize("answer", [OSError("gone"), TimeoutError(), b"\xc1", {JOB: {"in_seconds": "soon"}}])
async def test_trouble_leaves_nothing_that_was_known_and_goes_on(answer, caplog):
    """A process that breaks or says nonsense is asked again; numbers that grow old are not kept."""
    lab = Lab()
    async with asking(lab) as (forecasts, news):
        for said, known in ((lab.answer, True), (answer, False), ({JOB: SOON}, True)):
            lab.answer = said
            while (forecasts.start_of(JOB, NOW) is not None) is not known:
                news.clear()
                await news.wait()
    assert "when jobs start is not known" in caplog.text


@pytest.mark.processes
async def test_a_process_answers():
    """The real one, of a state in which a job has room."""
    known = {"other": Served(jobs=3, mean_seconds=9.0, latest=(9.0, 9.0, 9.0))}
    state = msgspec.structs.replace(WAITING, served=known)
    question = msgspec.msgpack.encode(Asked(state=state, now=NOW, jobs=(JOB,)))
    answer = msgspec.msgpack.decode(await ask_process(question), type=dict[str, ExpectedStart])
    assert answer[JOB].worlds == 19
    assert answer[JOB].in_seconds < 10


@pytest.mark.processes
async def test_a_process_that_fails_says_why():
    """The last line of what it said, cut."""
    with pytest.raises(OSError, match="ended with 3: no room"):
        await ask_process(
            b"", [sys.executable, "-c", "import sys; print('no room', file=sys.stderr); sys.exit(3)"]
        )
