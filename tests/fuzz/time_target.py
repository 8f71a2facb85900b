"""What the fuzzer measures: how long readers take for a line, and that the time grows as the line does.

A NUL is never part of a line. Here it cuts the last line of an input into what begins a long line, what is
repeated in it, and what ends it; without two of them the thirds of that line are taken.
"""

from collections.abc import Callable
from typing import NamedTuple

from specon_sidecar.following.lines import MAX_LINE_BYTES
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.regular_expression import compile_pattern
from specon_sidecar.formats.table import AUTO, FORMATS, REGULAR_EXPRESSION, make_reader
from support.clocks.processor_time import least_seconds, times_as_long

NAMES = (AUTO, *(name for name in FORMATS if name != REGULAR_EXPRESSION))
# The lines before it that a reader is shown: a heading, samples.
LINES_BEFORE = 20
# How often a line is read at most.
TURNS = 5
LONG = MAX_LINE_BYTES
SHORT = LONG // 8
# A line of this length that takes less is no matter, however the time grows. Readers take a tenth of it.
QUICK_SECONDS = 0.05
# What is linear takes 8 times as long for 8 times the line; what is quadratic, 64 times.
MOST_TIMES = 16.0
MOST_SECONDS = 1.0
# A pattern that is as slow as it may be takes about a second for a line.
SEARCH_SECONDS = 4.0


class Stretched(NamedTuple):
    """A line of any length, and what stands before it."""

    before: list[bytes]
    begin: bytes
    repeated: bytes
    end: bytes

    def line(self, length: int) -> bytes:
        """Return it in so many bytes, or a few less."""
        times = (length - len(self.begin) - len(self.end)) // len(self.repeated)
        return self.begin + self.repeated * times + self.end


def stretch(data: bytes) -> Stretched:
    """Return what an input stands for."""
    *before, last = data.splitlines() or [b""]
    third = len(last) // 3
    parts = last.split(b"\0") if last.count(b"\0") == 2 else [last[:third], last[third : 2 * third], last]
    begin, repeated, end = (part.replace(b"\0", b"") for part in parts)
    return Stretched([line for line in before[-LINES_BEFORE:] if line], begin, repeated or b" ", end)


def check_time(data: bytes, *names: str) -> None:
    """Raise where a reader of one of these names takes too long for the long line of an input."""
    stretched = stretch(data)
    for name in names:
        long = least_seconds(prepare(name, stretched, LONG), enough=QUICK_SECONDS)
        if long >= QUICK_SECONDS:
            work, other = prepare(name, stretched, LONG), prepare(name, stretched, SHORT)
            times = times_as_long(work, other, enough=MOST_TIMES, turns=TURNS)
            told = f"{name}: {long:.3f} s for {LONG:,} bytes, {times:.0f} times as long as for {SHORT:,}"
            assert times < MOST_TIMES, told
            assert long < MOST_SECONDS, told


def prepare(name: str, stretched: Stretched, length: int) -> Callable[[], object]:
    """Return what reads the line in this length, each time by a reader that has met no name of it."""
    line = stretched.line(length)
    readers = [make_reader(name, FormatOptions()) for _ in range(TURNS)]
    for reader in readers:
        reader.read(stretched.before)
    fresh = iter(readers)
    return lambda: next(fresh).read([line])


def check_search_time(data: bytes) -> None:
    """Raise where the pattern on the first line takes too long for the longest line that it searches."""
    pattern, _, rest = data.partition(b"\n")
    try:
        expression, longest = compile_pattern(pattern.decode("utf-8", "replace"))
    except ValueError:
        return  # refused, as most patterns are
    line = stretch(rest).line(longest)[:longest]
    taken = least_seconds(lambda: expression.search(line), enough=SEARCH_SECONDS)
    assert taken < SEARCH_SECONDS, f"{taken:.3f} s for {len(line):,} bytes"
