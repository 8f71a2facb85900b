"""Whether the number of workers of an elastic Job of Kueue may change, and how far it may grow: a table."""

import msgspec
import pytest

from specon_manager.backends.kube.kueue.lines import lines
from specon_manager.backends.kube.kueue.slices import current_slice, fixed_because, growth
from specon_manager.backends.kube.objects.owner import OwnerInfo
from support.kube.kueue_objects import queue, running, waiting

JOB = OwnerInfo(kind="Job", namespace="training", name="train", uid="job-1", kueue=True, slices=True)
TEAM = queue("team", **{"default/cpu": 10})
LOCAL = {("training", "local"): "team", ("training", "beside"): "beside"}


def admitted(pods=2, cpu=4, **changed):
    """Return the slice of a job that runs in the ClusterQueue team, with two processors for each pod."""
    found = running("train", "team", 0, job="job-1", **{"default/cpu": cpu})
    return msgspec.structs.replace(
        found, **{"admitted": True, "elastic": True, "pods": pods, "local_queue": "local", **changed}
    )


def second(cpu=6, **changed):
    """Return the slice that is to replace it."""
    found = msgspec.structs.replace(waiting("larger", cpu=cpu), jobs=frozenset({"job-1"}))
    return msgspec.structs.replace(found, elastic=True, pods=3, replaces="training/train", **changed)


def grows(*slices, beside=(), team=TEAM, queues=(), stopped=False):
    """Return by how many workers the job may grow, and why by no more."""
    known = {each.name: each for each in (team, *queues)}
    found = lines([*slices, *beside], known, LOCAL)
    name = f"cohort {team.cohort}" if team.cohort else "ClusterQueue team"
    return growth(slices, team, found.get(name), stopped=stopped)


def test_a_job_grows_by_what_is_free_of_the_quota_of_its_own_queue():
    """Of that which has least; what it asks for and is not counted bounds nothing."""
    only = "ClusterQueue team has free quota for {} (cpu of the flavor default)"
    none = "ClusterQueue team has no free quota for one more worker (cpu of the flavor default)"
    assert grows(admitted()) == (3, only.format("3 more workers"))
    assert grows(admitted(), beside=[running("other", "team", 0, **{"default/cpu": 3})]) == (
        1,
        only.format("1 more worker"),
    )
    assert grows(admitted(), beside=[running("other", "team", 0, **{"default/cpu": 5})]) == (0, none)
    assert grows(admitted(pods=1, cpu=2)) == (4, only.format("4 more workers"))  # scaled in a moment ago
    assert grows(admitted(usage={})) == (None, "")
    assert grows(admitted(usage={("default", "cpu"): 1e-320}))[0] == 10**6


def test_a_job_that_was_admitted_a_moment_ago_counts_itself():
    """What is free was reckoned before that: it is not offered the quota that it has."""
    before = lines([], {"team": TEAM}, LOCAL)["ClusterQueue team"]
    assert growth([admitted()], TEAM, before, stopped=False)[0] == 3


def test_nothing_grows_on_borrowed_quota_or_on_what_others_of_the_cohort_use():
    """Neither beyond its own, nor into what is lent."""
    team, beside = (queue(name, cohort="all", **{"default/cpu": 6}) for name in ("team", "beside"))
    lent = running("other", "beside", 0, **{"default/cpu": 8})
    assert grows(admitted(), team=team, queues=[beside])[0] == 1
    assert grows(admitted(), team=team, queues=[beside], beside=[lent])[0] == 0
    assert grows(admitted(cpu=8, pods=4), team=team, queues=[beside])[0] == 0


def test_it_grows_in_the_flavor_that_it_has():
    """Kueue keeps that for its next slice."""
    team = queue("team", **{"default/cpu": 6, "spot/cpu": 100})
    assert grows(admitted(), team=team)[0] == 1


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"stopped": True}, "its LocalQueue is stopped"),
        ({"team": msgspec.structs.replace(TEAM, stopped=True)}, "ClusterQueue team is stopped"),
        ({"beside": [waiting("w", cpu=9)]}, "another Workload waits for cpu in ClusterQueue team"),
    ],
)
def test_what_its_queue_forbids(about, words):
    """Kueue would serve the slice later, or somebody else for it."""
    assert grows(admitted(), **about) == (0, words)


def test_one_that_is_about_to_be_admitted_has_taken_its_quota():
    """Though Kueue has not said so yet."""
    assert grows(admitted(), beside=[waiting("w", cpu=3)])[0] == 1


def test_nothing_grows_while_a_slice_waits():
    """And the slice itself waits for no more than the difference."""
    words = "a slice of its Workload waits for quota"
    assert grows(admitted(), second()) == grows(second()) == (0, words)
    found = lines(
        [admitted(), second(), running("other", "team", 0, **{"default/cpu": 4})], {"team": TEAM}, LOCAL
    )
    assert not found["ClusterQueue team"].wanted
    found = lines(
        [admitted(), second(), running("other", "team", 0, **{"default/cpu": 5})], {"team": TEAM}, LOCAL
    )
    assert found["ClusterQueue team"].wanted == {"cpu"}


def test_a_slice_waits_for_the_flavor_of_the_former_one():
    """However much there is of others."""
    team = queue("team", **{"spot/cpu": 100, "default/cpu": 4})
    found = lines([admitted(), second()], {"team": team}, LOCAL)
    assert found["ClusterQueue team"].wanted == {"cpu"}


def test_a_slice_that_is_replaced_has_nothing_more():
    """Kueue finishes it a moment after it has admitted the other."""
    new = admitted(3, 6, uid="new", name="larger", replaces="training/train", created_at=2e6)
    found = lines([admitted(), new], {"team": TEAM}, LOCAL)
    assert found["ClusterQueue team"].free == {"team": {("default", "cpu"): 4.0}}
    assert current_slice([admitted(), new]) == current_slice([new, admitted()]) == new


@pytest.mark.parametrize("changed", [{"admitted": False}, {"evicted": True}, {"active": False}])
def test_nothing_grows_that_is_not_admitted(changed):
    """It may be sized all the same: else nobody could write its former number again."""
    slices = [admitted(**changed)]
    assert grows(*slices) == (0, "its Workload is not admitted at this moment")
    assert fixed_because(JOB, slices, covered=True) == ""


@pytest.mark.parametrize(
    ("slices", "about", "words"),
    [
        ([admitted()], {}, ""),
        ([admitted(), second()], {}, ""),
        ([admitted()], {"covered": False}, "ClusterQueue team are not sized (kueue.moves.clusterQueues)"),
        ([admitted(elastic=False)], {}, "feature gate ElasticJobsViaWorkloadSlices"),
        ([admitted(), second(peculiar="it is odd")], {}, "it is odd"),
        (
            [admitted()],
            {"owner": msgspec.structs.replace(JOB, kind="JobSet")},
            "it sizes no JobSet by slices",
        ),
    ],
)
def test_whose_number_of_workers_is_left_alone(slices, about, words):
    """In words that follow who manages it."""
    said = fixed_because(about.get("owner", JOB), slices, covered=about.get("covered", True))
    assert words in said
    assert bool(said) is bool(words)
