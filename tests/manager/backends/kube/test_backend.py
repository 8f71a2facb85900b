"""Orders against an API server with its controllers: what they do, and what is said of it."""

import asyncio
import contextlib

import msgspec
import pytest

from fakekube.kinds import JOBS as FAKE_JOBS
from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.transport.resources import JOBS, NODES, PDBS, PODS
from specon_manager.core.state import State
from specon_manager.model.events import (
    JobGone,
    JobObserved,
    JobRefused,
    NodeGone,
    NodeObserved,
    ReplicaGone,
    ReplicaStarted,
    RoomHeld,
    RoomRefused,
    SidecarMissing,
)
from support.kube.placing_stage import admitting_pods, ignored_by_webhook
from support.kube.stage import Keeper, Stage, make_job, make_pod, make_stateful_set, template

R = "default/train/worker/0"
HASTY = KubeSettings(rooms=RoomSettings(patience=0.5), eviction_patience=0.5, unschedulable_seconds=0.5)


@pytest.fixture
def settings():
    return HASTY


def _pin(cluster, node_of):
    """Do what the admission webhook does for moves: new pods go where `node_of` says, if it names a node."""

    def pinned(pod):
        wanted = node_of()
        if wanted and "specon.io/sidecar" in (pod["metadata"].get("labels") or {}):
            pod["spec"].setdefault("nodeSelector", {})["kubernetes.io/hostname"] = wanted
            pod["metadata"].setdefault("annotations", {})["specon.io/pinned"] = wanted
        return pod

    admitting_pods(cluster, pinned)


def _target(stage, source):
    return next(event.node for event in stage.said(NodeObserved) if event.node != source)


async def _again(stage, former, **fields):
    """Wait for the start of an incarnation that is not the former one."""
    await stage.until(
        lambda: [
            e
            for e in stage.said(ReplicaStarted, replica=former.replica)
            if e.incarnation != former.incarnation
        ]
    )
    return stage.said(ReplicaStarted, replica=former.replica, **fields)[-1]


async def _move(stage, started, target):
    """Order a move as the core does, and return the next incarnation."""
    await stage.hold("m-1", started.replica, target)
    await stage.hear(RoomHeld, transaction="m-1")
    await stage.leave(started.replica, started.incarnation)
    gone = await stage.hear(ReplicaGone, incarnation=started.incarnation)
    assert gone.evicted
    await stage.come(started.replica, target)
    return await _again(stage, started)


async def test_a_job_is_moved_by_suspending_and_resuming_it(cluster, api, stage):
    """Its backoffLimit of 0 does not matter; of the job only `suspend` is changed, and no trace stays."""
    before = await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    target = _target(stage, started.node)
    _pin(cluster, lambda: target)
    again = await _move(stage, started, target)
    assert again.node == target
    job = await api.get(JOBS, "train", "default")
    assert job["spec"]["template"] == before["spec"]["template"]
    assert job["spec"].get("suspend") is False
    assert "specon.io/suspended-for" not in (job["metadata"].get("annotations") or {})
    assert not stage.said(JobGone)


async def test_a_pod_of_a_stateful_set_is_moved_by_eviction(cluster, api, stage):
    """The same name, another UID."""
    await make_stateful_set(api, "train")
    started = await stage.hear(ReplicaStarted)
    target = _target(stage, started.node)
    _pin(cluster, lambda: target)
    assert (await _move(stage, started, target)).node == target


async def test_a_bare_pod_is_moved_by_creating_it_again(api, stage):
    """On the target, from the manifest that was kept before it was evicted."""
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    target = _target(stage, started.node)
    assert (await _move(stage, started, target)).node == target
    assert "default/train/worker/0" in stage.keeper.manifests
    assert not stage.said(JobGone)


async def test_the_placeholder_makes_way_for_the_new_pod(cluster, api, stage):
    """It is deleted as soon as the pod it keeps room for is there."""
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    target = _target(stage, started.node)
    await stage.hold("m-1", started.replica, target)
    await stage.hear(RoomHeld, transaction="m-1")
    assert cluster.pod(placeholder_name("m-1", R))["spec"]["nodeName"] == target
    await stage.leave(started.replica, started.incarnation)
    await stage.hear(ReplicaGone)
    await stage.come(started.replica, target)
    await _again(stage, started)
    await stage.until(lambda: cluster.pod(placeholder_name("m-1", R)) is None)


async def test_room_that_is_released_is_given_back(cluster, api, stage):
    """Once and again."""
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.hold("m-1", started.replica, _target(stage, started.node))
    await stage.hear(RoomHeld)
    await stage.release("m-1", started.replica, started.node)
    await stage.release("m-1", started.replica, started.node)
    await stage.until(lambda: cluster.pod(placeholder_name("m-1", R)) is None)
    assert cluster.pod("train") is not None


async def test_a_disruption_budget_is_seen_before_the_trainer_is_asked(cluster, api, stage):
    """A dry run of the eviction asks it."""
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    await _never(cluster, api)
    await stage.hold("m-1", started.replica, _target(stage, started.node))
    refused = await stage.hear(RoomRefused, transaction="m-1")
    assert "The disruption budget never needs" in refused.reason
    assert cluster.pod(placeholder_name("m-1", R)) is None


@pytest.mark.parametrize("make", [make_pod, make_job, make_stateful_set])
async def test_a_budget_that_never_allows_ends_in_a_refusal(cluster, api, stage, make):
    """After a while, and the pod trains on; a suspension would not have asked the budget by itself."""
    await make(api, "train")
    started = await stage.hear(ReplicaStarted)
    await _never(cluster, api)
    await stage.leave(started.replica, started.incarnation)
    refused = await stage.hear(JobRefused)
    assert (refused.transaction, "disruption" in refused.reason.lower()) == ("m-1", True)
    assert not stage.said(ReplicaGone)


async def _never(cluster, api):
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "training"}}}
    await api.create(PDBS, {"metadata": {"name": "never"}, "spec": budget}, "default")
    await cluster.settle()


async def test_a_node_that_is_too_small_cannot_hold_room(cluster, api, stage):
    """The scheduler's words are passed on."""
    await cluster.add_node("small", cpu="500m")
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.hear(NodeObserved, node="small")
    await stage.hold("m-1", started.replica, "small")
    refused = await stage.hear(RoomRefused, transaction="m-1")
    assert "cpu" in refused.reason.lower()


async def test_a_node_that_the_pod_does_not_tolerate_is_refused(cluster, api, stage):
    """Naming the taint."""
    await cluster.add_node("tainted", taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.hear(NodeObserved, node="tainted")
    await stage.hold("m-1", started.replica, "tainted")
    assert "dedicated" in (await stage.hear(RoomRefused)).reason


async def test_checkpoints_on_an_empty_dir_forbid_the_move(api, stage):
    """Told with the description of the job, and asked again when room is to be held."""
    annotations = {"specon.io/checkpoint-path": "/data/checkpoints"}
    await make_pod(api, "train", annotations=annotations, volumes=[{"name": "data", "emptyDir": {}}])
    started = await stage.hear(ReplicaStarted)
    assert "emptyDir" in stage.said(JobObserved)[-1].spec.immovable
    await stage.hold("m-1", started.replica, _target(stage, started.node))
    assert "emptyDir" in (await stage.hear(RoomRefused)).reason


async def test_a_new_pod_that_fits_nowhere_is_refused_with_the_schedulers_words(cluster, api, stage):
    """So that the move goes back to the source; the pod that waits for the wrong node goes first."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await cluster.add_node("small", cpu="500m")
    await stage.hear(NodeObserved, node="small")
    destination = "small"
    _pin(cluster, lambda: destination)
    await stage.leave(started.replica, started.incarnation)
    await stage.hear(ReplicaGone)
    await stage.come(started.replica, "small")
    refused = await stage.hear(JobRefused, transaction="m-1")
    assert "nodes" in refused.reason
    destination = started.node
    await stage.leave(started.replica, None)
    await stage.hear(ReplicaGone, incarnation=None)
    await stage.come(started.replica, started.node)
    assert (await _again(stage, started)).node == started.node
    assert (await api.get(JOBS, "train", "default"))["spec"].get("suspend") is False


@pytest.mark.parametrize("make", [make_job, make_pod, make_stateful_set], ids=["job", "pod", "stateful-set"])
async def test_a_pod_that_came_without_a_sidecar_comes_again(cluster, api, stage, make):
    """Whatever kept the webhook from answering: the move goes on once it answers, and nothing failed."""
    await make(api, "train")
    started = await stage.hear(ReplicaStarted)
    target = _target(stage, started.node)
    came = ignored_by_webhook(cluster, 2)
    _pin(cluster, lambda: target)
    await stage.leave(started.replica, started.incarnation)
    await stage.hear(ReplicaGone)
    await stage.come(started.replica, target)
    again = await _again(stage, started, node=target)
    assert len(came) == 3
    assert not stage.said(JobRefused)
    await stage.until(lambda: len(cluster.pods(app="training")) == 1)
    assert [pod["metadata"]["uid"] for pod in cluster.pods(app="training")] == [again.incarnation]
    if make is make_job:
        assert (await api.get(JOBS, "train", "default"))["status"].get("failed", 0) == 0


async def test_a_pod_that_keeps_coming_without_a_sidecar_is_refused_and_goes_first(cluster, api, stage):
    """The webhook is away for longer: nobody would hear of the pod, and it is where it may be."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    came = ignored_by_webhook(cluster, 4)
    await stage.leave(started.replica, started.incarnation)
    await stage.hear(ReplicaGone)
    await stage.come(started.replica, _target(stage, started.node))
    refused = await stage.hear(JobRefused, transaction="m-1")
    assert "without a sidecar" in refused.reason
    assert len(came) == 4
    await stage.leave(started.replica, None)
    await stage.hear(ReplicaGone, incarnation=None)
    await stage.come(started.replica, started.node)
    again = await _again(stage, started)
    pods, _ = await api.list(PODS, "default", label_selector="app=training")
    assert [pod["metadata"]["uid"] for pod in pods] == [again.incarnation]
    assert (await api.get(JOBS, "train", "default"))["status"].get("failed", 0) == 0


@pytest.mark.parametrize("manager", ["the same", "the next"])
async def test_pods_without_a_sidecar_are_counted_from_what_the_order_says(cluster, api, stage, manager):
    """On the way back, and by the next manager, the count goes on: of three tries one is left here."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    came = ignored_by_webhook(cluster, 5)
    await stage.leave(started.replica, started.incarnation)
    await stage.hear(ReplicaGone)
    async with contextlib.AsyncExitStack() as stack:
        if manager == "the next":
            await stage.backend.end()
            following = Stage(api, settings=HASTY, state=stage.known(), keeper=stage.keeper)
            stage = await stack.enter_async_context(following)
        await stage.come(started.replica, started.node, missing_sidecars={R: 2})
        await stage.hear(JobRefused, transaction="m-1")
        said = stage.said(SidecarMissing, transaction="m-1")
        assert [(event.replica, event.count) for event in said] == [(R, 3)]
        assert len(came) == 2


async def test_orders_given_twice_do_the_same_once(cluster, api, stage):
    """A manager that was killed gives them again."""
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    target = _target(stage, started.node)
    for _ in range(2):
        await stage.hold("m-1", started.replica, target)
        await stage.hear(RoomHeld)
    for _ in range(2):
        await stage.leave(started.replica, started.incarnation)
        await stage.hear(ReplicaGone)
    for _ in range(2):
        await stage.come(started.replica, target)
        await _again(stage, started)
    assert len({event.incarnation for event in stage.said(ReplicaStarted)}) == 2
    assert len([pod for pod in cluster.pods() if pod["metadata"]["name"] == "train"]) == 1


@pytest.mark.parametrize("told", [None, "0007"])
async def test_an_end_of_what_is_not_there_is_answered(api, stage, told):
    """With its end, by the name that was given: there is nothing to wait for."""
    await make_job(api, "train")
    await stage.hear(ReplicaStarted)
    await api.patch(JOBS, "train", "default", {"spec": {"suspend": True}}, form="merge")
    await stage.hear(ReplicaGone)
    stage.events.clear()
    await stage.leave(R, told)
    assert (await stage.hear(ReplicaGone)).incarnation == told


async def test_what_nobody_creates_again_is_refused(api, stage):
    """A bare pod that somebody deleted before we had kept how to create it."""
    await make_pod(api, "train")
    await stage.hear(ReplicaStarted)
    stage.backend._ledger.await_return(R, awaited=True)
    await api.delete(PODS, "train", "default", grace_seconds=0)
    await stage.hear(ReplicaGone)
    await stage.come(R, "node-0")
    assert "nobody creates" in (await stage.hear(JobRefused)).reason
    await stage.hear(JobGone)


async def test_an_owner_that_is_deleted_in_the_middle_of_a_move_ends_it_quietly(api, stage):
    """That its job is gone is told; what is ordered of it then does nothing."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone)
    await api.delete(JOBS, "train", "default", propagation="Background")
    await stage.hear(JobGone)
    await stage.come(R, "node-0")
    await asyncio.sleep(0.2)
    assert not stage.said(JobRefused)


async def test_a_job_that_its_user_suspended_is_not_resumed(api, stage):
    """The start is refused, and says so."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await api.patch(JOBS, "train", "default", {"spec": {"suspend": True}}, form="merge")
    await stage.hear(ReplicaGone)
    await stage.come(started.replica, "node-0")
    assert "someone else suspended it" in (await stage.hear(JobRefused)).reason
    assert (await api.get(JOBS, "train", "default"))["spec"]["suspend"] is True


async def test_a_job_that_its_user_resumes_in_between_is_left_running(cluster, api, stage):
    """Our mark goes, nothing else."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(started.replica, started.incarnation)
    await stage.hear(ReplicaGone)
    await api.patch(JOBS, "train", "default", {"spec": {"suspend": False}}, form="merge")
    await stage.come(started.replica, "node-0")
    await _again(stage, started)

    def mark():
        job = cluster.store.get(FAKE_JOBS, ("default", "train"))
        return (job["metadata"].get("annotations") or {}).get("specon.io/suspended-for")

    await stage.until(lambda: mark() is None)
    assert len(cluster.pods(app="training")) == 1


async def test_a_manager_that_does_not_lead_changes_nothing(cluster, api, stage):
    """Whatever it is ordered."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    stage.leads = False
    revision = cluster.store.revision
    for order in (
        stage.hold("m-1", started.replica, "node-0"),
        stage.leave(started.replica, None),
        stage.come(started.replica, None),
        stage.release("m-1", started.replica, "node-0"),
    ):
        with pytest.raises(NotLeadingError):
            await order
    assert cluster.store.revision == revision


async def test_a_new_manager_gives_back_what_is_held_for_no_move(cluster, api):
    """Placeholders are deleted; a job that was suspended for a move that is not in flight is resumed."""
    async with Stage(api, settings=HASTY) as first:
        await make_job(api, "train")
        started = await first.hear(ReplicaStarted)
        await first.hold("m-1", started.replica, _target(first, started.node))
        await first.hear(RoomHeld)
        await first.leave(started.replica, started.incarnation)
        await first.hear(ReplicaGone)
    assert cluster.store.get(FAKE_JOBS, ("default", "train"))["spec"]["suspend"] is True
    async with Stage(api, settings=HASTY) as second:
        await second.hear(ReplicaStarted)
        await second.until(lambda: cluster.pod(placeholder_name("m-1", R)) is None)
    assert cluster.store.get(FAKE_JOBS, ("default", "train"))["spec"]["suspend"] is False


async def test_a_new_manager_leaves_a_job_suspended_whose_move_is_in_flight(cluster, api):
    """Its order to start comes."""
    keeper = Keeper()
    async with Stage(api, settings=HASTY, keeper=keeper) as first:
        await make_job(api, "train")
        started = await first.hear(ReplicaStarted)
        keeper.references[started.replica] = {"name": "train-1"}
        await first.leave(started.replica, started.incarnation)
        await first.hear(ReplicaGone)
        job = await api.get(JOBS, "train", "default")
        assert job["metadata"]["annotations"]["specon.io/suspended-for"] == "m-1"
        spec = first.said(JobObserved)[-1].spec
    known = _state_with(spec)
    async with Stage(api, settings=HASTY, state=known, keeper=keeper) as second:
        await asyncio.sleep(0)
        assert cluster.store.get(FAKE_JOBS, ("default", "train"))["spec"]["suspend"] is True
        await second.come(started.replica, None)
        await second.hear(ReplicaStarted, replica=started.replica)


def _state_with(spec):
    from specon_manager.core.step import step  # noqa: PLC0415  (only this test needs a state)
    from specon_manager.model.events import JobObserved as Observed  # noqa: PLC0415

    return step(State(), Observed(spec), 0.0)[0]


async def test_nodes_that_go_and_change_are_told(cluster, api, stage):
    """Cordoned is not ready."""
    await stage.hear(NodeObserved, node="node-1", ready=True)
    await api.patch(NODES, "node-1", None, {"spec": {"unschedulable": True}}, form="merge")
    await stage.hear(NodeObserved, node="node-1", ready=False)
    await api.delete(NODES, "node-1")
    await stage.hear(NodeGone, node="node-1")


async def test_pods_that_slipped_through_the_webhook_are_remarked(api, stage):
    """Once, and counted as long as they are there."""
    pod = template()
    pod["metadata"] |= {"name": "p", "labels": {}}
    await api.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, "default")
    await stage.until(lambda: stage.backend.not_injected == 1)
    await api.delete(PODS, "p", "default", grace_seconds=0)
    await stage.until(lambda: stage.backend.not_injected == 0)
    assert [remark[1:3] for remark in stage.remarks] == [("p", "NotInjected")]


async def test_a_deleted_job_is_gone(api, stage):
    """With its pods."""
    await make_job(api, "train")
    await stage.hear(ReplicaStarted)
    await api.delete(JOBS, "train", "default", propagation="Background")
    await stage.hear(JobGone, job="default/train")


async def test_without_holding_room_a_move_begins_at_once(cluster, api):
    """Everything else is asked all the same."""
    settings = msgspec.structs.replace(HASTY, rooms=RoomSettings(hold=False))
    async with Stage(api, settings=settings) as stage:
        await make_pod(api, "train")
        started = await stage.hear(ReplicaStarted)
        await stage.hold("m-1", started.replica, _target(stage, started.node))
        assert stage.said(RoomHeld)
        assert cluster.pod(placeholder_name("m-1", R)) is None
