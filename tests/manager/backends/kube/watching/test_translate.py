"""From pods and owners to what the core is told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.owner import OwnerInfo, slim_job
from specon_manager.backends.kube.objects.pod import PodInfo, slim_pod
from specon_manager.backends.kube.objects.volumes import Movability
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.backends.kube.watching.translate import options_of
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.constraints import Requirement
from specon_manager.model.events import JobGone, JobObserved, ReplicaGone, ReplicaStarted
from support.kube.stage import template

REPLICA = "a/train/worker/0"


def _job(uid: str = "job", **spec: Any) -> OwnerInfo:
    return slim_job({"metadata": {"name": "train", "namespace": "a", "uid": uid}, "spec": spec})


def _pod(
    uid: str,
    *,
    owner: str | None = "job",
    state: str = "running",
    node: str = "node-1",
    deleting: bool = False,
    exit_code: int = 0,
    annotations: dict[str, str] | None = None,
    age: int = 0,
) -> PodInfo:
    """Return a pod of the Job `train`, or a bare one of that name."""
    pod = template(annotations, nodeName=node)
    pod["metadata"] |= {
        "name": "train" if owner is None else f"train-{uid}",
        "namespace": "a",
        "uid": uid,
        "creationTimestamp": f"2026-01-01T00:00:{age:02}Z",
    }
    if owner is not None:
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": owner,
            "controller": True,
        }
        pod["metadata"]["ownerReferences"] = [reference]
    if deleting:
        deletion = {"deletionTimestamp": "2026-01-01T00:10:30Z", "deletionGracePeriodSeconds": 30}
        pod["metadata"] |= deletion
    ended = {"terminated": {"exitCode": exit_code, "finishedAt": "2026-01-01T00:10:10Z"}}
    states = {"running": {"running": {}}, "pending": {"waiting": {"reason": "ContainerCreating"}}}
    phases = {"running": "Running", "pending": "Pending"}
    container = {"name": "trainer", "state": states.get(state, ended)}
    pod["status"] = {
        "phase": phases.get(state, "Failed" if exit_code else "Succeeded"),
        "containerStatuses": [container],
    }
    return slim_pod(pod)


class _Scene:
    """A ledger, and what it said of pods."""

    def __init__(self) -> None:
        self.remarks: list[tuple[str, str, str, str]] = []
        self.ledger = Ledger(remark=lambda *remark: self.remarks.append(remark))
        self._pods: dict[str, PodInfo] = {}

    def show(self, *pods: PodInfo) -> list[Any]:
        for pod in pods:
            self.ledger.pod_changed(self._pods.get(pod.uid), pod)
            self._pods[pod.uid] = pod
        return self.ledger.take_events()

    def remove(self, *uids: str) -> list[Any]:
        for uid in uids:
            self.ledger.pod_changed(self._pods.pop(uid), None)
        return self.ledger.take_events()


@pytest.fixture
def scene():
    made = _Scene()
    made.ledger.owner_changed(None, _job())
    return made


def test_a_job_is_described_before_its_replicas_start(scene):
    """The core ignores replicas that it does not know."""
    observed, started = scene.show(_pod("1"))
    assert isinstance(observed, JobObserved)
    assert observed.spec.replicas == (REPLICA,)
    assert (observed.spec.placed_by, observed.spec.immovable) == ("owner", "")
    assert started == ReplicaStarted(replica=REPLICA, incarnation="1", node="node-1")


def test_a_pod_that_does_not_run_yet_has_not_started(scene):
    """Bound and pulling its image is not running."""
    assert [type(event) for event in scene.show(_pod("1", state="pending"))] == [JobObserved]
    assert scene.show(_pod("1")) == [ReplicaStarted(replica=REPLICA, incarnation="1", node="node-1")]


def test_a_pod_is_gone_when_its_object_is_gone(scene):
    """Neither a deletion that was asked for nor an ended container is the end of it."""
    scene.show(_pod("1"))
    assert scene.show(_pod("1", deleting=True)) == []
    assert scene.show(_pod("1", deleting=True, state="ended", exit_code=143)) == []
    [gone] = scene.remove("1")
    assert gone == ReplicaGone(
        replica=REPLICA, incarnation="1", exit_code=143, evicted=True, reason="evicted"
    )


def test_the_next_incarnation_is_told_after_the_end_of_the_former(scene):
    """Also where the owner creates it while the former one is still ending."""
    scene.show(_pod("1"))
    assert scene.show(_pod("1", deleting=True), _pod("2", age=1)) == []
    gone, started = scene.remove("1")
    assert (gone.incarnation, started.incarnation) == ("1", "2")


def test_a_pod_that_ends_by_itself_is_gone_at_once(scene):
    """Its object may stay for days; removing it then is no news."""
    scene.show(_pod("1"))
    [gone] = scene.show(_pod("1", state="ended"))
    assert (gone.exit_code, gone.evicted) == (0, False)
    assert scene.remove("1") == []


def test_a_crash_is_no_eviction(scene):
    """The exit code says what it was."""
    scene.show(_pod("1"))
    [gone] = scene.show(_pod("1", state="ended", exit_code=137))
    assert (gone.exit_code, gone.evicted) == (137, False)


def test_an_incarnation_that_nobody_saw_run_is_told_once(scene):
    """A short job is over between two looks."""
    events = scene.show(_pod("1", state="ended"))
    assert [type(event) for event in events] == [JobObserved, ReplicaStarted, ReplicaGone]
    assert scene.show(_pod("1", state="ended")) == []
    assert scene.remove("1") == []


def test_of_two_pods_that_claim_one_replica_the_second_is_not_managed(scene):
    """It is remarked once, and takes the place when the first one is gone."""
    scene.show(_pod("1"))
    assert scene.show(_pod("2", age=1)) == []
    assert scene.show(_pod("2", age=1)) == []
    assert [remark[1:3] for remark in scene.remarks] == [("train-2", "NotManaged")]
    assert scene.ledger.foreign == {"2"}
    assert [event.incarnation for event in scene.remove("1")] == ["1", "2"]
    assert scene.ledger.foreign == set()


def test_a_bare_pod_with_the_name_of_a_job_is_not_managed(scene):
    """The owner that was first keeps the name until it is gone; then the other one is a new job."""
    scene.show(_pod("1"))
    assert scene.show(_pod("x", owner=None, age=1)) == []
    assert scene.remarks[0][3] == "not managed: another owner has a job named a/train"
    scene.ledger.owner_changed(_job(), None)
    events = scene.remove("1")
    assert [type(event) for event in events] == [ReplicaGone, JobGone, JobObserved, ReplicaStarted]
    assert events[-1].incarnation == "x"


def test_a_job_is_gone_with_its_owner_and_its_last_pod(scene):
    """Pods that are still ending belong to it."""
    scene.show(_pod("1"))
    scene.ledger.owner_changed(_job(), None)
    assert [type(event) for event in scene.ledger.take_events()] == [JobObserved]  # immovable from now on
    assert [type(event) for event in scene.remove("1")] == [ReplicaGone, JobGone]


def test_a_suspended_job_stays_known_without_pods(scene):
    """Its replica is awaited."""
    scene.show(_pod("1"))
    assert [type(event) for event in scene.remove("1")] == [ReplicaGone]


def test_a_bare_pod_is_kept_while_it_is_away_for_a_move():
    """And forgotten when nobody waits for it any more."""
    scene = _Scene()
    scene.show(_pod("1", owner=None, annotations={"specon.io/recreate": "true"}))
    scene.ledger.await_return(REPLICA, awaited=True)
    assert [type(event) for event in scene.remove("1")] == [ReplicaGone]
    scene.ledger.await_return(REPLICA, awaited=False)
    assert scene.ledger.take_events() == [JobGone(job="a/train", reason="its owner is gone")]


@pytest.mark.parametrize(
    ("spec", "annotations", "words"),
    [
        ({"parallelism": 2, "completions": 2}, {}, "podFailurePolicy"),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, {}, "manages"),
        ({"suspend": True}, {}, "is suspended, and not by a move"),
    ],
)
def test_what_forbids_a_move_is_said_in_words(spec, annotations, words):
    """Before anything is asked of the trainer."""
    scene = _Scene()
    scene.ledger.owner_changed(None, _job(**spec))
    [observed, *_] = scene.show(_pod("1", annotations=annotations))
    assert words in observed.spec.immovable


def test_a_bare_pod_moves_only_where_its_user_wants_it_created_again():
    """Nobody else would."""
    scene = _Scene()
    [observed, *_] = scene.show(_pod("1", owner=None))
    assert "specon.io/recreate" in observed.spec.immovable


def test_annotations_describe_the_job(scene):
    """Grace, mode of saving, consent, class, what is done where it hangs."""
    annotations = {
        "specon.io/grace-period": "2m",
        "specon.io/checkpoint": "sigterm",
        "specon.io/migrate": "false",
        "specon.io/class": "trial",
        "specon.io/on-hang": "restart",
        "specon.io/kind": "bert large",
    }
    spec = scene.show(_pod("1", annotations=annotations))[0].spec
    said = (spec.grace_seconds, spec.checkpointing, spec.migratable, spec.job_class, spec.on_hang)
    assert said == (120.0, "on-termination", False, "trial", "restart")
    assert spec.kind == "a/bert large"  # of its namespace: other tenants teach nothing about it


def test_what_volumes_say_is_told_when_it_is_known(scene):
    """An obstacle forbids moves; an affinity that all share is a constraint."""
    scene.show(_pod("1"))
    terms = ((Requirement(key="zone", operator="In", values=("a",)),),)
    scene.ledger.judge("1", _pod("1"), Movability(terms=(terms,)))
    [observed] = scene.ledger.take_events()
    assert observed.spec.constraints.volumes == (terms,)
    scene.ledger.judge("1", _pod("1"), Movability(immovable="the log is lost"))
    [observed] = scene.ledger.take_events()
    assert observed.spec.immovable == "the log is lost"


def _known(incarnation: str | None, *, phase: Phase = Phase.RUNNING) -> State:
    spec = JobSpec(name="a/train", replicas=(REPLICA,), placed_by="owner")
    replica = Replica(name=REPLICA, job="a/train", phase=phase, incarnation=incarnation, node="node-1")
    job = Job(spec=spec, order=0, submitted_at=0.0)
    return State(jobs={"a/train": job}, replicas={REPLICA: replica})


def test_a_new_manager_tells_what_happened_while_nobody_watched(scene):
    """The incarnation that the state knows is gone, another one runs."""
    scene.ledger.pod_changed(None, _pod("2"))
    scene.ledger.remember(_known("1"))
    events = scene.ledger.take_events()
    assert [type(event) for event in events] == [JobObserved, ReplicaGone, ReplicaStarted]
    assert (events[1].incarnation, events[2].incarnation) == ("1", "2")


def test_a_new_manager_does_not_tell_old_failures_again(scene):
    """Their pods stay for a while; a success that it does not know of is told."""
    scene.ledger.pod_changed(None, _pod("1", state="ended", exit_code=1))
    scene.ledger.remember(_known(None, phase=Phase.AWAITED))
    assert [type(event) for event in scene.ledger.take_events()] == [JobObserved]
    fresh = _Scene()
    fresh.ledger.pod_changed(None, _pod("1", state="ended"))
    fresh.ledger.remember(_known(None, phase=Phase.AWAITED))
    assert ReplicaGone in [type(event) for event in fresh.ledger.take_events()]


def test_a_job_that_is_gone_while_nobody_watched_is_told():
    """With the end of what ran of it."""
    ledger = Ledger(remark=lambda *_: None)
    ledger.remember(_known("1"))
    assert [type(event) for event in ledger.take_events()] == [ReplicaGone, JobGone]


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from("123"),
        st.sampled_from(["pending", "running", "ended", "deleting", "gone"]),
        st.booleans(),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(_CHANGES)
def test_never_are_two_incarnations_of_a_replica_told_to_run(changes):
    """Each start comes after the end of the one before, and each end is that of what was started."""
    scene = _Scene()
    scene.ledger.owner_changed(None, _job())
    running, seen = None, set()
    final: set[str] = set()
    for uid, what, at_once in changes:
        known = scene._pods.get(uid)
        if uid in final or (what == "gone" and known is None):
            continue
        if known is not None and (known.ended or known.deleting) and what in {"pending", "running"}:
            continue
        if what == "gone":
            scene.ledger.pod_changed(scene._pods.pop(uid), None)
            final.add(uid)
        else:
            state = {"ended": "ended", "pending": "pending"}.get(what, "running")
            pod = _pod(uid, state=state, deleting=what == "deleting", age=int(uid))
            scene.ledger.pod_changed(known, pod)
            scene._pods[uid] = pod
        for event in scene.ledger.take_events() if at_once else ():
            if isinstance(event, ReplicaStarted):
                assert running is None
                assert event.incarnation not in seen
                running = event.incarnation
                seen.add(running)
            elif isinstance(event, ReplicaGone):
                assert event.incarnation == running
                running = None


def test_pods_of_a_kind_have_their_annotations_read_once():
    """What the webhook writes differs from pod to pod and says nothing about options."""
    options = []
    for index in range(2):
        pod = template({"specon.io/replica": f"a/train/worker/{index}"})
        pod["metadata"] |= {"name": f"train-{index}", "namespace": "a", "uid": str(index)}
        detail = slim_pod(pod).detail
        assert detail is not None
        options.append(options_of(detail))
    assert options[0] is options[1]
    assert options[0].log_path == "/data/train.log"
