"""What once broke a reader, or might, does not; what once took long is quick."""

from pathlib import Path

import pytest

from fuzz.formats_target import check
from fuzz.time_target import NAMES, check_search_time, check_time

CASES = sorted((Path(__file__).parent / "cases").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_case(case):
    """No reader raises on these bytes, and none returns what cannot be."""
    check(case.read_bytes())


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_time(case):
    """A reader's time grows as the line does, and is no more than a second for the longest one."""
    data = case.read_bytes()
    check_time(data, *NAMES)
    check_search_time(data)
