"""Lines of a container's output: each once and whole, however often the way to them breaks."""

import asyncio
import contextlib

import pytest

from specon_sidecar.observing.follow_output import OutputFollower


def stamped(second, text, fraction=0):
    return b"2026-11-23T07:00:%02d.%09dZ %s" % (second, fraction, text)


class Outputs:
    """Gives what is scripted: for each time that it is asked, pieces, and an error in the end or not."""

    def __init__(self, *times):
        self.times, self.asked = list(times), []

    @contextlib.asynccontextmanager
    async def output(self, container, since):
        self.asked.append((container, since))
        pieces = self.times.pop(0) if self.times else ["stop"]
        if isinstance(pieces[0], OSError):
            raise pieces[0]
        yield self._given(pieces)

    async def _given(self, pieces):
        for piece in pieces:
            if isinstance(piece, OSError):
                raise piece
            if piece == "stop":
                self.follower.stop()
            else:
                yield piece
            await asyncio.sleep(0)


async def lines_of(*times):
    outputs = Outputs(*times)
    outputs.follower = follower = OutputFollower(outputs, "trainer", pause=0.001)
    async with asyncio.timeout(10):
        found = [line async for batch in follower.batches() for line in batch]
    return found, outputs, follower


async def test_lines_come_without_their_times():
    """Whatever the pieces are; what follows a carriage return belongs to the line."""
    first, second = stamped(1, b"step 1 loss 3\r 50%|\r100%|\n"), stamped(2, b"step 2 loss 2\n")
    whole = first + second
    found, outputs, _ = await lines_of([whole[:30], whole[30:55], whole[55:], "stop"])
    assert found == [b"step 1 loss 3", b" 50%|", b"100%|", b"step 2 loss 2"]
    assert outputs.asked[0] == ("trainer", "")


async def test_what_was_read_is_not_read_again():
    """Asked for from the last line's second on, lines of that second come twice and are dropped."""
    one, two = stamped(7, b"step 1\n", 5), stamped(7, b"step 2\rbar\n", 900)
    three = stamped(7, b"step 3\n", 901)
    found, outputs, _ = await lines_of([one, two, OSError("gone")], [one + two + three, "stop"])
    assert found == [b"step 1", b"step 2", b"bar", b"step 3"]
    assert outputs.asked[1] == ("trainer", "2026-11-23T07:00:07Z")


@pytest.mark.parametrize("end", [OSError("reset"), b""])
async def test_half_a_line_is_not_taken(end):
    """It comes again, whole: half a number is another number."""
    line = stamped(1, b"loss 0.123\n")
    found, _, _ = await lines_of([line[:-4], end], [line, "stop"])
    assert found == [b"loss 0.123"]


async def test_the_last_line_may_lack_its_end():
    """Once the trainer has ended, nothing more can come."""
    found, _, _ = await lines_of(["stop", stamped(1, b"a\n")], [stamped(1, b"a\n") + stamped(2, b"b")])
    assert found == [b"a", b"b"]


async def test_what_is_in_the_way_is_told():
    """It has the words of the refusal, until the output can be read."""
    follower = OutputFollower(Outputs(), "trainer")
    assert follower.look().detail == "it was not asked for yet"
    _, _, follower = await lines_of(
        [OSError("the manager answers 503: 100 logs are relayed already")], ["stop"]
    )
    assert follower.look().kind == "empty"
    _, _, follower = await lines_of(["stop"], [OSError("forbidden")])
    assert (follower.look().kind, follower.look().detail) == ("unreadable", "forbidden")
