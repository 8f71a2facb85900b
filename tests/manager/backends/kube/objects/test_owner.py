"""What is kept of the objects of jobs."""

import pytest

from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, carry_over
from specon_manager.model.resources import Resources
from support.kube.job_objects import KINDS, job_object
from support.kube.stage import template

TRAINERS = sorted({*KINDS} - {"StatefulSet", "TrainJob"})


def slim(kind, *given, **spec):
    return OWNER_RESOURCES[kind][1](job_object(kind, *given, **spec))


@pytest.mark.parametrize("kind", TRAINERS)
def test_a_job_is_described_by_its_template(kind):
    """Number, queue, annotations and requests are known before there is any pod."""
    owner = slim(kind, 3)
    assert (owner.workers, owner.asked, owner.options.queue) == (3, 3, "team-a")
    assert owner.options.max_workers == 8
    assert owner.worker_requests == Resources(cpu=1, memory=2**30)
    beside = kind in {"TFJob", "MPIJob"}
    assert (owner.ps, owner.ps_requests is not None) == (int(beside), beside)
    assert owner.job_name == ("a/train-node-0" if kind == "JobSet" else "a/train")


@pytest.mark.parametrize("kind", TRAINERS)
def test_the_names_of_its_replicas_are_those_that_its_pods_will_have(kind):
    """Also those of workers that are not there yet; the first ones stay the same."""
    owner = slim(kind, 2)
    assert sorted(owner.named(2)) == sorted(owner.replicas)
    assert set(owner.named(2)) < set(owner.named(5))
    assert sum(role == "worker" for role, _ in owner.named(5)) == 5


def test_a_head_is_the_first_worker():
    """The Master of a PyTorchJob is worker 0; without a Master the numbers still begin at 1."""
    types = {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}
    with_head = slim("PyTorchJob", pytorchReplicaSpecs=types)
    assert (with_head.workers, with_head.heads) == (3, 1)
    assert with_head.named(3) == (("worker", 0), ("worker", 1), ("worker", 2))
    assert slim("PyTorchJob", 2).named(2) == (("worker", 1), ("worker", 2))


def test_what_we_changed_does_not_hide_what_its_user_asks_for():
    """The mark says it, as long as nobody changed the number since."""
    obj = job_object("Job", 2)
    obj["metadata"]["annotations"] = {"specon.io/scaled": "4:2", "specon.io/suspended-for": "held-change-1"}
    owner = OWNER_RESOURCES["Job"][1](obj)
    assert (owner.workers, owner.asked, owner.suspended_for) == (2, 4, "held-change-1")


def test_the_facts_of_each_kind_are_taken_from_the_object():
    """Elastic bounds, dynamic workers, success policy, launcher."""
    assert slim("PyTorchJob", 3, elasticPolicy={"minReplicas": 2}).elastic == (2, 3)
    assert slim("PyTorchJob", 3).elastic is None
    assert slim("TFJob", enableDynamicWorker=True).dynamic
    assert slim("Job", successPolicy={"rules": [{}]}).success_policy
    assert slim("MPIJob", runLauncherAsWorker=True).launcher_works


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        (template(schedulerName="volcano"), "scheduler of its pods is volcano"),
        (template({"scheduling.k8s.io/group-name": "pg-1"}), "group pg-1"),
        (template(), ""),
    ],
)
def test_volcano_is_known_by_scheduler_or_group(pods, words):
    """Then its pods are not ours to hold."""
    found = slim("Job", pods=pods).volcano
    assert (words in found) if words else found == ""


def test_a_train_job_has_the_pods_of_its_job_set():
    """The switch and the marks are its own."""
    obj = job_object("TrainJob", suspend=True)
    obj["metadata"]["annotations"] = {"specon.io/suspended-for": "change-1"}
    whole = carry_over(OWNER_RESOURCES["TrainJob"][1](obj), slim("JobSet", 3))
    assert (whole.kind, whole.uid, whole.suspended, whole.suspended_for) == (
        "TrainJob",
        "TrainJob-uid",
        True,
        "change-1",
    )
    assert (whole.job_name, whole.workers, whole.options.queue) == ("a/train-node-0", 3, "team-a")


@pytest.mark.parametrize("kind", KINDS)
def test_nonsense_is_slimmed_without_an_error(kind):
    """A watch must not end over one object."""
    for spec in (
        None,
        [],
        {"template": 1, "replicas": "many", "replicatedJobs": [1], "tfReplicaSpecs": {"PS": 3}},
    ):
        assert OWNER_RESOURCES[kind][1]({"spec": spec, "metadata": {"annotations": 7}}).kind == kind
