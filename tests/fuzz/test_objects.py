"""No object ends a task of the manager, and no review of one takes long."""

import json
from pathlib import Path

import pytest

from fuzz.fuzz_objects import objects
from fuzz.object_seeds import SEEDS
from fuzz.objects_target import check

CASES = sorted((Path(__file__).parent / "object_cases").glob("*.json"))
SEEDS_OF_RUNS = range(8)
OBJECTS = 250


@pytest.mark.parametrize("what", SEEDS)
def test_what_everybody_writes_is_read(what):
    """A fuzzer that began with what nobody can read would find nothing."""
    assert all(check(what, item) for item in SEEDS[what])


@pytest.mark.parametrize("seed", SEEDS_OF_RUNS)
def test_mutated_objects_break_nothing(seed):
    """Some thousands of them, the same ones each time; `make fuzz-objects` makes a million others."""
    read = [check(what, item) for what, item in objects(OBJECTS, seed)]
    assert sum(read) > OBJECTS / 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_found_once_breaks_nothing(case):
    """As it was written down."""
    found = json.loads(case.read_text())
    check(found["what"], found["item"])
