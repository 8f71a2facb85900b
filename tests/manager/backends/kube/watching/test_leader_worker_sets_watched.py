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


def show_pods(ledger):
    for name, above in (("train-0", "train"), ("train-0-1", "train-0"), ("train-0-2", "train-0")):
        pod = template(labels={"leaderworkerset.sigs.k8s.io/name": "train"}, nodeName="node-1")
        references = owned_by("StatefulSet", above, api="apps/v1", uid=f"uid-{above}")
        pod["metadata"] |= {"name": name, "namespace": "a", "uid": name, "ownerReferences": references}
        pod["status"] = {
            "phase": "Running",
            "containerStatuses": [{"name": "trainer", "state": {"running": {}}}],
        }
        ledger.pod_changed(None, slim_pod(pod))
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
