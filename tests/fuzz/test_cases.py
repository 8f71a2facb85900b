"""What once broke a reader, or might, does not."""

from pathlib import Path

import pytest

from fuzz.formats_target import check

CASES = sorted((Path(__file__).parent / "cases").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_case(case):
    """No reader raises on these bytes, and none returns what cannot be."""
    check(case.read_bytes())
