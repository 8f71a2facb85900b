"""Which jobs of Kueue may be moved by their Workloads, and why others are left alone: a table."""

import msgspec
import pytest

from specon_manager.backends.kube.kueue.facts import workload_facts
from specon_manager.backends.kube.kueue.lines import Cohort, lines
from specon_manager.backends.kube.kueue.peculiarity import peculiarity
from specon_manager.backends.kube.kueue.standing import (
    ELASTIC,
    KueueMoveSettings,
    apply_workload,
    objection,
)
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.ways import owner_immovable_because, suspends
from support.kube.kueue_objects import queue, running, waiting

JOB = OwnerInfo(kind="Job", namespace="training", name="train", uid="job-1", kueue=True)
TEAM = queue("team", **{"default/cpu": 10})
LOCAL = {("training", "local"): "team", ("training", "beside"): "beside"}


def admitted(**changed):
    """Return a Workload that runs in the ClusterQueue team."""
    found = running("train", "team", 0, job="job-1", **{"default/cpu": 4})
    return msgspec.structs.replace(found, **{"admitted": True, **changed})


def said(workload, *others, owner=JOB, team=TEAM, queues=(), covered=True, stopped=False):
    """Return what is said against a move of the job."""
    known = {each.name: each for each in (team, *queues)}
    found = lines([workload, *others], known, LOCAL)
    name = f"cohort {team.cohort}" if team.cohort else "ClusterQueue team"
    return objection(workload, owner, team, found.get(name), covered=covered, stopped=stopped)


def test_an_admitted_job_of_a_queue_that_is_opted_in_may_be_moved():
    """Nobody waits, and it would get the same again."""
    assert said(admitted()) == ""
    assert said(admitted(), running("other", "team", 0, **{"default/cpu": 6})) == ""


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"covered": False}, "the jobs of ClusterQueue team are not moved (kueue.moves.clusterQueues)"),
        ({"stopped": True}, "its LocalQueue is stopped, and would not admit it again"),
        (
            {"team": msgspec.structs.replace(TEAM, stopped=True)},
            "ClusterQueue team is stopped, and would not admit it again",
        ),
        ({"owner": msgspec.structs.replace(JOB, slices=True)}, ELASTIC),
        (
            {"team": queue("team", **{"spot/cpu": 10, "default/cpu": 10})},
            "Kueue may give it the flavor spot instead of default at its next admission",
        ),
        (
            {"team": queue("team", **{"default/cpu": 3})},
            "ClusterQueue team uses more cpu of the flavor default than it has: it might not come back",
        ),
    ],
)
def test_what_its_queue_forbids(about, words):
    """Each in words that name what stands against it."""
    assert said(admitted(), **about) == words


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"active": False}, "its Workload is inactive, and not by a move"),
        ({"admitted": False}, "its Workload is not admitted at this moment"),
        ({"evicted": True}, "its Workload is not admitted at this moment"),
        ({"peculiar": "it is odd"}, "it is odd"),
        ({"elastic": True}, ELASTIC),
        ({"active": False, "mark": "training/m-1", "admitted": False}, ""),
    ],
)
def test_what_its_workload_forbids(changed, words):
    """What we have deactivated is in our hands, and nothing new is said of it."""
    assert said(admitted(**changed)) == words


def test_whoever_waits_for_the_same_resource_comes_first():
    """In the same ClusterQueue or cohort, however much he asks for; not one who waits for something else."""
    words = "another Workload waits for cpu in {}, and would get the quota that a move gives back"
    assert said(admitted(), waiting("w", cpu=100)) == words.format("ClusterQueue team")
    assert said(admitted(), waiting("w", cpu=6.5)) == words.format("ClusterQueue team")
    elsewhere = msgspec.structs.replace(waiting("w", cpu=2), local_queue="beside")
    assert said(admitted(), elsewhere, queues=[queue("beside", **{"default/cpu": 1})]) == ""
    cohort = queue("team", cohort="all", **{"default/cpu": 10})
    beside = queue("beside", cohort="all", **{"default/cpu": 1})
    assert said(admitted(), elsewhere, team=cohort, queues=[beside]) == words.format("cohort all")


def test_whoever_fits_into_what_is_free_waits_for_nothing():
    """Kueue is about to admit him, and a job that a move lets come back is one of those."""
    assert said(admitted(), waiting("w", cpu=6)) == ""
    assert said(admitted(), waiting("w", memory=1)) == ""
    both = waiting("v", cpu=4), waiting("w", cpu=4, created=1)
    assert "another Workload waits for cpu" in said(admitted(), *both)
    second = queue("team", **{"default/cpu": 5, "spot/cpu": 6})
    assert said(admitted(), waiting("w", cpu=6), team=second) == ""
    assert "waits for cpu" in said(admitted(), waiting("w", cpu=7), team=second)


def test_moves_for_nobody_are_no_setting():
    """An administrator who switches them on says for whom."""
    with pytest.raises(ValueError, match="cluster_queues: names no ClusterQueue"):
        KueueMoveSettings(enabled=True)


def test_what_a_move_keeps_away_or_a_user_has_stopped_waits_for_nothing():
    """Two jobs of one queue may move at the same time: each comes back to what it gave."""
    away = admitted(name="a", uid="a", active=False, mark="training/m-1", usage={}, reserved_at=None)
    assert said(admitted(), away) == ""
    inactive = msgspec.structs.replace(waiting("w", cpu=1), active=False)
    assert said(admitted(), inactive) == ""


def test_a_cohort_shares_what_it_has():
    """More than its own quota is no more than there is, where others leave it."""
    team = queue("team", cohort="all", **{"default/cpu": 3})
    beside = queue("beside", cohort="all", **{"default/cpu": 5})
    cpu = "default", "cpu"
    (line,) = lines([admitted()], {"team": team, "beside": beside}, LOCAL).values()
    assert line == Cohort(free={"team": {cpu: 0.0}, "beside": {cpu: 4.0}})
    (line,) = lines([admitted()], {"team": team}, LOCAL).values()
    assert line == Cohort(exceeded=frozenset({cpu}), free={"team": {cpu: 0.0}})


def test_the_owner_is_told_with_what_its_workload_says():
    """By it he is suspended, whatever else his object could do."""
    told = apply_workload(JOB, admitted(name="job-train", uid="w-1"), "")
    assert (told.workload, told.workload_uid, told.suspended, told.queued) == (
        "job-train",
        "w-1",
        False,
        False,
    )
    assert (owner_immovable_because(told), suspends(told)) == ("", True)
    away = apply_workload(JOB, admitted(active=False, mark="training/m-1"), "")
    assert (away.suspended, away.suspended_for) == (True, "training/m-1")
    against = apply_workload(JOB, admitted(), "it is odd")
    assert owner_immovable_because(against) == "Kueue manages Job train: it is odd"
    assert apply_workload(JOB, admitted(reserved_at=None), "").queued


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "it decides when and where its pods run"),
        ({"kueue_against": "", "kind": "StatefulSet"}, "a StatefulSet is not suspended by Kueue"),
        (
            {"kueue_against": "", "at_once": 3, "workers": 3, "indexed": True},
            "it suspends all of its 3 pods, though each trains by itself",
        ),
    ],
)
def test_what_its_kind_forbids(changed, words):
    """And where no Workload is followed, Kueue's jobs are left to it as ever."""
    owner = msgspec.structs.replace(JOB, **changed)
    assert owner_immovable_because(owner) == f"Kueue manages {owner}: {words}"


def test_who_else_manages_it_counts_as_before():
    """A Workload that could be deactivated says nothing of MultiKueue, or of who made the job."""
    told = apply_workload(
        msgspec.structs.replace(JOB, managed_by="kueue.x-k8s.io/multikueue"), admitted(), ""
    )
    assert owner_immovable_because(told) == "kueue.x-k8s.io/multikueue manages Job train"
    made = apply_workload(msgspec.structs.replace(JOB, controller="JobSet big"), admitted(), "")
    assert "belongs to JobSet big" in owner_immovable_because(made)
    gang = msgspec.structs.replace(
        JOB, at_once=3, workers=3, indexed=True, options=Options(replicas="coupled")
    )
    assert owner_immovable_because(apply_workload(gang, admitted(), "")) == ""


def found(metadata=None, spec=None, **status):
    return {"metadata": metadata or {}, "spec": spec or {}, "status": status}


def given(**assignment):
    return {"podSetAssignments": [{"name": "main", **assignment}]}


PECULIAR = {
    "nothing": (found(admission=given(count=4), spec={"podSets": [{"name": "main", "count": 4}]}), ""),
    "how its pods are counted, which Kueue says of each Job": (
        found(
            spec={
                "podSets": [
                    {
                        "name": "main",
                        "topologyRequest": {
                            "podIndexLabel": "batch.kubernetes.io/job-completion-index",
                            "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
                            "subGroupCount": 1,
                        },
                    }
                ]
            }
        ),
        "",
    ),
    "a slice that was asked for": (
        found(spec={"podSets": [{"name": "main", "topologyRequest": {"podSetSliceSize": 2}}]}),
        "its topology-aware scheduling would choose other nodes at the next admission",
    ),
    "MultiKueue, where it runs": (
        found({"labels": {"kueue.x-k8s.io/multikueue-origin": "m"}}),
        "MultiKueue says in which cluster it runs",
    ),
    "MultiKueue, where it was submitted": (
        found(clusterName="west"),
        "MultiKueue says in which cluster it runs",
    ),
    "ConcurrentAdmission": (
        found({"labels": {"kueue.x-k8s.io/concurrent-admission-parent": "w"}}),
        "it has a Workload for each of several flavors (ConcurrentAdmission)",
    ),
    "a topology that was assigned": (
        found(admission=given(topologyAssignment={"levels": ["kubernetes.io/hostname"]})),
        "its topology-aware scheduling would choose other nodes at the next admission",
    ),
    "a topology that was asked for": (
        found(spec={"podSets": [{"name": "main", "topologyRequest": {"required": "rack"}}]}),
        "its topology-aware scheduling would choose other nodes at the next admission",
    ),
    "partial admission": (
        found(spec={"podSets": [{"name": "main", "count": 4, "minCount": 2}]}),
        "it may be admitted again with fewer pods (partial admission)",
    ),
    "fewer than asked for": (
        found(spec={"podSets": [{"name": "main", "count": 4}]}, admission=given(count=2)),
        "it may be admitted again with fewer pods (partial admission)",
    ),
    "admission checks": (
        found(admissionChecks=[{"name": "a", "state": "Ready"}, {"name": "b", "state": "Ready"}]),
        "its admission checks would be asked again: a, b",
    ),
}


@pytest.mark.parametrize("name", PECULIAR)
def test_what_is_peculiar_about_a_workload(name):
    """Its next admission may be another one."""
    obj, words = PECULIAR[name]
    assert peculiarity(obj) == workload_facts(obj).peculiar == words
