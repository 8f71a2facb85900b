"""The documentation of the formats."""

from pathlib import Path

from specon_sidecar.formats.safe_pattern import LENGTHS, LONGEST_PATTERN
from specon_sidecar.formats.table import FORMATS

PAGE = Path(__file__).parents[3] / "docs" / "logs-and-checkpoints.md"


def test_each_format_is_in_the_table():
    """By the name that it is asked for by; `tests/docs` compares what stands beside it."""
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in FORMATS)


def test_lengths_are_those_of_the_code():
    """The lengths of lines that patterns may search are told as they are."""
    page = PAGE.read_text(encoding="utf-8")
    assert f"{LENGTHS[0]:,} bytes" in page
    assert f"at most {LONGEST_PATTERN:,} characters" in page
    assert all(one.writers and one.summary for one in FORMATS.values())
