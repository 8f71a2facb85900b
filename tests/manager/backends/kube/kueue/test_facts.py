"""What is read of Kueue's objects, as they should be and as anybody may write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.kueue.facts import (
    BOOST,
    cluster_queue_facts,
    local_queue_facts,
    workload_facts,
)

SLICE = "kueue.x-k8s.io/workload-slice"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    *("metadata", "spec", "status", "conditions", "preemptionGates", "admission", "podSetAssignments"),
    *(
        "flavors",
        "resourceUsage",
        "podSets",
        "resourceGroups",
        "preemption",
        "borrowWithinCohort",
        "priority",
    ),
    *("annotations", "labels", "ownerReferences", "resourceRequests", "coveredResources", "resources"),
]
OBJECTS = st.dictionaries(
    st.sampled_from(FIELDS),
    st.recursive(
        VALUES,
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    max_size=4,
)


@given(OBJECTS)
def test_nothing_that_anybody_writes_breaks_a_reader(found):
    """What is of another form counts as not said."""
    for read in (workload_facts, cluster_queue_facts, local_queue_facts):
        assert isinstance(read(found).uid, str)


@pytest.mark.parametrize(
    ("boost", "effective"),
    [("-100", 900), ("+5", 1005), ("5", 1005), ("", 1000), ("x", 1000), ("9" * 40, 1000), ("²", 1000)],
)
def test_the_boost_counts_as_kueue_counts_it(boost, effective):
    """A signed integer of 32 bits; for any other the priority stays."""
    found = {"metadata": {"annotations": {BOOST: boost}}, "spec": {"priority": 1000}}
    assert workload_facts(found).priority == effective


def test_a_slice_has_what_a_scale_in_left_of_it():
    """Its admission stays as it was; no Workload has more than it was admitted with."""
    given = {"name": "main", "count": 4, "flavors": {"cpu": "a"}, "resourceUsage": {"cpu": "8"}}
    status = {"admission": {"podSetAssignments": [given]}}
    marks = {"kueue.x-k8s.io/elastic-job": "true", f"{SLICE}-replacement-for": "ns/w"}
    found = {"metadata": {"annotations": marks}, "status": status}
    for pods, usage in ((4, 8.0), (3, 6.0), (0, 0.0), (5, 8.0), ("x", 2.0), (10**400, 8.0)):
        read = workload_facts({**found, "spec": {"podSets": [{"name": "main", "count": pods}]}})
        assert (read.usage, read.peculiar) == ({("a", "cpu"): usage}, "")
        assert (read.elastic, read.replaces) == (True, "ns/w")


def test_requests_are_those_that_kueue_has_worked_out_else_those_of_the_pods():
    """Each pod of a set asks for its template's."""
    container = {"resources": {"requests": {"cpu": "500m"}}}
    pods = {"podSets": [{"count": 4, "template": {"spec": {"containers": [container]}}}]}
    assert workload_facts({"spec": pods}).requests == {"cpu": 2.0}
    told = {"resourceRequests": [{"resources": {"cpu": "3"}}]}
    assert workload_facts({"spec": pods, "status": told}).requests == {"cpu": 3.0}
