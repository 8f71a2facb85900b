"""A JobSet of several Jobs is one gang, unless something stands against it."""

import pytest

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.capability import capability
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.objects.job_set import index_in_set
from specon_manager.backends.kube.objects.owner import carry_over, slim_job_set, slim_train_job
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.objects.ways import immovable_because, owner_immovable_because, suspends
from specon_manager.backends.kube.watching.translate import spec_of, spec_of_owner
from specon_manager.model.resources import Resources
from support.kube.job_objects import QUEUED, job_object, job_set_of_several
from support.kube.stage import template

INDEPENDENT = {"specon.io/replicas": "independent"}


def pod_of(job, index, *, labels=None, annotations=None):
    """Return a pod of the Job with this index in the JobSet `train`, as its controllers write it."""
    told = {"jobset.sigs.k8s.io/global-replicas": "2", "jobset.sigs.k8s.io/job-global-index": str(job)}
    pod = template({"batch.kubernetes.io/job-completion-index": str(index), **(annotations or {})})
    pod["metadata"] |= {
        "namespace": "a",
        "name": f"train-part-{job}-0-{index}-abcde",
        "labels": {
            "specon.io/sidecar": "injected",
            "jobset.sigs.k8s.io/jobset-name": "train",
            "jobset.sigs.k8s.io/jobset-uid": "JobSet-uid",
            **(told if labels is None else labels),
        },
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-part-{job}-0", "controller": True}
        ],
    }
    return pod


def test_the_names_of_its_replicas_are_those_that_its_pods_have():
    """In the order of the Jobs, each with a thousand numbers of its own."""
    owner = slim_job_set(job_set_of_several(template(), 2, 1))
    named = [f"{owner.job_name}/{role}/{index}" for role, index in owner.replicas]
    found = [identity_of(pod_of(*each)) for each in ((0, 0), (0, 1), (1, 0))]
    assert named == [each.replica for each in found]
    assert named == ["a/train/worker/0", "a/train/worker/1", "a/train/worker/1000"]
    assert {(each.owner_kind, each.owner_name, each.owner_uid) for each in found} == {
        ("JobSet", "train", "JobSet-uid")
    }


def test_a_replicated_job_counts_as_often_as_it_is_replicated():
    """As the controller of JobSets counts: first all of the first one."""
    obj = job_set_of_several(template(), 1, 2)
    obj["spec"]["replicatedJobs"][0]["replicas"] = 2
    owner = slim_job_set(obj)
    assert (owner.jobs, owner.workers, owner.at_once) == (3, 4, 4)
    assert [index for _, index in owner.replicas] == [0, 1000, 2000, 2001]


@pytest.mark.parametrize(
    ("sizes", "numbers"), [((0, 2), []), ((1, 2), [0, 1000, 2000]), ((2, 1), [0, 1, 1000, 1001])]
)
def test_jobs_beyond_a_million_are_not_counted_nor_gone_through(sizes, numbers):
    """Anybody may write an object that says two billions, also of Jobs without pods."""
    obj = job_set_of_several(template(), *sizes)
    obj["spec"]["replicatedJobs"][0]["replicas"] = 2**31 - 1
    indices = [index for _, index in slim_job_set(obj).replicas]
    assert indices[: len(numbers)] == numbers
    assert len(indices) == (10_000 if numbers else 0)
    assert (index_in_set(999_999, 999), index_in_set(1_000_000, 0)) == (999_999_999, None)


def test_jobs_without_pods_have_their_numbers():
    obj = job_set_of_several(template(), 0, 2)
    obj["spec"]["replicatedJobs"][0]["replicas"] = 3
    assert [index for _, index in slim_job_set(obj).replicas] == [3000, 3001]


def test_all_of_it_is_suspended_for_a_move_and_held_in_a_queue():
    owner = slim_job_set(job_set_of_several(template(QUEUED), 2, 2))
    assert (owner_immovable_because(owner), suspends(owner), owner.coupling().coupled) == ("", True, True)
    found = capability(owner, Options(queue="team-a"))
    assert (found.unholdable, found.unpreemptible, found.resizing) == ("", "", "none")
    elastic = capability(owner, Options(queue="team-a", max_workers=8))
    assert "makes 2 Jobs" in elastic.unscalable


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dependsOn": [{"name": "part-0", "status": "Complete"}]}, "wait for others (dependsOn)"),
        ({"exclusive": True}, "nodes of its own"),
        ({"nodeSelector": {"pool": "b"}}, "may not run on the same nodes"),
        ({"annotations": {"specon.io/savers": "all"}}, "have different annotations"),
        ({"completions": 1001}, "more than 1000 pods"),
        ({"completionMode": "NonIndexed"}, "not Indexed"),
    ],
)
def test_what_stands_against_it_is_said(change, words):
    """Then the manager neither moves nor holds it."""
    obj = job_set_of_several(template(), 2, 2)
    last = obj["spec"]["replicatedJobs"][-1]
    job = last["template"]["spec"]
    pods = job["template"]
    match next(iter(change.items())):
        case "dependsOn", value:
            last["dependsOn"] = value
        case "exclusive", _:
            obj["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
        case "annotations", value:
            pods["metadata"]["annotations"] = {**(pods["metadata"].get("annotations") or {}), **value}
        case "nodeSelector", value:
            pods["spec"]["nodeSelector"] = value
        case key, value:
            job[key] = value
    owner = slim_job_set(obj)
    assert words in owner_immovable_because(owner)
    assert words in capability(owner, Options(queue="team-a")).unholdable


def unlike(*cpus, sizes=(1, 2), times=1):
    """Return the JobSet whose Jobs request so many processors, the first of them made so many times."""
    obj = job_set_of_several(template(), *sizes)
    obj["spec"]["replicatedJobs"][0]["replicas"] = times
    for listed, cpu in zip(obj["spec"]["replicatedJobs"], cpus, strict=True):
        pod = listed["template"]["spec"]["template"]["spec"]
        pod["containers"][0]["resources"] = {"requests": {"cpu": str(cpu), "memory": f"{9 - cpu}G"}}
    return obj


def test_jobs_that_request_different_amounts_are_one_gang_each_with_its_own():
    """The amount of the job is the largest of each kind."""
    owner = slim_job_set(unlike(8, 1))
    assert (owner_immovable_because(owner), owner.apart) == ("", "")
    assert capability(owner, Options(queue="team-a")).unholdable == ""
    spec = spec_of_owner(owner)
    assert spec.requests == Resources(cpu=8, memory=8e9)
    assert [spec.requests_of(name).cpu for name in spec.replicas] == [8, 1, 1]
    assert spec.of_each[0] == Resources(cpu=8, memory=1e9)


@pytest.mark.parametrize(
    ("cpus", "sizes", "times", "found"),
    [
        ((2, 2), (1, 2), 1, []),
        ((8, 1), (1, 2), 3, [(0, 8), (3000, 1)]),
        ((8, 1), (1, 2), 0, []),
        ((8, 1, 1, 8), (1, 1, 1, 1), 1, [(0, 8), (1000, 1), (3000, 8)]),
    ],
)
def test_amounts_count_from_an_index_on(cpus, sizes, times, found):
    """Neighbours that request the same are one; a Job that is made 0 times is none."""
    owner = slim_job_set(unlike(*cpus, sizes=sizes, times=times))
    assert [(first, amount.cpu) for first, amount in owner.unlike] == found


def test_a_train_job_has_the_amounts_of_its_job_set():
    job_set = slim_job_set(unlike(8, 1))
    whole = carry_over(slim_train_job(job_object("TrainJob")), job_set)
    assert (whole.unlike, whole.worker_requests) == (job_set.unlike, job_set.worker_requests)


def test_pods_say_what_their_job_reserves_and_the_others_have_as_much_more_as_theirs():
    """What the sidecar adds is in no template."""
    pod = pod_of(0, 0)
    pod["spec"]["containers"].append({"name": "more", "resources": {"requests": {"cpu": "500m"}}})
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8", "memory": "1G"}}
    spec = spec_of("a/train", [slim_pod(pod)], slim_job_set(unlike(8, 1)), {})
    assert [spec.requests_of(name).cpu for name in spec.replicas] == [8.5, 1.5, 1.5]
    assert spec.requests == Resources(cpu=8.5, memory=8e9)


def test_where_each_pod_trains_by_itself_each_job_is_a_job():
    """A suspension would end all its pods, and none of them is moved."""
    owner = slim_job_set(job_set_of_several(template(INDEPENDENT), 1, 1))
    pod = pod_of(1, 0, annotations=INDEPENDENT)
    assert (owner.job, identity_of(pod).replica) == ("", "a/train-part-1-0/worker/0")
    assert "trains by itself" in immovable_because(slim_pod(pod), owner, owner.options)
    assert "each a job of its own" in capability(owner, Options(queue="team-a")).unholdable


def test_pods_of_an_older_jobset_are_not_moved():
    """Their labels do not name their Job."""
    owner = slim_job_set(job_set_of_several(template(), 1, 1))
    pod = pod_of(1, 0, labels={})
    assert identity_of(pod).job == "train-part-1-0"
    assert "JobSet 0.7" in immovable_because(slim_pod(pod), owner, owner.options)
    assert immovable_because(slim_pod(pod_of(1, 0)), owner, owner.options) == ""


@pytest.mark.parametrize(("job", "index"), [("x", 0), ("-1", 0), (None, 0), (0, 1000), (1000, 0)])
def test_a_pod_without_a_number_is_no_replica(job, index):
    """What labels say is anybody's word, and a thousand numbers are all that a Job has."""
    labels = {"jobset.sigs.k8s.io/global-replicas": "2"}
    if job is not None:
        labels["jobset.sigs.k8s.io/job-global-index"] = str(job)
    assert identity_of(pod_of(0, index, labels=labels)) is None
