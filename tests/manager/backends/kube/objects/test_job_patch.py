"""What is read and written in the objects of jobs."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.job_patch import (
    SWITCHES,
    JobWish,
    is_suspended,
    job_patch,
    read_asked_workers,
    workers_of,
)
from support.kube.job_objects import KINDS, job_object

SUSPENDED_FOR, SCALED = "specon.io/suspended-for", "specon.io/scaled"
RESIZED = ("Job", "JobSet", "MPIJob", "PyTorchJob", "TFJob")


def merged(obj, patch):
    """Return the object after a merge patch (RFC 7396)."""
    result = copy.deepcopy(obj)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            old = result.get(key)
            result[key] = merged(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = value
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_the_workers_of_each_kind_are_counted(kind):
    """Neither a parameter server nor a launcher is one."""
    assert workers_of(kind, job_object(kind, 3)) == 3


def test_heads_count_as_workers():
    """They train."""
    types = {"Chief": {"replicas": 1}, "worker": {"replicas": 2}, "PS": {"replicas": 5}}
    assert workers_of("TFJob", {"spec": {"tfReplicaSpecs": types}}) == 3


@given(st.sampled_from(RESIZED), st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_one_patch_says_all_that_is_wished_and_nothing_else(kind, before, after, suspend):
    """It holds for the version that was read only; where the object says it already there is no patch."""
    obj = job_object(kind, before)
    wish = JobWish(suspended=suspend, workers=after, mark="change-1", scaled=f"{before}:{after}")
    patch = job_patch(kind, obj, wish)
    assert patch is not None
    assert patch.body["metadata"]["resourceVersion"] == "7"
    result = merged(obj, patch.body)
    assert (workers_of(kind, result), is_suspended(kind, result)) == (after, suspend)
    assert result["metadata"]["annotations"] == {SUSPENDED_FOR: "change-1", SCALED: f"{before}:{after}"}
    assert job_patch(kind, result, wish) is None
    back = job_patch(kind, result, JobWish(suspended=False, workers=before, mark=None, scaled=None))
    assert back is not None
    again = merged(result, back.body)
    assert again["metadata"]["annotations"] == {}
    assert (workers_of(kind, again), is_suspended(kind, again)) == (before, False)


@pytest.mark.parametrize("kind", sorted(SWITCHES))
def test_a_suspension_touches_nothing_but_the_switch_and_the_mark(kind):
    """Its number of workers is not named in the patch."""
    patch = job_patch(kind, job_object(kind), JobWish(suspended=True, mark="m-1"))
    assert patch is not None
    switch = 0 if kind == "LeaderWorkerSet" else True
    for part in reversed(SWITCHES[kind][1:]):
        switch = {part: switch}
    assert patch.body["spec"] == switch
    assert patch.form == "merge"


def test_the_elastic_policy_and_the_master_stay_their_users():
    """A PyTorchJob with a Master counts down only its other workers."""
    types = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
    obj = job_object("PyTorchJob", pytorchReplicaSpecs=types, elasticPolicy={"minReplicas": 1})
    patch = job_patch("PyTorchJob", obj, JobWish(workers=3))
    assert patch is not None
    assert patch.body["spec"] == {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}


@pytest.mark.parametrize(
    ("kind", "spec", "wish", "words"),
    [
        ("TrainJob", {}, JobWish(workers=3), "numNodes"),
        ("StatefulSet", {}, JobWish(workers=3), "not ours to change"),
        ("StatefulSet", {}, JobWish(suspended=True), "cannot be suspended"),
        ("LeaderWorkerSet", {"replicas": 2}, JobWish(suspended=True), "has 2 groups"),
        ("LeaderWorkerSet", {}, JobWish(workers=3), "not ours to change"),
        ("Job", {"completionMode": "NonIndexed"}, JobWish(workers=3), "not Indexed"),
        ("Job", {}, JobWish(workers=0), "workers: 0 is fewer than 1"),
        ("TFJob", {"tfReplicaSpecs": {"Chief": {}}}, JobWish(workers=3), "no replicas of the type Worker"),
        ("JobSet", {"replicatedJobs": []}, JobWish(workers=3), "more than one Job"),
    ],
)
def test_what_an_object_cannot_say_is_an_error_in_words(kind, spec, wish, words):
    """ValueError, before anything is sent."""
    with pytest.raises(ValueError, match=words):
        job_patch(kind, job_object(kind, **spec), wish)


def test_a_wish_that_cannot_be_does_not_cut_off_a_head():
    """At least what always stays."""
    types = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}, "Evaluator": {"replicas": 2}}
    with pytest.raises(ValueError, match="fewer than the 3 that always stay"):
        job_patch("PyTorchJob", job_object("PyTorchJob", pytorchReplicaSpecs=types), JobWish(workers=2))


@pytest.mark.parametrize(
    ("workers", "mark", "asked"),
    [(2, "4:2", 4), (3, "4:2", 3), (2, "", 2), (2, "four:2", 2), (2, "4", 2), (2, "4:2:1", 2), (2, "٤:2", 2)],
)
def test_what_its_user_asks_for_is_read_from_the_mark(workers, mark, asked):
    """As long as the object says what we wrote; a mark that cannot be read says nothing."""
    assert read_asked_workers(workers, mark) == asked


@given(st.integers(0, 10**5), st.text(max_size=12))
def test_no_mark_is_an_error(workers, mark):
    """Whatever somebody writes into it: a number comes out."""
    assert read_asked_workers(workers, mark) >= 0


@given(
    st.sampled_from(KINDS),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["replicas", "Worker", "tfReplicaSpecs", "replicatedJobs", "template", "spec"]
                ),
                inner,
                max_size=4,
            )
        ),
    ),
)
def test_nonsense_is_read_without_an_error(kind, spec):
    """A watch must not end over one object."""
    assert workers_of(kind, {"spec": spec}) >= 0
    suspended = is_suspended(kind, {"spec": spec})
    assert not suspended or (kind == "LeaderWorkerSet" and spec["replicas"] == 0)
