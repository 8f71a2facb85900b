"""Gangs that move as a whole, by the object of their owner: who suspends, who resumes, whose edits win."""

import asyncio

import pytest

from fakekube.kinds import STATEFUL_SETS
from specon_manager.backends.kube.objects.annotation_keys import PINNED
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.backends.kube.transport.resources import JOBS as OF_JOBS
from specon_manager.backends.kube.transport.resources import PDBS
from specon_manager.core.state import State
from specon_manager.model.actions import HoldRoom, PlaceJob
from specon_manager.model.cluster import Job
from specon_manager.model.events import (
    JobObserved,
    JobRefused,
    OrderExpired,
    ReplicaGone,
    ReplicaStarted,
    RoomHeld,
    RoomRefused,
)
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import RESUMED, Kind, Transaction, TransactionState
from support.kube.job_objects import MOVED_AS_ONE, job_object
from support.kube.placing_stage import (
    admitting_pods,
    held_by_webhook,
    ignored_by_webhook,
    pinned_by_webhook,
)
from support.kube.stage import HASTY, Stage, template

COUPLED = {"specon.io/replicas": "coupled"}


@pytest.fixture
def cluster(cluster):
    cluster.train_jobs.runtimes["torch"] = template(COUPLED)
    return cluster


@pytest.fixture
def pins(cluster):
    return pinned_by_webhook(cluster)


class Gang:
    """A job of several pods that train as one, and the orders by which it moves."""

    def __init__(self, cluster, stage, kind, *, move="move-1"):
        self.cluster, self.stage, self.kind, self.move = cluster, stage, kind, move
        self.job, self.uids = "", {}

    async def made(self, workers, **changes):
        body = job_object(self.kind, workers, annotations=COUPLED)
        body["metadata"] = {"name": "train"}
        body["spec"] |= changes
        await self.cluster.machinery.create(MOVED_AS_ONE[self.kind], "default", body)
        number = workers + (self.kind in {"TFJob", "MPIJob"})
        await self.stage.until(lambda: len(self.runs()) == number)
        known = {event.replica: event for event in self.stage.said(ReplicaStarted)}
        await self.stage.until(lambda: len(self.stage.said(ReplicaStarted)) == number)
        known = {event.replica: event for event in self.stage.said(ReplicaStarted)}
        # Its owner may be seen later than its pods.
        await self.stage.until(lambda: self.stage.said(JobObserved)[-1].spec.coupling)
        self.job = self.stage.said(JobObserved)[-1].spec.name
        self.uids = {name: event.incarnation for name, event in known.items()}
        return self

    def runs(self):
        """Return the node of each replica whose pod runs."""
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in self.cluster.pods(app="training")
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        }

    async def order(self, placement, *, transaction=None, **fields):
        transaction = self.move if transaction is None else transaction
        given = {"grace_seconds": 30.0, "gang": bool(transaction), **fields}
        await self.stage.backend.carry_out(
            PlaceJob(job=self.job, transaction=transaction, placement=placement, reason="test", **given)
        )

    async def leave(self, **fields):
        await self.order({}, ending=dict(self.uids), **fields)

    async def come(self, node):
        await self.order(dict.fromkeys(self.uids, node))

    async def over(self):
        await self.order(dict.fromkeys(self.uids, None), transaction="")

    @property
    def object(self):
        return self.cluster.store.get(MOVED_AS_ONE[self.kind], ("default", "train"))

    @property
    def mark(self):
        return (self.object["metadata"].get("annotations") or {}).get("specon.io/suspended-for")

    @property
    def suspended(self):
        spec = self.object["spec"]
        if self.kind == "LeaderWorkerSet":
            return spec["replicas"] == 0
        return (spec.get("runPolicy") or spec).get("suspend") is True

    async def patched(self, **spec):
        """Let its user change it."""
        await self.cluster.machinery.patch(
            MOVED_AS_ONE[self.kind], ("default", "train"), "merge", {"spec": spec}
        )


@pytest.mark.parametrize("kind", sorted(MOVED_AS_ONE))
async def test_a_gang_of_each_kind_goes_as_a_whole_and_comes_as_a_whole_where_it_is_wanted(
    cluster, stage, pins, kind
):
    """Nothing of the new is there while anything of the old is, and its number of workers stays."""
    gang = await Gang(cluster, stage, kind).made(3)
    spec = stage.said(JobObserved)[-1].spec
    assert (spec.coupled, spec.immovable, spec.adjustable) == (True, "", False)
    before = gang.object["spec"]
    await gang.leave()
    await stage.until(lambda: len(stage.said(ReplicaGone)) == len(gang.uids))
    assert (gang.mark, gang.suspended, cluster.pods(app="training")) == ("move-1", True, [])
    assert all(event.evicted for event in stage.said(ReplicaGone))
    pins |= dict.fromkeys(gang.uids, "node-2")
    await gang.come("node-2")
    await stage.until(lambda: len(gang.runs()) == len(gang.uids))
    assert set(gang.runs().values()) == {"node-2"}
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == 2 * len(gang.uids))
    assert (gang.mark, gang.suspended) == (None, False)
    switch = {"suspend", "runPolicy"}
    assert gang.object["spec"].get("replicas") == before.get("replicas")
    kept = {key: value for key, value in gang.object["spec"].items() if key not in switch}
    assert kept == {key: value for key, value in before.items() if key not in switch}
    assert not stage.said(JobRefused)


@pytest.mark.parametrize("kind", sorted(MOVED_AS_ONE))
async def test_a_gang_of_which_one_came_without_a_sidecar_comes_again_as_a_whole(cluster, stage, pins, kind):
    """The others wait for a peer that does not report; none of them runs beside the pods that come next."""
    gang = await Gang(cluster, stage, kind).made(3)
    await gang.leave()
    await stage.until(lambda: len(stage.said(ReplicaGone)) == len(gang.uids))
    pins |= dict.fromkeys(gang.uids, "node-2")
    came, beside = ignored_by_webhook(cluster, 1), list[str]()

    def looked_around(pod):
        still = (each["metadata"] for each in cluster.pods(app="training"))
        beside.extend(each["name"] for each in still if each.get("deletionTimestamp"))
        if len(came) == len(gang.uids):  # one of its peers takes its time to end
            cluster.kubelet.deaf.add(pod["metadata"]["name"])
            pod["spec"]["terminationGracePeriodSeconds"] = 1
        return pod

    admitting_pods(cluster, looked_around)
    await gang.come("node-2")
    await stage.until(lambda: len(came) == 2 * len(gang.uids))
    await stage.until(lambda: len(gang.runs()) == len(gang.uids))
    uids = {pod["metadata"]["uid"] for pod in cluster.pods(app="training")}
    await stage.until(lambda: uids <= {event.incarnation for event in stage.said(ReplicaStarted)})
    assert (len(uids), set(gang.runs().values())) == (len(gang.uids), {"node-2"})
    assert (gang.mark, gang.suspended, beside) == (None, False, [])
    assert not stage.said(JobRefused)


async def test_the_number_of_workers_is_left_alone_where_some_of_them_are_complete(cluster, stage, pins):
    """An index that is done does not come again, and the Job is not shrunk for it."""
    gang = await Gang(cluster, stage, "Job").made(4)
    (last,) = [pod for pod in cluster.pods(app="training") if pod["metadata"]["name"].startswith("train-3-")]
    await cluster.kubelet.complete(last)
    await stage.hear(ReplicaGone, replica="default/train/worker/3")
    del gang.uids["default/train/worker/3"]
    await gang.leave()
    await stage.until(lambda: gang.mark == "move-1")
    await stage.until(lambda: not gang.runs())
    await gang.come("node-1")
    await stage.until(lambda: gang.mark is None and len(gang.runs()) == 3)
    assert (gang.object["spec"]["completions"], gang.object["spec"]["parallelism"]) == (4, 4)


async def test_room_that_is_held_is_given_to_each_pod_that_comes(cluster, stage, pins):
    """By the placeholder of its replica and its move."""
    gang = await Gang(cluster, stage, "Job").made(2)
    for name in gang.uids:
        await stage.backend.carry_out(
            HoldRoom(
                transaction="move-1",
                replica=name,
                node="node-2",
                requests=Resources(cpu=1.0),
                reason="test",
            )
        )
    await stage.until(lambda: len(stage.said(RoomHeld)) == 2)
    assert not stage.said(RoomRefused)
    await gang.leave()
    await stage.until(lambda: not gang.runs())
    placeholders = {placeholder_name("move-1", name) for name in gang.uids}
    held = {pod["metadata"]["name"] for pod in cluster.pods()}
    assert placeholders <= held
    pins |= dict.fromkeys(gang.uids, "node-2")
    await gang.come("node-2")
    await stage.until(lambda: set(gang.runs().values()) == {"node-2"} and len(gang.runs()) == 2)
    await stage.until(lambda: not placeholders & {pod["metadata"]["name"] for pod in cluster.pods()})


async def test_a_checkpoint_that_has_grown_old_permits_no_end_of_a_gang(cluster, stage):
    gang = await Gang(cluster, stage, "Job").made(3)
    await gang.leave(fresh_until=stage.now - 0.1)
    await stage.hear(OrderExpired, transaction="move-1")
    await asyncio.sleep(0.2)
    assert (gang.mark, gang.suspended, len(gang.runs())) == (None, False, 3)


async def test_a_disruption_budget_stands_against_a_gang_that_moves(cluster, api, stage):
    """Nothing is suspended, and all of it trains on."""
    gang = await Gang(cluster, stage, "Job").made(3)
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "training"}}}
    await api.create(PDBS, {"metadata": {"name": "one-at-a-time"}, "spec": budget}, "default")
    await cluster.settle()
    await gang.leave(fresh_until=stage.now + 60)
    refused = await stage.hear(JobRefused, transaction="move-1")
    assert "one-at-a-time" in refused.reason
    assert (gang.mark, len(gang.runs())) == (None, 3)


async def test_a_gang_that_its_user_resumes_meanwhile_is_not_suspended_again(cluster, stage):
    """It is said once nothing of it ends any more, and the user's word counts."""
    gang = await Gang(cluster, stage, "Job").made(3)
    slow = cluster.pods(app="training")[0]
    cluster.kubelet.deaf.add(slow["metadata"]["name"])
    await gang.leave()
    await stage.until(lambda: not gang.runs() and gang.mark == "move-1")
    await gang.patched(suspend=False)
    await asyncio.sleep(0.3)
    assert (gang.suspended, stage.said(JobRefused)) == (False, [])
    await cluster.kubelet.complete(slow, 143)
    refused = await stage.hear(JobRefused, transaction="move-1")
    assert refused.reason == RESUMED
    await stage.until(lambda: len(gang.runs()) == 3)
    await asyncio.sleep(0.2)
    assert not gang.suspended
    await gang.over()
    await stage.until(lambda: gang.mark is None)
    assert len(gang.runs()) == 3


async def test_a_gang_whose_former_pods_are_gone_when_its_user_resumes_it_trains_where_it_is_let_go(
    cluster, stage, pins
):
    """Its pods keep the node for which they wait, and none of them is ended again."""
    gang = await Gang(cluster, stage, "Job").made(3)
    for name in gang.uids:
        stage.backend._book.moving(
            HoldRoom(transaction="move-1", replica=name, node="node-2", requests=Resources(), reason="test")
        )
    await gang.leave()
    await stage.until(lambda: not gang.runs() and gang.mark == "move-1")
    pins |= dict.fromkeys(gang.uids, "node-2")
    held_by_webhook(cluster, PINNED)
    await gang.patched(suspend=False)
    await stage.until(lambda: len(cluster.pods(app="training")) == 3)
    came = {pod["metadata"]["uid"] for pod in cluster.pods(app="training")}
    await gang.come("node-2")
    refused = await stage.hear(JobRefused, transaction="move-1")
    assert (refused.reason, gang.runs()) == (RESUMED, {})
    await gang.over()
    await stage.until(lambda: gang.runs() == dict.fromkeys(came, "node-2"))
    assert (gang.mark, gang.suspended) == (None, False)


async def test_a_gang_that_waits_for_a_node_without_room_and_moves_no_more_comes_again_anywhere(
    cluster, stage, pins
):
    """The scheduler has had its time; a node once chosen cannot be taken from a pod."""
    await cluster.add_node("small", cpu="500m")
    gang = await Gang(cluster, stage, "Job").made(2)
    for name in gang.uids:
        stage.backend._book.moving(
            HoldRoom(transaction="move-1", replica=name, node="small", requests=Resources(), reason="test")
        )
    await gang.leave()
    await stage.until(lambda: not gang.runs() and gang.mark == "move-1")
    pins |= dict.fromkeys(gang.uids, "small")
    await gang.patched(suspend=False)
    await stage.until(lambda: len(cluster.pods(app="training")) == 2)
    came = {pod["metadata"]["uid"] for pod in cluster.pods(app="training")}
    pins.clear()
    await gang.over()
    await stage.until(lambda: len(gang.runs()) == 2)
    assert (gang.mark, gang.suspended) == (None, False)
    assert not came & gang.runs().keys()


async def test_a_gang_that_its_user_suspends_meanwhile_stays_suspended(cluster, stage, pins):
    """It stays suspended even when no change of it is in flight any more."""
    gang = await Gang(cluster, stage, "Job").made(3)
    await gang.leave()
    await stage.until(lambda: not gang.runs() and gang.mark == "move-1")
    cluster.kubelet.start_seconds = 1e6
    await gang.come("node-1")
    await stage.until(lambda: gang.mark is None)
    await gang.patched(suspend=True)
    refused = await stage.hear(JobRefused, transaction="move-1")
    assert refused.reason == "someone else suspended it"
    await gang.over()
    await asyncio.sleep(0.3)
    assert (gang.suspended, gang.mark) == (True, None)


async def test_what_is_over_is_resumed(cluster, stage):
    """A gang that failed on both ways runs as its owner says."""
    gang = await Gang(cluster, stage, "PyTorchJob").made(3)
    await gang.leave()
    await stage.until(lambda: not gang.runs() and gang.mark == "move-1")
    await gang.over()
    await stage.until(lambda: len(gang.runs()) == 3 and gang.mark is None)


async def test_pods_that_wait_for_another_node_than_is_wanted_now_are_replaced_as_a_whole(
    cluster, stage, pins
):
    """The webhook of a standby may have pinned them by what it knew last."""
    await cluster.add_node("small", cpu="500m")
    gang = await Gang(cluster, stage, "Job").made(2)
    for name in gang.uids:
        stage.backend._book.moving(
            HoldRoom(transaction="move-1", replica=name, node="small", requests=Resources(), reason="test")
        )
    await gang.leave()
    await stage.until(lambda: not gang.runs())
    pins |= dict.fromkeys(gang.uids, "small")
    await gang.come("node-1")
    await stage.until(lambda: len(cluster.pods(app="training")) == 2)
    pins |= dict.fromkeys(gang.uids, "node-1")
    await stage.until(lambda: set(gang.runs().values()) == {"node-1"} and len(gang.runs()) == 2)
    assert gang.mark is None


@pytest.mark.parametrize(
    "state",
    [TransactionState.LEAVING, TransactionState.COMING, TransactionState.VERIFYING, None],
)
async def test_a_manager_that_takes_over_goes_on_or_resumes_what_nothing_holds(cluster, api, pins, state):
    """Its mark is on record: a gang with a change in flight stays away, another one comes back."""
    async with Stage(api, settings=HASTY) as first:
        gang = await Gang(cluster, first, "Job").made(3)
        await gang.leave()
        await first.until(lambda: not gang.runs() and gang.mark == "move-1")
        known = first.known()
    gone = _known_later(known, gang, state)
    async with Stage(api, settings=HASTY, state=gone) as second:
        gang.stage = second
        if state is None:
            await second.until(lambda: len(gang.runs()) == 3 and gang.mark is None)
            return
        await asyncio.sleep(0.3)
        assert (gang.runs(), gang.mark) == ({}, "move-1")
        await gang.come("node-0")
        pins |= dict.fromkeys(gang.uids, "node-0")
        await second.until(lambda: len(gang.runs()) == 3 and gang.mark is None)
        job = await api.get(OF_JOBS, "train", "default")
        assert job["spec"]["completions"] == 3


def _known_later(known: State, gang: Gang, state: TransactionState | None) -> State:
    """Return what the next manager knows: with the move of the gang in that state, or without any."""
    jobs = {gang.job: Job(spec=known.jobs[gang.job].spec, order=0, submitted_at=0.0)}
    if state is None:
        return State(jobs=jobs, replicas=known.replicas)
    move = Transaction(
        id="move-1",
        kind=Kind.MOVE,
        job=gang.job,
        whole=True,
        restart=True,
        before=dict.fromkeys(gang.uids, "node-1"),
        after=dict.fromkeys(gang.uids, "node-0"),
        policy="test",
        reason="test",
        state=state,
        proposed_at=0.0,
        deadline=1e9,
        changing_at=1.0,
    )
    return State(jobs=jobs, replicas=known.replicas, transactions={"move-1": move})


async def test_a_stateful_set_that_trains_as_one_is_not_moved_and_says_why(cluster, stage):
    body = job_object("StatefulSet", 3, annotations={})
    body["metadata"] = {"name": "train", "namespace": "default"}
    pods = template(labels={"set": "train"})
    pods["spec"]["restartPolicy"] = "Always"
    body["spec"] |= {"serviceName": "train", "selector": {"matchLabels": {"set": "train"}}, "template": pods}
    await cluster.machinery.create(STATEFUL_SETS, "default", body)
    await stage.until(lambda: any(each.spec.coupling for each in stage.said(JobObserved)))
    spec = stage.said(JobObserved)[-1].spec
    assert spec.coupled
    assert spec.immovable.startswith("StatefulSet train cannot be suspended, and its 3 pods train as one")
