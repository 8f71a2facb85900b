"""A mapping with changes laid over it is the mapping that a copy would be."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.overlay import Overlay, change_one, differing, flat, lacking

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
    """A thousand changes of a large mapping copy it now and then, never wrongly."""
    base = {f"key-{number}": 0 for number in range(1000)}
    mapping, copies = change_one(base, "key-0", 0), 0
    for number in range(1000):
        former = mapping.base
        mapping = change_one(mapping, f"key-{number}", number)
        copies += mapping.base is not former
    assert dict(mapping) == {f"key-{number}": number for number in range(1000)}
    assert 0 < copies < 10
    assert set(base.values()) == {0}


def test_a_small_mapping_stays_a_dictionary():
    """What is small is copied, so that it can be written as JSON as it is."""
    assert msgspec.json.encode(change_one({"a": 1}, "a", 2)) == b'{"a":2}'


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.integers())), st.lists(KEYS))
def test_what_is_taken_out_is_missing_and_nothing_else(base, changes, keys):
    """A mapping lacks the keys that it is to lack, in the order of the others, and is itself unchanged."""
    laid: Overlay[int] = Overlay(base, dict(changes))
    before = dict(laid)
    assert list(lacking(laid, keys).items()) == [item for item in before.items() if item[0] not in keys]
    assert dict(laid) == before


@given(
    st.dictionaries(KEYS, st.builds(object), min_size=1),
    st.lists(st.tuples(KEYS, st.builds(object)), max_size=5),
    st.lists(st.tuples(KEYS, st.builds(object)), max_size=5),
    st.booleans(),
)
def test_every_value_that_differs_is_named(base, first, second, plain):
    """Whatever two mappings are made of, a key whose value is another one is among those that differ."""
    before = {**base, **dict(first)} if plain else Overlay(base, dict(first))
    after = Overlay(before, dict(second)) if plain else Overlay(base, {**dict(first), **dict(second)})
    named = set(differing(before, after))
    assert named >= {key for key in after if after[key] is not before.get(key)}
    assert named <= set(after)


def test_of_a_large_mapping_with_one_change_one_key_differs():
    """What was changed is found without a look at everything else."""
    base = {f"key-{number}": object() for number in range(1000)}
    once = change_one(base, "key-7", object())
    twice = change_one(once, "key-8", object())
    assert list(differing(base, once)) == ["key-7"]
    assert list(differing(once, twice)) == ["key-8"]


def test_one_change_is_told_by_its_key_alone():
    """Only from the mapping it was made of; from any other all that may differ is told."""
    base = {str(number): number for number in range(1000)}
    first = change_one(base, "1", -1)
    second = change_one(first, "2", -2)
    third = change_one(second, "2000", 0)
    assert list(differing(first, second)) == ["2"]
    assert list(differing(second, third)) == ["2000"]
    assert set(differing(first, third)) == {"2", "2000"}
    assert (len(first), len(second), len(third), len(change_one(third, "2000", 1))) == (
        1000,
        1000,
        1001,
        1001,
    )
    assert list(differing(second, change_one(first, "3", 3))) == ["3"]


def test_each_of_many_changes_is_found_alone():
    """Also where the mapping was copied for a change, that one is found without a look at everything else."""
    mapping = change_one({f"key-{number}": object() for number in range(1000)}, "key-0", object())
    for number in range(2000):
        former, key = mapping, f"key-{number % 1000}"
        mapping = change_one(mapping, key, object())
        assert tuple(differing(former, mapping)) == (key,)
