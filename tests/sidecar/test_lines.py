"""Chunks become the same lines wherever the chunks were cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.following.lines import LineSplitter

# Mostly the bytes that mean something here.
content = st.lists(st.sampled_from([b"\n", b"\r", b"\0", b"a", b"loss=1", b"\xff", b"x" * 9])).map(b"".join)
cuts = st.lists(st.integers(min_value=0, max_value=200))


def chunks_of(data, borders):
    places = sorted({min(border, len(data)) for border in borders} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


def split(data, borders=(), cap=10):
    splitter = LineSplitter(cap)
    lines = [line for chunk in chunks_of(data, borders) for line in splitter.feed(chunk)]
    return lines, splitter


@given(data=content | st.binary(), borders=cuts)
def test_same_lines_for_any_chunks(data, borders):
    """The lines are those between ends, without NULs, empty and too long ones, for any borders of chunks."""
    lines, splitter = split(data, borders)
    whole = [line.replace(b"\0", b"") for line in re.split(rb"[\r\n]", data)]
    assert lines == [line for line in whole[:-1] if 0 < len(line) <= 10]
    rest = whole[-1] if len(whole[-1]) <= 10 else b""
    assert splitter.oversized == sum(len(line) > 10 for line in whole)
    assert splitter.flush() == (rest or None)


@given(data=content, borders=cuts)
def test_pending_bytes_lead_back_to_the_last_line_end(data, borders):
    """Reading again from `pending` bytes before the end gives exactly the lines that were not given yet."""
    lines, splitter = split(data, borders)
    place = len(data) - splitter.pending
    more = b"b\ncc\n"
    again, _ = split((data + more)[place:])
    assert lines + again == split(data + more)[0]


def test_both_ends_and_their_pair():
    """Newline, carriage return, and the pair of both end one line each."""
    assert split(b"a\r\nb\rc\nd")[0] == [b"a", b"b", b"c"]


def test_half_a_number_waits():
    """A number that is cut by a chunk's end is not handed out before its line ends."""
    splitter = LineSplitter()
    assert splitter.feed(b"loss=3.") == []
    assert splitter.feed(b"973\n") == [b"loss=3.973"]


def test_too_long_line_is_dropped_whole_and_counted_once():
    """Nothing of a line beyond the cap is handed out, the next line is, and memory stays bounded."""
    splitter = LineSplitter(100)
    for _ in range(1000):
        assert splitter.feed(b"x" * 99) == []
        assert len(splitter._carry) <= 100
    assert splitter.feed(b"y\nz\n") == [b"z"]
    assert splitter.oversized == 1


def test_hole_of_nuls_leaves_nothing_behind():
    """A hole is neither kept nor counted as pending, and the line around it survives."""
    splitter = LineSplitter(100)
    for _ in range(50):
        assert splitter.feed(bytes(65536)) == []
    assert splitter.pending == 0
    assert splitter.feed(b"loss=1\n") == [b"loss=1"]
    assert splitter.oversized == 0


def test_reset_drops_the_carried_half():
    """After a reset the next chunk begins a line, also where an oversized one was being skipped."""
    splitter = LineSplitter(10)
    splitter.feed(b"half")
    splitter.reset()
    assert splitter.feed(b"a\n" + b"x" * 20) == [b"a"]
    splitter.reset()
    assert splitter.feed(b"b\n") == [b"b"]


def test_cap_must_be_positive():
    """A cap that would drop each line is refused, by name and value."""
    with pytest.raises(ValueError, match="max_line_bytes must be at least 1, not 0"):
        LineSplitter(0)
