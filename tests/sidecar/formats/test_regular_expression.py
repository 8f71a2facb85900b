"""Patterns of the job's owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.regular_expression import LONGEST_LINE, RegularExpression


def make(pattern, metric=None):
    return RegularExpression(FormatOptions(metric=metric, pattern=pattern))


def test_groups():
    """Each named group fills its field."""
    sample = make(
        r"(?P<time>\S+) (?P<name>\w+) (?P<step>\d+) of (?P<total>\d+) \((?P<epoch>[\d.]+)\): (?P<value>\S+)"
    ).parse(b"2026-11-20T23:00:00Z ppl 12 of 400 (0.5): 1,234.5")
    assert (sample.name, sample.value, sample.step) == ("ppl", 1234.5, 12)
    assert (sample.total_steps, sample.epoch, sample.time) == (400, 0.5, 1795215600.0)


def test_name():
    """Without a group the name is the metric or loss; with both, other names are skipped."""
    assert make(r"v=(?P<value>\S+)").parse(b"v=1").name == "loss"
    assert make(r"v=(?P<value>\S+)", "ppl").parse(b"v=1").name == "ppl"
    named = make(r"(?P<name>\w+)=(?P<value>\S+)", "PPL")
    assert named.parse(b"ppl=1").name == "ppl"
    assert named.parse(b"acc=1") is None


@pytest.mark.parametrize("line", [b"", b"v=", b"v=abc", b"w=1", b"v=1" + b" " * LONGEST_LINE])
def test_line_without_sample(line):
    """No match, no number, or a line that is too long to be searched gives nothing."""
    assert make(r"v=(?P<value>\S*)").parse(line) is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?P<value>", r"pattern '\(\?P<value>' is not a regular expression"),
        (r"loss=(\d+)", r"pattern 'loss=.* has no group \(\?P<value>"),
        (r"(?P<value>\d+) (?P<stpe>\d+)", "has a group 'stpe'; known are value, step"),
        ("", "pattern is missing"),
        (None, "pattern is missing"),
        ("(?P<value>x){99999999999999999999}", "is not a regular expression"),
        ("\ud800", "is not a regular expression"),
    ],
)
def test_bad_pattern_is_named(pattern, message):
    """A pattern that cannot describe a sample is refused with its own text."""
    with pytest.raises(ValueError, match=message):
        make(pattern)


@given(value=st.floats(allow_nan=False), step=st.integers(min_value=0, max_value=2**53 - 1))
def test_round_trip(value, step):
    """Values are read as they were printed."""
    sample = make(r"(?P<step>\d+)\s+(?P<value>\S+)").parse(f"{step}  {value!r}".encode())
    assert (sample.value, sample.step) == (value, step)
