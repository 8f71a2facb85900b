"""No pattern that was admitted can stop the sidecar."""

import re
import time

import pytest

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.safe_pattern import LENGTHS, longest_line
from specon_sidecar.formats.table import make_reader

REFUSED = [
    *(r"(a+)+$", r"(a|aa)+$", r"(.*a){20}", r"(?:\w+ )*x", r"(a?){30}a{30}", r"(a*)*b", r"(?:a|b|ab)*c"),
    *(r"((a+)b?)+c", r"(x+x+)+y", r"^(\d+ ?)+$", r"(?:a{1,3}){9}b", r"(\w)\2+", r"(a)?(?(2)b|c)"),
    *(r".*.*.*.*x", r"a?" * 40 + "a" * 40, r"(?=(a+)+b)x", r"(?:(?:a|aa)(?:b|bb)){12}"),
]
ADMITTED = [
    (r"loss=(?P<value>\S+)", 4096),
    (r"step=(?P<step>\d+)/(?P<total>\d+) .*loss=(?P<value>\S+)", 4096),
    (r"^\[(?P<step>\d+)\] .*loss: (?P<value>[-+]?[\d.]+(?:[eE][-+]?\d+)?)", 4096),
    (r"Epoch (?P<epoch>\d+).*step (?P<step>\d+).*loss (?P<value>\S+)", 768),
    (r"(?P<value>\d{1,3}(?:,\d{3})*)", 4096),
    (r"\d+\d+\d+x", 192),
    (r".*?.*?x", 256),
    (r"a.*b.*c", 768),
    (r"\s+$", 4096),
    (r"(?:INFO|DEBUG) loss (?P<value>.*)", 4096),
]
FILLS = [b"a", b"ab", b"1", b" ", b"x1", b"step=1/1 ", b"Epoch 1 step 1 ", b"loss=1", b"[1] loss: 1e"]


@pytest.mark.parametrize("pattern", REFUSED)
def test_dangerous_pattern_is_refused_by_its_form(pattern):
    """What could take for ever is refused at once, and the message holds the pattern."""
    with pytest.raises(ValueError, match=r"^pattern .* has |^pattern .* repeats "):
        make_reader("regular-expression", FormatOptions(pattern=f"(?P<value>{pattern})"))


@pytest.mark.parametrize(("pattern", "length"), ADMITTED)
def test_length_that_is_searched(pattern, length):
    """The more ways a pattern has, the shorter are the lines that it searches."""
    assert longest_line(pattern) == length
    assert length in LENGTHS


@pytest.mark.parametrize("pattern", [one[0] for one in ADMITTED])
@pytest.mark.parametrize("fill", FILLS)
def test_searching_is_bounded_in_time(pattern, fill):
    """A line at the bound that almost matches costs well under a second."""
    line = (fill * 4096)[: longest_line(pattern) - 1] + b"!"
    expression = re.compile(pattern.encode())
    started = time.perf_counter()
    expression.search(line)
    assert time.perf_counter() - started < 0.8


def test_longer_lines_are_not_searched():
    """A pattern with a shorter bound leaves longer lines alone."""
    reader = make_reader("auto", FormatOptions(pattern=r"a.*b.*c(?P<value>\d)"))
    assert reader.read([b"a b c1" + b" " * 800]) == []
    assert [one.value for one in reader.read([b"a b c1"])] == [1.0]
