import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.annotation_keys import SIGNALS
from specon_manager.backends.kube.reporting.signals import (
    ANNOTATIONS,
    EVICTION_COST,
    POD_DELETION_COST,
    PRIORITY_BOOST,
    SignalWriter,
    changes,
    check_signals,
    wanted_annotations,
    wanted_boost,
)
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.resources import KUEUE_WORKLOADS
from specon_sidecar.classify import Category

ALL = frozenset(ANNOTATIONS)


def patched(annotations, changed):
    merged = {**annotations, **changed}
    return {key: value for key, value in merged.items() if value is not None}


def test_nothing_is_written_unless_it_is_switched_on():
    for category in Category:
        assert changes({}, wanted_annotations(category, frozenset())) == {}


def test_converged_pods_are_cheap_and_growing_ones_dear():
    names = frozenset({"eviction-cost", "pod-deletion-cost"})
    cheap, dear = (
        wanted_annotations(category, names) for category in (Category.CONVERGED, Category.PROGRESSING)
    )
    assert cheap == {POD_DELETION_COST: "-100", EVICTION_COST: "-100"}
    assert dear == {POD_DELETION_COST: "100", EVICTION_COST: "100"}


def test_a_workload_has_its_boost_or_none_and_a_near_one_stays():
    assert wanted_boost(-40, ALL, {}) == {PRIORITY_BOOST: "-40"}
    assert wanted_boost(None, ALL, {PRIORITY_BOOST: "-40"}) == {PRIORITY_BOOST: None}
    assert wanted_boost(-40, ALL, {PRIORITY_BOOST: "-50"}) == {PRIORITY_BOOST: "-50"}
    assert wanted_boost(-40, frozenset(), {}) == {PRIORITY_BOOST: None}


def test_every_value_is_an_int32_below_the_one_that_means_never():
    for category in Category:
        values = wanted_annotations(category, ALL).values()
        assert all(-(2**31) <= int(value) < 2**31 - 1 for value in values if value is not None)


def test_a_name_that_is_no_signal_is_refused():
    with pytest.raises(ValueError, match="'eviction-costs' is none of"):
        check_signals(["eviction-costs"])


def test_what_another_wrote_stays_also_over_ours():
    values = wanted_annotations(Category.CONVERGED, frozenset({"eviction-cost"}))
    assert changes({EVICTION_COST: "7"}, values) == {}
    ours = patched({}, changes({}, values))
    assert changes({**ours, EVICTION_COST: "7"}, values) == {SIGNALS: None}


def test_what_another_took_away_stays_away():
    values = wanted_annotations(Category.CONVERGED, frozenset({"eviction-cost"}))
    ours = patched({}, changes({}, values))
    del ours[EVICTION_COST]
    assert changes(ours, values) == {}


def test_a_signal_that_is_switched_off_is_taken_back():
    ours = patched({"other": "x"}, changes({}, wanted_annotations(Category.CONVERGED, ALL)))
    assert patched(ours, changes(ours, wanted_annotations(Category.CONVERGED, frozenset()))) == {"other": "x"}


@pytest.mark.parametrize("remembered", ["", "nonsense", "[]", '{"a": 1}'])
def test_a_memory_that_is_not_ours_is_none(remembered):
    values = wanted_annotations(Category.CONVERGED, frozenset({"eviction-cost"}))
    assert changes({SIGNALS: remembered}, values)[EVICTION_COST] == "-100"


annotation_values = st.sampled_from([None, "-100", "100", "7"])


@given(
    foreign=st.dictionaries(st.sampled_from([POD_DELETION_COST, EVICTION_COST, "x"]), st.just("5")),
    course=st.lists(
        st.tuples(st.sampled_from(list(Category)), st.sets(st.sampled_from(sorted(ALL)))), max_size=6
    ),
)
def test_a_foreign_annotation_never_changes_and_nothing_is_written_twice(foreign, course):
    annotations = dict(foreign)
    for category, names in course:
        values = wanted_annotations(category, frozenset(names))
        annotations = patched(annotations, changes(annotations, values))
        assert changes(annotations, values) == {}
        assert {key: annotations.get(key) for key in foreign} == foreign
    end = changes(annotations, wanted_annotations(Category.UNKNOWN, frozenset()))
    assert patched(annotations, end) == foreign


class Server:
    """One object, patched by merge with its resourceVersion as a lock."""

    def __init__(self, annotations=None):
        self.object = {
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "1", "annotations": annotations}
        }
        self.patches = 0
        self.meanwhile = False

    async def get(self, _resource, _name, _namespace):
        return copy.deepcopy(self.object)

    async def serves(self, resource):
        return resource is KUEUE_WORKLOADS

    async def list(self, resource, _namespace, *, label_selector):
        assert (resource, label_selector) == (KUEUE_WORKLOADS, "kueue.x-k8s.io/job-uid=j1")
        return [self.object], "1"

    async def patch(self, _resource, _name, _namespace, body, *, form):
        assert form == "merge"
        if self.meanwhile:
            raise ApiError(409, "Conflict", "somebody else")
        metadata = self.object["metadata"]
        assert body["metadata"]["resourceVersion"] == metadata["resourceVersion"]
        metadata["annotations"] = patched(metadata["annotations"] or {}, body["metadata"]["annotations"])
        self.patches += 1


async def test_a_pod_is_patched_when_its_category_changes_and_not_again():
    server = Server()
    writer = SignalWriter(server, ["eviction-cost"])
    assert await writer.write("p", "ns", Category.CONVERGED)
    assert not await writer.write("p", "ns", Category.CONVERGED)
    assert server.patches == 1
    assert server.object["metadata"]["annotations"][EVICTION_COST] == "-100"


async def test_an_object_that_somebody_else_changes_is_left():
    server = Server()
    server.meanwhile = True
    assert not await SignalWriter(server, ["eviction-cost"]).write("p", "ns", Category.CONVERGED)


async def test_the_workloads_of_a_job_are_found_by_its_uid():
    server = Server()
    writer = SignalWriter(server, ["priority-boost"])
    assert await writer.write_workloads("ns", "j1", -70) == 1
    assert server.object["metadata"]["annotations"][PRIORITY_BOOST] == "-70"
