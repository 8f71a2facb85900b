"""Orders to place jobs, against an API server with its controllers: what they do, and what is said of it."""

import asyncio

import pytest

from fakekube.failures import FailureError
from fakekube.kinds import JOB_SETS as FAKE_JOB_SETS
from fakekube.kinds import JOBS as FAKE_JOBS
from fakekube.kinds import TF_JOBS as FAKE_TF_JOBS
from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.owners import patching
from specon_manager.backends.kube.transport.resources import JOBS, PDBS, PODS, TF_JOBS
from specon_manager.model.events import JobGone, JobObserved, JobRefused, ReplicaGone, ReplicaStarted
from support.kube.placing_stage import (
    ELASTIC,
    JOB,
    QUEUED,
    described,
    gang,
    held_by_webhook,
    make_gang,
    make_job_set,
    make_tf_job,
    place,
    pods_of,
    where,
    worker,
)
from support.kube.stage import make_pod


@pytest.fixture
def cluster(cluster):
    held_by_webhook(cluster)
    return cluster


def _job(cluster, kind=FAKE_JOBS):
    return cluster.store.get(kind, ("default", "train"))


def _mark(cluster, kind=FAKE_JOBS):
    annotations = _job(cluster, kind)["metadata"].get("annotations") or {}
    return annotations.get("specon.io/suspended-for"), annotations.get("specon.io/scaled")


def _gates(cluster):
    return [pod["spec"].get("schedulingGates") for pod in pods_of(cluster)]


def _deny_scaling(cluster):
    """Refuse another number of workers, as the webhook of a JobSet does: with all of the object."""
    admit = cluster.machinery.admission

    async def admission(kind, value, operation):
        before = cluster.store.get(kind, ("default", "train"))
        if kind is FAKE_JOBS and operation == "UPDATE" and value["spec"] != before["spec"]:
            dumped = "Invalid value: " + "x" * 20_000
            raise FailureError(403, "Forbidden", f"admission webhook denied: {dumped}: field is immutable")
        return await admit(kind, value, operation)

    cluster.machinery.admission = admission


async def _gated(cluster, api, stage, workers=3, **spec):
    """Make a queued job, and wait until its pods are there and it is told."""
    await make_gang(api, QUEUED, workers=workers, **spec)
    await described(stage)
    await stage.until(lambda: len(pods_of(cluster)) == workers)


async def _admitted(cluster, api, stage, **kinds):
    """Make a queued job and let it run, each worker on a node of its own."""
    await make_gang(api, {**QUEUED, **ELASTIC}, **kinds)
    await described(stage)
    await stage.until(lambda: len(pods_of(cluster)) == kinds.get("workers", 3))
    nodes = [f"node-{index % 3}" for index in range(kinds.get("workers", 3))]
    await place(stage, "change-1", gang(*nodes))
    await stage.until(lambda: len(where(cluster)) == len(nodes))


async def test_a_queued_gang_is_let_go_each_worker_to_its_node(cluster, api, stage):
    """Gated until then; afterwards on exactly the nodes of the placement, pinned by us."""
    await _gated(cluster, api, stage)
    assert _gates(cluster) == [[{"name": ADMISSION_GATE}]] * 3
    await place(stage, "change-1", gang("node-2", "node-0", "node-2"))
    await stage.until(lambda: where(cluster) == {0: "node-2", 1: "node-0", 2: "node-2"})
    pinned = {pod["metadata"]["annotations"]["specon.io/pinned"] for pod in pods_of(cluster)}
    assert pinned == {"node-0", "node-2"}
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == 3)


async def test_the_jobs_of_a_job_set_wait_and_run_as_one_gang(cluster, api, stage):
    """All of its pods, each on its node; put back, none is left of any of the Jobs."""
    await make_job_set(api, QUEUED, 2, 1)
    spec = await described(stage)
    assert (spec.replicas, spec.held) == ((worker(0), worker(1), worker(1000)), True)
    await stage.until(lambda: len(pods_of(cluster)) == 3)
    assert _gates(cluster) == [[{"name": ADMISSION_GATE}]] * 3
    wanted = {worker(0): "node-2", worker(1): "node-0", worker(1000): "node-1"}
    await place(stage, "change-1", wanted)

    def nodes():
        running = [pod for pod in pods_of(cluster) if pod["status"].get("phase") == "Running"]
        return {identity_of(pod).replica: pod["spec"]["nodeName"] for pod in running}

    await stage.until(lambda: nodes() == wanted)
    await place(stage, "change-2", {})
    await stage.until(lambda: not cluster.pods(app="training"))
    assert _job(cluster, FAKE_JOB_SETS)["spec"]["suspend"] is True


async def test_no_pod_outside_of_the_placement_is_let_go(cluster, api, stage):
    """An elastic gang admitted with two of three workers has two, and its object says so."""
    await make_gang(api, {**QUEUED, **ELASTIC})
    await stage.until(lambda: len(pods_of(cluster)) == 3)
    await described(stage)
    await place(stage, "change-1", gang("node-0", "node-1"))
    await stage.until(lambda: where(cluster) == {0: "node-0", 1: "node-1"})
    assert (_job(cluster)["spec"]["completions"], _mark(cluster)) == (2, (None, "3:2"))


async def test_a_job_that_its_user_created_suspended_is_resumed_when_it_is_admitted(cluster, api, stage):
    """It waits without any pod, and is known all the same."""
    await make_gang(api, QUEUED, suspend=True)
    await described(stage)
    await place(stage, "change-1", gang("node-0", "node-1", "node-1"))
    await stage.until(lambda: where(cluster) == {0: "node-0", 1: "node-1", 2: "node-1"})


async def test_a_gang_that_is_put_back_is_suspended_and_told_gone_as_a_whole(cluster, api, stage):
    """Also those replicas that never ran: nobody else would tell of them."""
    await _admitted(cluster, api, stage)
    await place(stage, "change-1", {})
    await stage.until(lambda: not cluster.pods(app="training"))
    assert _mark(cluster) == ("held-change-1", None)
    assert _job(cluster)["spec"]["suspend"] is True
    await stage.until(lambda: {each.replica for each in stage.said(ReplicaGone)} >= set(gang(*"abcdef")))
    assert all(each.evicted for each in stage.said(ReplicaGone))


async def test_a_preempted_job_is_admitted_again_elsewhere(cluster, api, stage):
    """By the resumption of its owner; no mark of ours stays."""
    await _admitted(cluster, api, stage)
    await place(stage, "change-2", {})
    await stage.until(lambda: not cluster.pods(app="training"))
    await place(stage, "change-3", gang("node-1", "node-1", "node-0"))
    await stage.until(lambda: where(cluster) == {0: "node-1", 1: "node-1", 2: "node-0"})
    assert _mark(cluster) == (None, None)


async def test_a_pod_that_is_created_again_while_the_change_is_in_flight_goes_to_its_node(
    cluster, api, stage
):
    """As often as it takes."""
    await _gated(cluster, api, stage, backoffLimit=6)
    cluster.kubelet.held |= {pod["metadata"]["name"] for pod in pods_of(cluster)[:1]}
    await place(stage, "change-1", gang("node-0", "node-1", "node-2"))
    await stage.until(lambda: len(where(cluster)) == 2)
    (late,) = [pod for pod in pods_of(cluster) if pod["status"].get("phase") != "Running"]
    await api.delete(PODS, late["metadata"]["name"], "default", grace_seconds=0)
    await stage.until(lambda: where(cluster) == {0: "node-0", 1: "node-1", 2: "node-2"})


async def test_a_pod_of_an_admitted_job_that_comes_later_runs_anywhere(cluster, api, stage):
    """Its change is over: nothing says where it has to be."""
    await _admitted(cluster, api, stage, backoffLimit=6)
    # The order is in force until the manager, too, has seen that it is carried out.
    await stage.until(lambda: stage.backend._placer._placements[JOB].done)
    first = pods_of(cluster)[0]
    await api.delete(PODS, first["metadata"]["name"], "default", grace_seconds=0)
    gone = first["metadata"]["uid"]
    await stage.until(
        lambda: len(where(cluster)) == 3 and gone not in {p["metadata"]["uid"] for p in pods_of(cluster)}
    )
    (again,) = [pod for pod in pods_of(cluster) if "specon.io/pinned" not in pod["metadata"]["annotations"]]
    assert not again["spec"].get("nodeSelector")


async def test_a_running_job_is_scaled_out_and_in_by_its_object(cluster, api, stage):
    """Its user's number is remembered as long as it differs."""
    await _admitted(cluster, api, stage, workers=2)
    await place(stage, "change-2", gang("node-0", "node-1", "node-2", "node-2"))
    await stage.until(lambda: where(cluster) == {0: "node-0", 1: "node-1", 2: "node-2", 3: "node-2"})
    assert (_job(cluster)["spec"]["parallelism"], _mark(cluster)) == (4, (None, "2:4"))
    await stage.until(lambda: stage.said(JobObserved)[-1].spec.present == 4)
    await place(stage, "change-3", gang("node-0"))
    await stage.until(lambda: where(cluster) == {0: "node-0"})
    assert (_job(cluster)["spec"]["completions"], _mark(cluster)) == (1, (None, "2:1"))
    # A new change knows as ours the number that the manager has seen.
    await stage.until(lambda: stage.said(JobObserved)[-1].spec.present == 1)
    await place(stage, "change-4", gang("node-0", "node-1"))
    await stage.until(lambda: len(where(cluster)) == 2)
    assert _mark(cluster) == (None, None)


async def test_a_job_that_starts_anew_with_another_number_is_suspended_changed_and_resumed(
    cluster, api, stage
):
    """A TFJob without dynamic workers; the mark is the change's, and gone in the end."""
    await make_tf_job(api, ELASTIC)
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == 3)
    await place(stage, "change-1", {})
    await stage.until(lambda: not cluster.pods(app="training"))
    assert _mark(cluster, FAKE_TF_JOBS) == ("change-1", None)
    names = [each.replica for each in stage.said(ReplicaStarted)]
    before = len(names)
    await place(stage, "change-1", {**dict.fromkeys(names, None), worker(3): None})
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == before + 4)
    job = await api.get(TF_JOBS, "train", "default")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    assert job["spec"]["tfReplicaSpecs"]["PS"]["replicas"] == 1
    assert (job["spec"]["runPolicy"]["suspend"], _mark(cluster, FAKE_TF_JOBS)) == (False, (None, "2:3"))


async def test_a_controller_that_lets_nobody_scale_is_recognised_once(cluster, api, stage):
    """The order is refused in a few words, and the job is said to be no elastic one from then on."""
    await _admitted(cluster, api, stage, workers=2)
    _deny_scaling(cluster)
    assert stage.said(JobObserved)[-1].spec.resizing == "live"
    await place(stage, "change-2", gang("node-0", "node-1", "node-2"))
    refused = await stage.hear(JobRefused, job=JOB, transaction="change-2")
    assert refused.reason == (
        "Job train: its controller lets nobody change the number of its workers (the field is immutable)"
    )
    await stage.until(lambda: stage.said(JobObserved)[-1].spec.resizing == "none")
    spec = stage.said(JobObserved)[-1].spec
    assert spec.unscalable == "the controller of Job train lets nobody change the number of its workers"
    assert (spec.held, spec.unpreemptible) == (True, "")
    before = len(cluster.server.requests)
    await place(stage, "change-3", gang("node-0", "node-1", "node-2"))
    await stage.hear(JobRefused, job=JOB, transaction="change-3")
    tried = [one for one in cluster.server.requests[before:] if one[0] == "PATCH" and "/jobs/" in one[1]]
    assert tried == []
    assert len(where(cluster)) == 2


async def test_an_object_that_cannot_be_read_is_refused_in_words(cluster, api, stage, monkeypatch):
    """Nobody leads any the worse for it."""
    await _admitted(cluster, api, stage, workers=2)

    def odd(*_):
        raise RecursionError("maximum recursion depth exceeded" * 100)

    monkeypatch.setattr(patching, "job_patch", odd)
    await place(stage, "change-2", gang("node-0"))
    refused = await stage.hear(JobRefused, job=JOB, transaction="change-2")
    assert refused.reason.startswith("Job train cannot be read: RecursionError: maximum recursion depth")
    assert len(refused.reason) < 300


@pytest.mark.parametrize("placement", [{}, gang("node-0")], ids=["preempt", "scale-in"])
async def test_a_disruption_budget_is_asked_before_anything_is_changed(cluster, api, stage, placement):
    """After a while the order is refused with the budget's words, and everything trains on."""
    await _admitted(cluster, api, stage)
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "training"}}}
    await api.create(PDBS, {"metadata": {"name": "never"}, "spec": budget}, "default")
    await cluster.settle()
    before = _job(cluster)["spec"]
    await place(stage, "change-2", placement)
    refused = await stage.hear(JobRefused, job=JOB, transaction="change-2")
    assert "never" in refused.reason
    assert (_job(cluster)["spec"], len(where(cluster))) == (before, 3)


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ({}, "budget one-at-a-time lets 1 of its 3 pods go at a time; it is changed as a whole"),
        (gang("node-0"), "budget one-at-a-time lets 1 go at a time, and 2 pods would go together"),
    ],
    ids=["preempt", "scale-in"],
)
async def test_a_budget_that_lets_each_go_but_not_all_stands_against_it(
    cluster, api, stage, placement, words
):
    """Evictions of one pod at a time all succeed; everything trains on."""
    await _admitted(cluster, api, stage)
    await _one_at_a_time(cluster, api)
    before = _job(cluster)["spec"]
    await place(stage, "change-2", placement)
    refused = await stage.hear(JobRefused, job=JOB, transaction="change-2")
    assert words in refused.reason
    assert (_job(cluster)["spec"], len(where(cluster))) == (before, 3)


async def test_as_many_leave_together_as_the_budget_lets_go(cluster, api, stage):
    """One of three."""
    await _admitted(cluster, api, stage)
    await _one_at_a_time(cluster, api)
    await place(stage, "change-2", gang("node-0", "node-1"))
    await stage.until(lambda: where(cluster) == {0: "node-0", 1: "node-1"})
    assert not stage.said(JobRefused)


async def test_no_budget_stands_against_taking_back_what_never_was_whole(cluster, api, stage):
    """Two of three run, and keep their nodes from others without training: they go."""
    await cluster.add_node("small", cpu="500m")
    await _gated(cluster, api, stage)
    await stage.until(lambda: stage.backend._watch.nodes.node("small"))
    await place(stage, "change-1", gang("node-0", "small", "node-2"))
    await stage.until(lambda: len(where(cluster)) == 2)
    await _one_at_a_time(cluster, api)
    await place(stage, "change-1", {})
    await stage.until(lambda: not cluster.pods(app="training"))
    assert _mark(cluster) == ("held-change-1", None)


async def _one_at_a_time(cluster, api):
    budget = {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
    await api.create(PDBS, {"metadata": {"name": "one-at-a-time"}, "spec": budget}, "default")
    await cluster.settle()


async def test_a_gang_for_which_the_scheduler_finds_no_node_is_refused_in_its_words(cluster, api, stage):
    """Then the core puts it back as a whole."""
    await cluster.add_node("small", cpu="500m")
    await _gated(cluster, api, stage)
    await stage.until(lambda: stage.backend._watch.nodes.node("small"))
    await place(stage, "change-1", gang("node-0", "small", "node-2"))
    refused = await stage.hear(JobRefused, transaction="change-1")
    assert "nodes are available" in refused.reason


async def test_a_node_that_is_not_there_is_refused_by_name(cluster, api, stage):
    """Nothing is let go anywhere instead."""
    await _gated(cluster, api, stage, workers=1)
    await place(stage, "change-1", gang("nowhere"))
    assert (await stage.hear(JobRefused)).reason == "there is no node nowhere"
    assert _gates(cluster) == [[{"name": ADMISSION_GATE}]]


async def test_the_users_number_wins_when_it_is_edited_in_between(cluster, api, stage):
    """It is not overwritten; the new description tells the core."""
    await _admitted(cluster, api, stage, workers=2)
    await place(stage, "change-2", gang("node-0", "node-1", "node-2"))
    await stage.until(lambda: len(where(cluster)) == 3)
    edited = {"spec": {"parallelism": 5, "completions": 5}}
    await api.patch(JOBS, "train", "default", edited, form="merge")
    await stage.until(lambda: any(each.spec.present == 5 for each in stage.said(JobObserved)))
    await place(stage, "change-2", gang("node-0", "node-1"))
    await asyncio.sleep(0.5)
    assert _job(cluster)["spec"]["completions"] == 5
    assert not stage.said(JobRefused)


async def test_what_is_over_is_resumed_and_let_go_wherever_there_is_room(cluster, api, stage):
    """Nothing is ours any more; the number of workers stays."""
    await _admitted(cluster, api, stage)
    await place(stage, "change-2", {})
    await stage.until(lambda: not cluster.pods(app="training"))
    await place(stage, "", gang(None, None, None))
    await stage.until(lambda: len(where(cluster)) == 3)
    assert _mark(cluster) == (None, None)


async def test_a_suspension_by_its_user_is_not_ended_by_what_is_over(cluster, api, stage):
    """It is theirs."""
    await make_gang(api, ELASTIC)
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == 3)
    await api.patch(JOBS, "train", "default", {"spec": {"suspend": True}}, form="merge")
    await stage.until(lambda: not cluster.pods(app="training"))
    await place(stage, "", gang(None, None, None))
    await place(stage, "change-1", gang(None, None, None))
    refused = await stage.hear(JobRefused, transaction="change-1")
    assert refused.reason == "someone else suspended it"
    assert _job(cluster)["spec"]["suspend"] is True


async def test_a_job_that_is_deleted_in_between_ends_quietly(cluster, api, stage):
    """No refusal, no error."""
    await _gated(cluster, api, stage)
    await api.delete(JOBS, "train", "default", propagation="Background")
    await place(stage, "change-1", gang("node-0", "node-1", "node-2"))
    await stage.hear(JobGone, job=JOB)
    assert not stage.said(JobRefused)


async def test_a_gated_bare_pod_is_released_since_no_queue_can_hold_it(cluster, api, stage):
    """After a moment: its owner might have been seen late."""
    await make_pod(api, "alone", annotations=QUEUED)
    await stage.hear(ReplicaStarted, seconds=20.0)


async def test_a_later_order_takes_the_place_of_an_earlier_one(cluster, api, stage):
    """Whatever the first had done already."""
    await _admitted(cluster, api, stage)
    await place(stage, "change-2", {})
    await place(stage, "change-2", gang("node-0", "node-1", "node-2"))
    await stage.until(lambda: len(where(cluster)) == 3 and _mark(cluster) == (None, None))
    assert _job(cluster)["spec"].get("suspend") is not True


async def test_a_manager_that_does_not_lead_changes_nothing(cluster, api, stage):
    """The fence is asked right before each write."""
    await _gated(cluster, api, stage)
    task = asyncio.ensure_future(place(stage, "change-1", gang("node-0", "node-1", "node-2")))
    await task
    stage.leads = False
    await asyncio.sleep(0.3)
    assert _gates(cluster) == [[{"name": ADMISSION_GATE}]] * 3
