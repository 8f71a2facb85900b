"""Single replicas that move, by every way of their owners: what permits an end, and what forbids it."""

import asyncio

import pytest

from fakekube.kinds import JOBS as FAKE_JOBS
from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import JOBS, NODES, PDBS, PODS
from specon_manager.model.events import (
    JobRefused,
    OrderExpired,
    ReplicaGone,
    ReplicaStarted,
    RoomHeld,
)
from support.kube.manifests import IGNORE_DISRUPTIONS
from support.kube.stage import HASTY, Stage, make_job, make_pod, make_stateful_set

R, R1 = "default/train/worker/0", "default/train/worker/1"
ONE_OF_EACH = [make_pod, make_job, make_stateful_set]


@pytest.fixture
async def api(cluster):
    made = Api(cluster.url, seconds=1.0)
    yield made
    await made.close()


def _lives(cluster, name="train"):
    """Return the pods that train and were not told to end."""
    return [pod for pod in cluster.pods(app="training") if not pod["metadata"].get("deletionTimestamp")]


async def _indexed(api, stage):
    """Make an Indexed Job of two independent pods, and return the incarnations of both."""
    await make_job(
        api,
        "train",
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        podFailurePolicy=IGNORE_DISRUPTIONS,
    )
    return [await stage.hear(ReplicaStarted, replica=name) for name in (R, R1)]


# -- what permits an end -------------------------------------------------------------------------


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_a_checkpoint_that_has_grown_old_permits_no_end(cluster, api, stage, make):
    """It is said once, and the pod trains on; a later order with a fresh one is carried out."""
    await make(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(R, started.incarnation, fresh_until=stage.now - 0.1)
    await stage.hear(OrderExpired, transaction="m-1")
    await asyncio.sleep(0.3)
    assert len(stage.said(OrderExpired)) == 1
    assert [pod["metadata"]["uid"] for pod in _lives(cluster)] == [started.incarnation]
    await stage.leave(R, started.incarnation, fresh_until=stage.now + 5.0)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_a_checkpoint_that_grows_old_while_the_api_server_is_away_permits_no_end(
    cluster, api, stage, make
):
    """The order came in time, and was tried; when the server is back a minute later, nothing is ended."""
    await make(api, "train")
    started = await stage.hear(ReplicaStarted)
    for method in ("GET", "POST", "PATCH"):
        cluster.faults.answer(503, method=method, path="/(pods|jobs)/train", times=10_000)
    await stage.leave(R, started.incarnation, fresh_until=stage.now + 10.0)
    await asyncio.sleep(0.3)
    stage.now += 60.0
    cluster.faults.clear()
    await stage.hear(OrderExpired, transaction="m-1")
    assert [pod["metadata"]["uid"] for pod in _lives(cluster)] == [started.incarnation]


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_a_manager_that_was_frozen_ends_nothing_by_an_old_checkpoint(cluster, api, stage, make):
    """It wakes up right before what it was about to write."""
    await make(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(R, started.incarnation, fresh_until=stage.now + 10.0)
    stage.leads = Frozen(stage)
    await stage.hear(OrderExpired)
    assert [pod["metadata"]["uid"] for pod in _lives(cluster)] == [started.incarnation]


class Frozen:
    """A process that is stopped for half a minute right before it asks whether it leads: it does."""

    def __init__(self, stage):
        self.stage = stage
        self.asleep = 30.0

    def __bool__(self):
        self.stage.now += self.asleep
        self.asleep = 0.0
        return True


async def test_a_budget_that_blocks_until_the_checkpoint_is_old_ends_nothing(cluster, api):
    """The retries look at the checkpoint each time."""
    patient = KubeSettings(eviction_patience=60.0)
    async with Stage(api, settings=patient) as stage:
        await make_stateful_set(api, "train")
        started = await stage.hear(ReplicaStarted)
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "training"}}}
        await api.create(PDBS, {"metadata": {"name": "never"}, "spec": budget}, "default")
        await cluster.settle()
        await stage.leave(R, started.incarnation, fresh_until=stage.now + 10.0)
        await asyncio.sleep(0.2)
        stage.now += 60.0
        await api.delete(PDBS, "never", "default")
        await cluster.settle()
        await stage.hear(OrderExpired)
        assert [pod["metadata"]["uid"] for pod in _lives(cluster)] == [started.incarnation]


async def test_what_is_on_its_way_out_is_not_said_to_be_too_old(cluster, api, stage):
    """It was told to end in time; that it takes long says nothing about its checkpoint."""
    cluster.kubelet.stop_seconds = 2.0
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(R, started.incarnation, fresh_until=stage.now + 10.0)
    await stage.until(lambda: not _lives(cluster))
    stage.now += 60.0
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    assert not stage.said(OrderExpired)


# -- what stands against it ----------------------------------------------------------------------


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_what_was_refused_is_not_tried_on_behind_the_cores_back(cluster, api, stage, make):
    """It was told that the pod trains on: that stays true when the budget lets it go a moment later."""
    await make(api, "train")
    started = await stage.hear(ReplicaStarted)
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "training"}}}
    await api.create(PDBS, {"metadata": {"name": "never"}, "spec": budget}, "default")
    await cluster.settle()
    await stage.leave(R, started.incarnation, fresh_until=stage.now + 60.0)
    assert "never" in (await stage.hear(JobRefused)).reason
    await api.delete(PDBS, "never", "default")
    await cluster.settle()
    await asyncio.sleep(2.5)
    assert [pod["metadata"]["uid"] for pod in _lives(cluster)] == [started.incarnation]


async def test_an_eviction_whose_answer_was_lost_is_looked_into(cluster, api, stage):
    """It was carried out: the pod that its owner made since is not evicted for it."""
    cluster.kubelet.stop_seconds = 1.5
    await make_stateful_set(api, "train")
    started = await stage.hear(ReplicaStarted)
    cluster.faults.drop(method="POST", path="eviction", carried_out=True)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    asked = [path for method, path in cluster.server.requests if method == "POST" and "eviction" in path]
    assert len(asked) == 1
    again = await stage.hear(ReplicaStarted, seconds=20.0)
    await stage.until(lambda: stage.said(ReplicaStarted)[-1].incarnation != started.incarnation)
    assert len(_lives(cluster)) == 1, again


async def test_a_creation_whose_answer_was_lost_makes_one_pod(cluster, api, stage):
    """The pod is a bare one, which nobody else creates."""
    await make_pod(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone)
    cluster.faults.drop(method="POST", path="/pods", carried_out=True)
    await stage.come(R, "node-1")
    await stage.until(lambda: len(stage.said(ReplicaStarted, node="node-1")) >= 1)
    assert {each.incarnation for each in stage.said(ReplicaStarted, node="node-1")} == {
        pod["metadata"]["uid"] for pod in _lives(cluster)
    }


# -- one of several ------------------------------------------------------------------------------


async def test_one_of_two_moves_and_the_other_trains_on(cluster, api, stage):
    """Neither its pod nor the number of its Job's workers is touched."""
    first, second = await _indexed(api, stage)
    others = {R: first.node}
    await stage.leave(R1, second.incarnation, others=others)
    await stage.hear(ReplicaGone, incarnation=second.incarnation)
    await stage.come(R1, second.node, others=others)
    await stage.until(lambda: len({each.incarnation for each in stage.said(ReplicaStarted)}) == 3)
    job = cluster.store.get(FAKE_JOBS, ("default", "train"))
    assert (job["spec"]["completions"], job["spec"].get("suspend")) == (2, False)
    assert first.incarnation in {pod["metadata"]["uid"] for pod in _lives(cluster)}
    assert {each.incarnation for each in stage.said(ReplicaGone)} == {second.incarnation}


async def test_two_that_leave_at_once_are_told_of_each_by_its_own_transaction(cluster, api, stage):
    """A budget lets one of them go; what is refused is the other one's move."""
    first, second = await _indexed(api, stage)
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "training"}}}
    await api.create(PDBS, {"metadata": {"name": "one"}, "spec": budget}, "default")
    await cluster.settle()
    cluster.kubelet.stop_seconds = 5.0
    await stage.leave(R, first.incarnation, move="m-1", others={R1: second.node})
    await stage.until(lambda: len(_lives(cluster)) == 1)
    both = {R: first.incarnation, R1: second.incarnation}
    stage.backend._book.moves[R1] = type(stage.backend._book.moves[R])("m-2", "any")
    await stage._order("m-2", R1, {}, ending=both, fresh_until=stage.now + 60.0)
    refused = await stage.hear(JobRefused)
    assert (refused.transaction, "one" in refused.reason) == ("m-2", True)
    assert [pod["metadata"]["uid"] for pod in _lives(cluster)] == [second.incarnation]


async def test_room_of_another_move_is_not_given_back(cluster, api, stage):
    """The order names every replica of the job; only what comes to its target makes its placeholder go."""
    first, second = await _indexed(api, stage)
    target = next(name for name in ("node-0", "node-1", "node-2") if name not in {first.node, second.node})
    await stage.hold("m-1", R, target)
    await stage.hold("m-2", R1, target)
    await stage.until(lambda: len(stage.said(RoomHeld)) == 2)
    await stage.come(R1, second.node, move="m-2", others={R: first.node})
    await asyncio.sleep(0.3)
    assert cluster.pod(placeholder_name("m-1", R)) is not None
    assert cluster.pod(placeholder_name("m-2", R1)) is not None


async def test_what_its_owner_cannot_place_by_itself_is_no_trouble_of_the_move(cluster, api, stage):
    """Another replica of the job waits for a node; it is in no transaction."""
    await make_stateful_set(api, "train", replicas=2)
    first = await stage.hear(ReplicaStarted, replica=R)
    second = await stage.hear(ReplicaStarted, replica=R1)
    for node in ("node-0", "node-1", "node-2"):
        await api.patch(NODES, node, None, {"spec": {"unschedulable": True}}, form="merge")
    await api.delete(PODS, "train-1", "default", grace_seconds=0)
    await stage.hear(ReplicaGone, replica=R1)
    await stage.come(R, first.node, others={R1: second.node})
    await stage.until(lambda: (stage.backend._ledger.live(R1) or first) is not first)
    await stage.until(lambda: stage.backend._ledger.live(R1).detail.unschedulable)
    await asyncio.sleep(1.5)
    assert not stage.said(JobRefused)


# -- when nothing is in flight any more ----------------------------------------------------------


async def test_a_move_that_is_given_up_lets_the_replica_run_anywhere(cluster, api, stage):
    """Also where nobody but us creates its pod, and where its owner is suspended."""
    for make, name in ((make_pod, "bare"), (make_job, "job")):
        await make(api, name)
        replica = f"default/{name}/worker/0"
        started = await stage.hear(ReplicaStarted, replica=replica)
        await stage.leave(replica, started.incarnation, move=f"m-{name}")
        await stage.hear(ReplicaGone, replica=replica)
        await stage.over(replica)
        await stage.until(
            lambda r=replica, s=started: (
                stage.said(ReplicaStarted, replica=r)[-1].incarnation != s.incarnation
            )
        )
    assert (await api.get(JOBS, "job", "default"))["spec"].get("suspend") is False


async def test_a_bare_pod_that_is_away_for_nothing_is_created_again_by_the_next_manager(cluster, api):
    """The move that took it away is over, and the order for it was lost."""
    async with Stage(api, settings=HASTY) as first:
        await make_pod(api, "train")
        started = await first.hear(ReplicaStarted)
        await first.leave(R, started.incarnation)
        await first.hear(ReplicaGone)
        state = first.known()
    async with Stage(api, settings=HASTY, keeper=first.keeper, state=state) as second:
        again = await second.hear(ReplicaStarted)
        assert again.incarnation != started.incarnation


async def test_orders_for_single_replicas_are_no_orders_here(stage):
    """All jobs are placed by their owners."""
    from specon_manager.model.actions import StartReplica  # noqa: PLC0415

    order = StartReplica(replica=R, start=1, node="node-0", template={}, reason="test")
    with pytest.raises(ValueError, match="placed by its owner"):
        await stage.backend.carry_out(order)
