"""No pattern that was admitted can stop the sidecar."""

import re

import pytest

from specon_sidecar import parse
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.regular_expression import compile_pattern
from specon_sidecar.formats.safe_pattern import LENGTHS, LONGEST_PATTERN, compile_safely, longest_line
from specon_sidecar.formats.table import make_reader
from support.clocks.processor_time import least_seconds, times_as_long

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
    (r"step=(?P<step>\d+) loss=(?P<value>\S+)$", 4096),
    (r"^=(?P<value>\d+)\w*\w*x", 768),  # the sign begins the run, and still it may end anywhere
    (r"(?P<step>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d).*validation loss after epoch (?P<value>\S+)\b", 4096),
]
# What may fail behind a repetition, and what was once taken not to; with a line that makes it try again.
TRYING_AGAIN = [
    (r"(?P<value>[0-9.]+)[^,]*[^,]*$", b"1.", b","),
    (r"(?P<value>[^a]+)[^a]*\b", b" ", b"!"),
    (r"(?P<value>\d+)\d*(?=x)", b"1", b"!"),
    (r"(?P<value>\d+)\d*(?!1|!)x?", b"1", b"!"),
    (r"(?P<value>\d+)\d*(?:aa|bb)", b"1", b"!"),
    (r"(?P<value>\d+)\d*(?>aa)", b"1", b"!"),
    (r"(?P<value>[^ab]*)A[^ab]*A[^ab]*Ax", b"A", b"!"),  # [^ab] holds A
    (r"(?P<value>.*)a{1000}x", b"a", b"!"),
    (r"(?P<value>.*)" + "a" * 900 + "x", b"a", b"!"),
    (r"(?P<value>.*)(?:ab){300}x", b"ab", b"!"),
]
NESTED = [
    "(?P<value>" + "(" * 90 + "a" + ")" * 90 + ")b",
    "(?P<value>" + "(?:" * 200 + "a" + ")" * 200 + ")b",
    "(?P<value>" + "(?:" * 100 + "a" + "){9}" * 100 + ")b",
]
HOSTILE = {
    "a count beyond all bounds": "(?P<value>a{99999999999})",
    "groups without an end": "(" * LONGEST_PATTERN,
    "nested groups": "(" * 499 + "a" + ")" * 499,
    "nested alternatives": "(|" * 300 + ")" * 300,
    "too long": "(?P<value>a)" + "b" * 3_000_000,
    "half of a surrogate pair": "(?P<value>\ud800)",
    "more ways than a number holds": "(?P<value>" + "a{0,9}" * 160 + ")b",
    "more repetitions than a number holds": "(?P<value>" + "a*" * 480 + ")b",
    "a flag of locales": r"(?L)(?P<value>\w+)",
    "a back reference": r"(?P<value>a)\1",
    "a condition": r"(?P<value>a)?(?(1)b|c)",
    "nothing that repeats": "(?P<value>(?!)*)",
}
YARDSTICK = re.compile(rb"a*b")
FILLS = [b"a", b"ab", b"1", b" ", b"x1", b"step=1/1 ", b"Epoch 1 step 1 ", b"loss=1", b"[1] loss: 1e"]


def yardstick():
    """Search for 8 million steps: the slowest search below takes 73 times as long, about a second."""
    YARDSTICK.search(b"a" * 4096)


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
    assert times_as_long(lambda: expression.search(line), yardstick, enough=56) < 56


@pytest.mark.parametrize(("pattern", "fill", "end"), TRYING_AGAIN)
def test_what_may_fail_behind_a_repetition_counts(pattern, fill, end):
    """However a pattern hides that it tries again, a line at its bound costs about a second at most."""
    expression, longest = compile_safely(pattern)
    line = (fill * longest)[: longest - len(end)] + end
    assert times_as_long(lambda: expression.search(line), yardstick, enough=216) < 216


def test_three_repetitions_before_the_end_of_the_line_are_refused():
    """Four that may take over from each other are too many, also where only the end of the line follows."""
    with pytest.raises(ValueError, match=r"^pattern .* can match in too many ways"):
        compile_pattern(r"(?P<value>[0-9.]+)[^,]*[^,]*[^,]*$")


@pytest.mark.parametrize("pattern", HOSTILE.values(), ids=HOSTILE)
def test_the_check_of_a_hostile_pattern_ends_soon_and_in_one_way(pattern):
    """Compiling and checking raises nothing but a short ValueError, and costs little processor time."""

    def check():
        with pytest.raises(ValueError, match=r"^pattern '") as raised:
            compile_pattern(pattern)
        assert type(raised.value) is ValueError
        assert len(str(raised.value)) < 500
        with pytest.raises(ValueError, match=r"^(is|has|can|repeats) "):
            parse.pattern(pattern)

    assert least_seconds(check, enough=0.5) < 0.5


@pytest.mark.parametrize("pattern", NESTED, ids=("groups", "no numbers", "repeated"))
def test_nested_groups_cost_no_more_than_their_number(pattern):
    """A pattern of many groups within each other is checked in one pass; it is no slower for being nested."""
    assert least_seconds(lambda: compile_pattern(pattern), enough=0.2) < 0.2


def test_the_longest_pattern():
    """A pattern of so many characters is taken, one of more is refused by its length alone."""
    assert compile_pattern("(?P<value>a)" + "b" * (LONGEST_PATTERN - 12)).longest_line
    with pytest.raises(
        ValueError, match=r"^pattern '\(\?P<value>a\)b+…' has 1,001 characters; at most 1,000"
    ):
        compile_pattern("(?P<value>a)" + "b" * (LONGEST_PATTERN - 11))


def test_longer_lines_are_not_searched():
    """A pattern with a shorter bound leaves longer lines alone."""
    reader = make_reader("auto", FormatOptions(pattern=r"a.*b.*c(?P<value>\d)"))
    assert reader.read([b"a b c1" + b" " * 800]) == []
    assert [one.value for one in reader.read([b"a b c1"])] == [1.0]
