"""A mapping with changes laid over it is the mapping that a copy would be."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.overlay import Overlay, changed, flat

KEYS = st.text("abcdef", min_size=1, max_size=3)


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.integers()), max_size=40))
def test_changes_are_those_of_a_copy(base, changes):
    """Whatever is changed in whatever order, contents and order are those of a dictionary."""
    original, expected = dict(base), dict(base)
    laid: Overlay[int] = Overlay(base, {})
    for key, value in changes:
        laid = laid.with_change(key, value)
        expected[key] = value
    assert list(laid.items()) == list(expected.items())
    assert len(laid) == len(expected)
    assert flat(laid) == laid == expected
    assert base == original


def test_a_large_mapping_is_not_copied_for_each_change():
    """A thousand changes of a large mapping make a dictionary now and then, never a wrong one."""
    base = {f"key-{number}": 0 for number in range(1000)}
    mapping, copies = base, 0
    for number in range(1000):
        mapping = changed(mapping, f"key-{number}", number)
        copies += isinstance(mapping, dict)
    assert dict(mapping) == {f"key-{number}": number for number in range(1000)}
    assert 0 < copies < 10
    assert set(base.values()) == {0}


def test_a_small_mapping_stays_a_dictionary():
    """What is small is copied, so that it can be written as JSON as it is."""
    assert msgspec.json.encode(changed({"a": 1}, "a", 2)) == b'{"a":2}'
