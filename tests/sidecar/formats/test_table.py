"""Rules that hold for each format of the table."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_sidecar.formats.families import FAMILIES
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.table import FORMATS, REGULAR_EXPRESSION, make_parser, make_reader

# Bytes that mean something to one format or another, so that the parsers get further than their first test.
TOKENS = (
    *(
        b"loss",
        b"LOSS",
        b"step",
        b"epoch",
        b"time",
        b"val_",
        b"=",
        b":",
        b",",
        b";",
        b"\t",
        b" ",
        b'"',
        b"'",
        b"{",
        b"}",
    ),
    *(
        b"[",
        b"]",
        b"/",
        b"1",
        b"9" * 400,
        b"-",
        b".",
        b"e",
        b"nan",
        b"inf",
        b"1,234",
        b"null",
        b"\\u",
        b"\xff",
        b"\0",
    ),
    *(
        b"\x1b[",
        b"\b",
        b"2026-11-20T23:00:00Z",
        b"2026-99-99T99:99:99+99:99",
        b"1e999",
        b"NaN",
        b"(",
        b"|",
        b"%",
    ),
)
NEEDLES = tuple(
    needle
    for one in FAMILIES
    for needle in (*one.needles, *((one.context[0],) if one.context else ()), one.skip_after)
    if needle
)
WHOLE = tuple(
    line
    for path in (Path(__file__).parent / "samples").iterdir()
    for line in path.read_bytes().splitlines()[:4]
)
garbage = st.binary(max_size=300) | st.lists(st.sampled_from(TOKENS + NEEDLES + WHOLE), max_size=30).map(
    b"".join
)


def options_for(name, metric=None):
    pattern = r"(?P<name>\w*)[=:](?P<value>.*?)(?P<step>\d*)$" if name == REGULAR_EXPRESSION else None
    return FormatOptions(metric=metric, pattern=pattern)


@pytest.mark.parametrize("name", [*FORMATS, "auto"])
@settings(max_examples=40)
@given(lines=st.lists(garbage, max_size=20), metric=st.none() | st.sampled_from(["loss", "\u00fc", "e", "["]))
def test_no_bytes_make_a_reader_raise(name, lines, metric):
    """Any bytes whatever are read without an exception, and samples are well formed."""
    reader = make_reader(name, FormatOptions(metric=metric) if name == "auto" else options_for(name, metric))
    for sample in [*reader.read([b"step,loss", *lines]), *reader.finish()]:
        assert isinstance(sample, Sample)
        assert isinstance(sample.value, float)
        assert sample.step is None or (isinstance(sample.step, int) and sample.step >= 0)
        assert sample.epoch is None or 0 <= sample.epoch < float("inf")


@pytest.mark.parametrize("name", FORMATS)
def test_named_reader_is_decided(name):
    """A format that was named is the chosen one from the start, and holds nothing back."""
    reader = make_reader(name, options_for(name))
    assert reader.chosen == name
    assert reader.finish() == []


def test_unknown_format_is_named():
    """The message holds the unknown name and the known ones."""
    with pytest.raises(ValueError, match=r"format 'yaml' is unknown; known are keras, .*, csv, .*, auto"):
        make_parser("yaml", FormatOptions())


def test_pattern_without_use_is_refused():
    """A pattern that would be ignored is a mistake."""
    with pytest.raises(ValueError, match="pattern 'x' is for the format regular-expression, not for 'csv'"):
        make_parser("csv", FormatOptions(pattern="x"))


def test_table_is_keyed_by_name():
    """Each format stands under its own name, with a summary, in lower case."""
    assert all(name == one.name and name == name.lower() and one.summary for name, one in FORMATS.items())
