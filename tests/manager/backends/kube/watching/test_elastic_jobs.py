"""Jobs that are held or may be scaled, as the core is told of them."""

import copy

import pytest

from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.backends.kube.watching.translate import is_told_by_owner
from specon_manager.model.events import JobGone, JobObserved, ReplicaGone, ReplicaStarted
from support.kube.job_objects import ELASTIC, QUEUED, job_object, job_set_of_several
from support.kube.stage import template

GATE = {"schedulingGates": [{"name": "specon.io/admission"}]}


class Scene:
    """A ledger with objects and pods as an API server would show them."""

    def __init__(self):
        self.ledger = Ledger(remark=lambda *_: None)
        self.ledger.server = (1, 31)
        self._owners = {}
        self._pods = {}

    def own(self, kind, obj):
        """Show the object of a job, None once it is deleted."""
        after = None if obj is None else OWNER_RESOURCES[kind][1](obj)
        self.ledger.owner_changed(self._owners.get(kind), after)
        self._owners[kind] = after
        return self.ledger.take_events()

    def show(self, *pods):
        for pod in pods:
            slim = slim_pod(pod)
            self.ledger.pod_changed(self._pods.get(slim.uid), slim)
            self._pods[slim.uid] = slim
        return self.ledger.take_events()

    def remove(self, *uids):
        for uid in uids:
            self.ledger.pod_changed(self._pods.pop(uid), None)
        return self.ledger.take_events()


def pod_of(kind, index, *, uid=None, labels=None, owner_uid=None, node="node-1", state="running", **more):
    """Return a pod that the Job `train`, or a Kubeflow job of that name, made."""
    annotations = {**QUEUED, **ELASTIC, "batch.kubernetes.io/job-completion-index": str(index)}
    gated = more.pop("gated", False)
    pod = template(annotations, labels=labels, **(GATE if gated else {"nodeName": node}), **more)
    group = "batch/v1" if kind in {"Job", "JobSet"} else "kubeflow.org/v1"
    reference = {
        "apiVersion": group,
        "kind": "Job" if kind == "JobSet" else kind,
        "name": "train-node-0" if kind == "JobSet" else "train",
        "uid": owner_uid or f"{kind}-uid",
        "controller": True,
    }
    pod["metadata"] |= {
        "name": f"train-{index}",
        "namespace": "a",
        "uid": uid or f"pod-{index}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [reference],
    }
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:10:10Z"}}
    running = not gated and state == "running"
    pod["status"] = {
        "phase": "Pending" if gated else ("Running" if running else "Failed"),
        "containerStatuses": [{"name": "trainer", "state": {"running": {}} if running else ended}],
    }
    return pod


def observed(events):
    return [event.spec for event in events if isinstance(event, JobObserved)]


def test_a_held_job_is_told_before_it_has_pods():
    """From its owner alone, with all that the policies need."""
    [event] = Scene().own("Job", job_object("Job", 3, suspend=True))
    spec = event.spec
    assert (spec.name, spec.held, spec.queue, spec.resizing) == ("a/train", True, "team-a", "live")
    assert (spec.workers, spec.present, spec.min_workers, len(spec.replicas)) == (3, 3, 1, 8)
    assert (spec.requests.cpu, spec.top_down, spec.unpreemptible) == (1, True, "")
    assert spec.coupled
    assert spec.bursts


@pytest.mark.parametrize("annotations", [{}, {**QUEUED, "specon.io/inject": "false"}])
def test_a_job_that_asks_for_nothing_is_told_by_its_pods_only(annotations):
    """One without a sidecar is none of ours, whatever queue it names."""
    assert Scene().own("Job", job_object("Job", annotations=annotations)) == []


def test_pods_of_a_job_that_is_neither_held_nor_scaled_are_moved_singly():
    """They are no gang of ours: their owner alone says when they run."""
    scene = Scene()
    scene.own("Job", job_object("Job", 2, annotations={}))
    pods = [pod_of("Job", 0), pod_of("Job", 1)]
    for pod in pods:
        for key in QUEUED.keys() | ELASTIC.keys():
            del pod["metadata"]["annotations"][key]
        pod["metadata"]["annotations"]["specon.io/inject"] = "true"
    spec = observed(scene.show(*pods))[-1]
    assert (len(spec.replicas), spec.adjustable, spec.coupled) == (2, False, False)


def test_gated_pods_are_no_incarnations():
    """They are known, and nothing of their replicas runs until they do."""
    scene = Scene()
    scene.own("Job", job_object("Job", 2))
    assert scene.show(pod_of("Job", 0, gated=True), pod_of("Job", 1, gated=True)) == []
    pod = scene.ledger.live("a/train/worker/1")
    assert pod is not None
    assert pod.detail is not None
    assert pod.detail.gated
    events = scene.show(pod_of("Job", 1))
    assert events == [ReplicaStarted(replica="a/train/worker/1", incarnation="pod-1", node="node-1")]


def test_a_suspended_job_stays_known_with_what_its_pods_told():
    """Its priority and what a sidecar adds to its requests are not lost with its pods."""
    scene = Scene()
    scene.own("Job", job_object("Job", 1))
    pods = template({**QUEUED, **ELASTIC})
    pods["spec"]["containers"].append({"name": "sidecar", "resources": {"requests": {"cpu": "250m"}}})
    pod = pod_of("Job", 0, priority=10)
    pod["spec"]["containers"] = pods["spec"]["containers"]
    [spec] = observed(scene.show(pod))
    assert (spec.priority, spec.requests.cpu) == (10, 1.25)
    held = job_object("Job", 1, suspend=True)
    held["metadata"]["annotations"] = {"specon.io/suspended-for": "held-change-1"}
    assert scene.own("Job", held) == []
    [gone] = scene.remove("pod-0")
    assert (type(gone), gone.evicted) == (ReplicaGone, True)
    scaled = copy.deepcopy(held)
    scaled["spec"] |= {"parallelism": 2, "completions": 2}
    [spec] = observed(scene.own("Job", scaled))
    assert (spec.present, spec.priority, spec.requests.cpu) == (2, 10, 1.25)


def test_an_edited_template_counts_though_there_are_no_pods():
    """What was learnt from pods of the old one is not."""
    scene = Scene()
    scene.own("Job", job_object("Job", 1, suspend=True))
    edited = job_object("Job", 1, suspend=True)
    edited["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    [spec] = observed(scene.own("Job", edited))
    assert spec.requests.cpu == 3


def test_a_held_job_set_is_told_with_what_each_of_its_jobs_requests():
    """As its object says it at the moment, also where only the smaller one of them is edited."""
    obj = job_set_of_several(template({**QUEUED, "specon.io/replicas": "coupled"}), 1, 2)
    obj["spec"]["suspend"] = True
    scene, told = Scene(), []
    for cpus in (("8", "1"), ("8", "2"), ("2", "2")):
        for listed, cpu in zip(obj["spec"]["replicatedJobs"], cpus, strict=True):
            pod = listed["template"]["spec"]["template"]["spec"]
            pod["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        [spec] = observed(scene.own("JobSet", copy.deepcopy(obj)))
        assert (spec.held, spec.unpreemptible, spec.resizing) == (True, "", "none")
        told.append([spec.requests_of(name).cpu for name in spec.replicas])
    assert told == [[8, 1, 1], [8, 2, 2], [2, 2, 2]]


def test_a_pod_that_fails_while_its_job_is_suspended_by_us_does_not_crash():
    """Its peers went before it did; when its user suspends the job it is no business of ours."""
    for mark, evicted in (("change-1", True), (None, False)):
        scene = Scene()
        scene.own("Job", job_object("Job", 2))
        scene.show(pod_of("Job", 0), pod_of("Job", 1))
        obj = job_object("Job", 2, suspend=True)
        if mark:
            obj["metadata"]["annotations"] = {"specon.io/suspended-for": mark}
        scene.own("Job", obj)
        [gone] = scene.show(pod_of("Job", 1, state="failed"))
        assert (gone.exit_code, gone.evicted) == (1, evicted)


def test_a_pod_that_never_trained_and_went_with_its_suspended_job_did_not_start():
    """Told of it, the core would take the job that was just put back for one that somebody let run."""
    for mark, told in (("held-change-1", []), (None, [ReplicaStarted, ReplicaGone])):
        scene = Scene()
        scene.own("Job", job_object("Job", 1))
        obj = job_object("Job", 1, suspend=True)
        if mark:
            obj["metadata"]["annotations"] = {"specon.io/suspended-for": mark}
        scene.own("Job", obj)
        events = scene.show(pod_of("Job", 0, state="failed"))
        assert [type(event) for event in events if not isinstance(event, JobObserved)] == told
        assert scene.remove("pod-0") == []


def test_a_held_job_is_gone_with_its_owner():
    """And one of the same name that comes after it is another job."""
    scene = Scene()
    scene.own("Job", job_object("Job", suspend=True))
    assert scene.own("Job", None) == [JobGone(job="a/train", reason="its owner is gone")]
    again = job_object("Job", suspend=True)
    again["metadata"]["uid"] = "another"
    assert [spec.name for spec in observed(scene.own("Job", again))] == ["a/train"]
    assert scene.ledger.owner_of_job("a/train").uid == "another"


def test_an_owner_that_is_replaced_between_two_looks_is_another_job():
    """The end of the first is told before the second."""
    scene = Scene()
    scene.own("Job", job_object("Job", suspend=True))
    again = job_object("Job", suspend=True)
    again["metadata"]["uid"] = "another"
    assert [type(event) for event in scene.own("Job", again)] == [JobGone, JobObserved]


def test_a_user_who_edits_the_number_is_heard():
    """The object's number is the wish of its user, unless it is the one that we wrote."""
    scene = Scene()
    scene.own("Job", job_object("Job", 4))
    ours = job_object("Job", 2)
    ours["metadata"]["annotations"] = {"specon.io/scaled": "4:2"}
    [spec] = observed(scene.own("Job", ours))
    assert (spec.workers, spec.present) == (4, 2)
    theirs = job_object("Job", 3)
    theirs["metadata"]["annotations"] = {"specon.io/scaled": "4:2"}
    [spec] = observed(scene.own("Job", theirs))
    assert (spec.workers, spec.present) == (3, 3)


def test_a_job_of_the_mpi_operator_is_one_job():
    """Its launcher is the pod of another Job; it stays, as a parameter server does."""
    scene = Scene()
    scene.own("MPIJob", job_object("MPIJob", 2))
    labels = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "train",
    }
    launcher = pod_of("Job", 0, labels={**labels, "training.kubeflow.org/job-role": "launcher"})
    launcher["metadata"]["ownerReferences"][0]["name"] = "train-launcher"
    role = {**labels, "training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "0"}
    events = scene.show(launcher, pod_of("MPIJob", 0, uid="worker", labels=role))
    started = [event.replica for event in events if isinstance(event, ReplicaStarted)]
    assert started == ["a/train/ps/0", "a/train/worker/1"]
    assert scene.ledger.foreign == set()
    assert scene.ledger.owner_of_job("a/train").kind == "MPIJob"


def test_a_launcher_that_is_seen_before_its_owner_is_no_stranger():
    """Nobody tells it the owner's UID."""
    scene = Scene()
    labels = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/job-role": "launcher",
    }
    scene.show(pod_of("Job", 0, labels=labels))
    role = {**labels, "training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "0"}
    scene.show(pod_of("MPIJob", 0, uid="worker", labels=role))
    [spec] = observed(scene.own("MPIJob", job_object("MPIJob", 2)))
    assert spec.held
    assert scene.ledger.foreign == set()


def test_a_train_job_is_known_by_the_job_set_that_it_makes():
    """Its switch is the one that counts; a change of it is told as the job's."""
    scene = Scene()
    assert scene.own("TrainJob", job_object("TrainJob")) == []
    job_set = job_object("JobSet", 2)
    reference = {"kind": "TrainJob", "name": "train", "uid": "TrainJob-uid", "controller": True}
    job_set["metadata"]["ownerReferences"] = [reference]
    [spec] = observed(scene.own("JobSet", job_set))
    assert (spec.name, spec.held, spec.resizing) == ("a/train-node-0", True, "none")
    assert "numNodes" in spec.unscalable
    assert scene.ledger.owner_of_job("a/train-node-0").kind == "TrainJob"
    marked = job_object("TrainJob", suspend=True)
    marked["metadata"]["annotations"] = {"specon.io/suspended-for": "held-change-1"}
    scene.own("TrainJob", marked)
    [owner] = scene.ledger.suspended()
    assert (owner.kind, owner.job_name) == ("TrainJob", "a/train-node-0")
    assert scene.ledger.replicas_of(owner) == {"a/train-node-0/worker/0", "a/train-node-0/worker/1"}


def test_what_others_manage_is_only_observed():
    """A job in a queue of Kueue is told by its pods, and neither held nor scaled; so is one of Volcano's."""
    for labels, more, words in (
        ({"kueue.x-k8s.io/queue-name": "q"}, {}, "Kueue"),
        ({}, {"schedulerName": "volcano"}, "Volcano"),
    ):
        scene = Scene()
        scene.own("Job", job_object("Job", annotations={}))
        [spec] = observed(scene.show(pod_of("Job", 0, labels=labels, **more)))
        assert (spec.held, spec.resizing) == (False, "none")
        assert words in spec.unscalable
        assert words in spec.unpreemptible


def test_a_job_that_is_over_is_not_told_by_its_owner():
    """It has no more pods to come."""
    obj = job_object("Job")
    obj["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert not is_told_by_owner(OWNER_RESOURCES["Job"][1](obj))
    assert Scene().own("Job", obj) == []
