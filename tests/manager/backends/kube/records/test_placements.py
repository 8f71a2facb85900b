"""Replicas and their nodes in few characters, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.records.placements import (
    pack_names,
    pack_placement,
    unpack_names,
    unpack_placement,
)

NAMES = st.builds(
    "default/bert/{}/{}".format,
    st.sampled_from(["ps", "worker"]),
    st.integers(min_value=0, max_value=999_999),
)


def test_replicas_that_follow_each_other_are_a_range():
    """By role and index, whatever their order."""
    names = [f"default/bert/worker/{index}" for index in (3, 0, 1, 2, 9)] + ["default/bert/ps/0"]
    assert pack_names(names) == "ps/0 worker/0-3 worker/9"


@given(st.sets(NAMES, max_size=60))
def test_packed_replicas_come_back(names):
    """Each of them, and no other."""
    assert set(unpack_names("default/bert", pack_names(names))) == names


@given(st.dictionaries(NAMES, st.sampled_from(["node-0", "node-1", ""]), max_size=60))
def test_a_packed_placement_comes_back(placement):
    """With the replicas that may run anywhere."""
    assert unpack_placement("default/bert", pack_placement(placement)) == placement


@pytest.mark.parametrize(
    "text", ["worker", "worker/x", "worker/3-1", "chief/0", "worker/0-999999", "worker/00", "worker/0-3-4"]
)
def test_what_is_no_replica_is_refused(text):
    """Also more replicas than any job has: nobody can have us make a million names."""
    with pytest.raises(ValueError, match=r"worker|chief|100000"):
        unpack_names("default/bert", text)


def test_a_replica_in_two_places_is_refused():
    """Nothing can run twice."""
    with pytest.raises(ValueError, match="worker/1 is placed twice, on 'a' and 'b'"):
        unpack_placement("default/bert", {"a": "worker/0-1", "b": "worker/1-2"})
