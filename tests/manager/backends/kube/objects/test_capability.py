"""What may be done to a job, by kind and object: one table."""

import msgspec
import pytest

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.capability import SINCE, capability
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, carry_over
from support.kube.job_objects import KINDS, job_object

ASKED = Options(queue="team-a", min_workers=1, max_workers=8)
ELASTIC_POLICY = {"minReplicas": 2, "maxReplicas": 6}
MASTER = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}}
_INDEXED = {"spec": {"completionMode": "Indexed", "completions": 1, "parallelism": 1}}
SEVERAL = {"replicatedJobs": [{"name": "a", "template": _INDEXED}, {"name": "b", "template": _INDEXED}]}
LOOSE = {"completionMode": "NonIndexed", "parallelism": 1, "completions": 1}


def owner(kind, **spec):
    """Return the owner; a TrainJob with what its JobSet says."""
    found = OWNER_RESOURCES[kind][1](job_object(kind, **spec))
    if kind != "TrainJob":
        return found
    return carry_over(found, OWNER_RESOURCES["JobSet"][1](job_object("JobSet", **spec)))


@pytest.mark.parametrize(
    ("kind", "spec", "resizing", "words"),
    [
        ("Job", {}, "live", ""),
        ("Job", LOOSE, "none", "not Indexed"),
        ("Job", {"parallelism": 2, "completions": 9}, "none", "runs 2 of its 9 pods at once"),
        ("Job", {"successPolicy": {"rules": [{"succeededCount": 1}]}}, "none", "successPolicy"),
        ("TFJob", {"enableDynamicWorker": True}, "live", ""),
        ("TFJob", {}, "restart", ""),
        ("TFJob", {"tfReplicaSpecs": {"Worker": {}, "Evaluator": {}}}, "none", "evaluators"),
        ("TFJob", {"tfReplicaSpecs": {"Chief": {}, "PS": {}}}, "none", "no replicas of the type Worker"),
        ("PyTorchJob", {"elasticPolicy": ELASTIC_POLICY}, "live", ""),
        ("PyTorchJob", {"elasticPolicy": ELASTIC_POLICY, **MASTER}, "restart", ""),
        ("PyTorchJob", {}, "restart", ""),
        ("MPIJob", {}, "restart", ""),
        ("MPIJob", {"runLauncherAsWorker": True}, "none", "runLauncherAsWorker"),
        ("JobSet", {}, "live", ""),
        ("JobSet", SEVERAL, "none", "makes 2 Jobs"),
        ("TrainJob", {}, "none", "numNodes"),
        ("LeaderWorkerSet", {}, "none", "neither held nor scaled"),
        ("StatefulSet", {}, "none", "cannot be suspended"),
    ],
)
def test_how_the_workers_of_each_kind_are_changed(kind, spec, resizing, words):
    """Live, by a restart, or not at all, and then it is said why."""
    found = capability(owner(kind, **spec), ASKED, (1, 31))
    assert found.resizing == resizing
    assert (words in found.unscalable) if words else found.unscalable == ""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_that_can_be_suspended_is_held_and_preempted_where_it_names_a_queue(kind):
    """And says since which version; of one without a queue the reason names the annotation."""
    found = capability(owner(kind), ASKED)
    can = kind in SINCE
    assert (found.suspends, found.unholdable == "", found.unpreemptible == "") == (can, can, can)
    assert bool(found.since) is can
    if can:
        alone = capability(owner(kind), Options(max_workers=8))
        assert "specon.io/queue" in alone.unholdable
        assert "specon.io/queue" in alone.unpreemptible


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ({"kueue": True}, "Kueue manages"),
        ({"volcano": "the scheduler of its pods is volcano"}, "Volcano manages"),
        ({"managed_by": "x.example/controller"}, "x.example/controller manages"),
        ({"controller": "Workflow w"}, "belongs to Workflow w"),
    ],
)
@pytest.mark.parametrize("kind", sorted(SINCE))
def test_what_somebody_else_manages_is_theirs(kind, theirs, words):
    """It is neither held, nor scaled, nor preempted, whatever its annotations ask for."""
    found = capability(msgspec.structs.replace(owner(kind), **theirs), ASKED)
    assert found.resizing == "none"
    assert all(words in why for why in (found.unscalable, found.unholdable, found.unpreemptible))


def test_a_job_that_kueue_lets_us_size_is_scaled_and_neither_held_nor_preempted():
    """What else manages it counts as before."""
    sized = msgspec.structs.replace(owner("Job"), kueue=True, kueue_fixed="")
    found = capability(sized, ASKED)
    assert (found.resizing, found.fewest, found.most) == ("live", 1, 8)
    assert all("Kueue manages" in why for why in (found.unholdable, found.unpreemptible))
    theirs = capability(msgspec.structs.replace(sized, managed_by="kueue.x-k8s.io/multikueue"), ASKED)
    assert (theirs.resizing, theirs.unscalable[:25]) == ("none", "kueue.x-k8s.io/multikueue")


def test_without_bounds_the_number_of_workers_is_left_alone():
    """The reason names the annotations; equal bounds say the same."""
    assert "specon.io/max-workers" in capability(owner("Job"), Options(queue="q")).unscalable
    assert "with 2 workers only" in capability(owner("Job"), Options(max_workers=2)).unscalable


@pytest.mark.parametrize(
    ("kind", "spec", "options", "bounds"),
    [
        ("Job", {}, Options(min_workers=1), (1, 2)),
        ("Job", {}, Options(max_workers=5), (2, 5)),
        ("PyTorchJob", {"elasticPolicy": ELASTIC_POLICY}, ASKED, (2, 6)),
        ("PyTorchJob", MASTER, Options(min_workers=1, max_workers=5), (1, 5)),
        ("Job", {"workers": 4}, Options(min_workers=1, max_workers=3), (1, 4)),
    ],
)
def test_bounds_are_those_of_the_annotations_within_those_of_the_object(kind, spec, options, bounds):
    """The number that its user asks for is always allowed."""
    found = capability(owner(kind, **spec), options)
    assert (found.fewest, found.most) == bounds


def test_elastic_jobs_need_a_server_that_has_them():
    """The version is named; one that is not known is taken to be supported."""
    assert "1.27" in capability(owner("Job"), ASKED, (1, 26)).unscalable
    assert capability(owner("Job"), ASKED, (0, 0)).resizing == "live"


def test_a_bare_pod_is_left_alone():
    """Nothing that could be suspended creates its pods."""
    found = capability(None, ASKED)
    assert (found.kind, found.suspends, found.resizing) == ("Pod", False, "none")
    assert found.unscalable
    assert found.unholdable
    assert found.unpreemptible


def test_a_gang_needs_pods_that_can_be_told_apart():
    """A Job of several pods without indexes is not held; one with a single pod is."""
    many = capability(owner("Job", completionMode="NonIndexed", parallelism=3), ASKED)
    assert "cannot be told apart" in many.unholdable
    assert capability(owner("Job", **LOOSE), ASKED).unholdable == ""
