"""The pods of a LeaderWorkerSet, of two StatefulSets, are one job."""

import msgspec

from specon_manager.backends.kube.objects.names import EARLIER_OWNER
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec
from specon_manager.model.events import JobGone, JobObserved, ReplicaStarted
from specon_manager.model.resources import NOTHING
from support.kube.job_objects import job_object
from support.kube.pods import owned_by
from support.kube.stage import template

SETS = {"train": ("LeaderWorkerSet", 1), "train-0": ("Pod", 2)}
"""Its StatefulSets: what owns each, and how many pods it has."""


def show(ledger, kind="LeaderWorkerSet", name="train", **spec):
    """Show an object, and return what is told of it."""
    obj = job_object(kind, 3, annotations={}, name=name)
    obj["spec"] |= spec
    if kind == "StatefulSet":
        above, obj["spec"]["replicas"] = SETS[name]
        obj["metadata"]["uid"] = f"uid-{name}"
        obj["metadata"]["ownerReferences"] = owned_by(above, name, api="v1")
    ledger.owner_changed(None, OWNER_RESOURCES[kind][1](obj))
    return ledger.take_events()


def running(name, owner, above, api="apps/v1", **labels):
    """Return a pod that runs, by its own name as UID."""
    pod = template(labels=labels, nodeName="node-1")
    references = owned_by(owner, above, api=api, uid=f"uid-{above}")
    pod["metadata"] |= {"name": name, "namespace": "a", "uid": name, "ownerReferences": references}
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "trainer", "state": {"running": {}}}]}
    return slim_pod(pod)


def member(name, above):
    return running(name, "StatefulSet", above, **{"leaderworkerset.sigs.k8s.io/name": "train"})


def show_pods(ledger):
    for name, above in (("train-0", "train"), ("train-0-1", "train-0"), ("train-0-2", "train-0")):
        ledger.pod_changed(None, member(name, above))
    return ledger.take_events()


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_leader_and_workers_are_one_job_whichever_is_seen_first():
    """A StatefulSet that is seen last may be what stands against it."""
    ledger = Ledger(remark=lambda *_: None)
    show_pods(ledger)
    show(ledger, "StatefulSet", "train")
    [told] = of(JobObserved, show(ledger))
    assert (told.spec.name, len(told.spec.replicas), told.spec.immovable) == ("a/train", 3, "")
    SETS["train-0"] = ("Pod", 5)
    try:
        [told] = of(JobObserved, show(ledger, "StatefulSet", "train-0"))
    finally:
        SETS["train-0"] = ("Pod", 2)
    assert "a group of 6 pods" in told.spec.immovable


def test_jobs_that_an_earlier_manager_made_of_its_statefulsets_are_gone():
    """It took leaders and workers for two jobs; no pod is a stranger for that."""
    known = {
        f"a/{name}": Job(
            spec=JobSpec(
                name=f"a/{name}",
                replicas=(f"a/{name}/worker/0",),
                requests=NOTHING,
                placed_by="owner",
                template={EARLIER_OWNER: ["StatefulSet", f"uid-{name}"]},
            ),
            order=0,
            submitted_at=0.0,
        )
        for name in SETS
    }
    ledger = Ledger(remark=lambda *_: None)
    show_pods(ledger)
    for name in SETS:
        show(ledger, "StatefulSet", name)
    show(ledger)
    ledger.remember(msgspec.structs.replace(State(), jobs=known))
    events = ledger.take_events()
    assert {event.job for event in of(JobGone, events)} == {"a/train", "a/train-0"}
    assert [event.spec.name for event in of(JobObserved, events)] == ["a/train"]
    assert len(of(ReplicaStarted, events)) == 3
    assert ledger.foreign == set()


def test_what_calls_itself_a_further_group_moves_neither_itself_nor_the_group_that_is_alone():
    """A tenant may copy the label, and a set with fewer groups has such pods for a while."""
    ledger = Ledger(remark=lambda *_: None)
    show(ledger)
    show_pods(ledger)
    ledger.pod_changed(None, member("train-7-1", "train-7"))
    [told] = of(JobObserved, ledger.take_events())
    assert told.spec.name == "a/train-7"
    assert "further group of LeaderWorkerSet train" in told.spec.immovable
    assert ledger.owner_of_job("a/train-7") is None
    assert str(ledger.owner_of_job("a/train")) == "LeaderWorkerSet train"


def test_a_job_that_has_the_name_of_another_kind_keeps_its_owner():
    """The pods of the other are strangers, also while the job's own pod is replaced."""
    ledger = Ledger(remark=lambda *_: None)
    job = job_object("Job", 1, annotations={}, name="train")
    job["metadata"]["uid"] = "uid-train"
    ledger.owner_changed(None, OWNER_RESOURCES["Job"][1](job))
    former = running("first", "Job", "train", api="batch/v1")
    ledger.pod_changed(None, former)
    ledger.take_events()
    show(ledger)
    show_pods(ledger)
    ledger.pod_changed(former, None)
    ledger.pod_changed(None, running("second", "Job", "train", api="batch/v1"))
    ledger.take_events()
    assert str(ledger.owner_of_job("a/train")) == "Job train"
