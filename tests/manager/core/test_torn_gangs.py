"""Crashed members of a gang keep their room, start again in place, and never lock the rest of it for good."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.model.transactions import Kind, TransactionState
from specon_manager.policies.table import POLICIES
from support.decisions import told
from support.decisions.changed_worlds import OwnedTold
from support.decisions.cluster import Cluster
from support.decisions.gangs import gang, on, phases, worker
from support.decisions.told import Told, registered

DEADLINES = Deadlines(
    start=10, hold=5, checkpoint=10, eviction_margin=5, verify=20, crash_backoff=1, ready=30
)
PLACING = sorted(
    name for name, policy in POLICIES.items() if not policy.clairvoyant and name != "default-scheduler"
)
"""The policies that start waiting jobs as a whole."""


def settings(policy: str) -> Settings:
    return Settings(
        policy=policy,
        tick=1.0,
        budgets=Budgets(cooldown=0, retry_cooldown=1),
        gate=Gate(enabled=False),
        deadlines=DEADLINES,
    )


@pytest.mark.parametrize("policy", PLACING)
@pytest.mark.parametrize("resizing", ["at-once", "restart"])
def test_room_of_a_crashed_member_is_not_given_away(policy, resizing):
    """Another job that waits for exactly that room does not get it while the member pauses."""
    cluster = Cluster(nodes=1, cpus=2.0, settings=settings(policy))
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0, resizing=resizing)))
    cluster.tick()
    cluster.carry_out()
    assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}
    cluster.submit("other", requests=Resources(cpu=1.0))
    for _ in range(3):
        cluster.die(worker("g", 1), 1)
        cluster.settle(8)
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}
        assert cluster.state.replicas["default/other/worker/0"].phase is Phase.PENDING


@pytest.mark.parametrize("policy", PLACING)
def test_two_gangs_that_crash_in_turn_do_not_lock_each_other(policy):
    """Three crashes, and both train again within the longest pause after a crash."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=settings(policy))
    for name in "ab":
        cluster.post(ev.JobSubmitted(gang(name, 2, ps=0)))
    cluster.tick()
    cluster.carry_out()
    cluster.settle()
    for victim in (worker("a", 0), worker("b", 1), worker("a", 1)):
        cluster.die(victim, 1)
        cluster.tick()
    cluster.settle(12)
    for name in "ab":
        assert cluster.state.jobs[f"default/{name}"].trains_since is not None


def test_a_member_whose_node_is_lost_is_placed_elsewhere():
    """Its room is given up only when it is to start again and its node is not there."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=settings("fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 3, ps=0)))
    cluster.tick()
    cluster.carry_out()
    lost = next(r for r in cluster.state.replicas.values() if r.node == "node-1")
    cluster.die(lost.name, None)
    _ready(cluster, "node-1", ready=False)
    cluster.settle(4)
    assert cluster.state.replicas[lost.name].phase is Phase.PENDING  # node-0 is full
    _ready(cluster, "node-1", ready=True)
    cluster.settle(4)
    assert cluster.state.replicas[lost.name].phase is Phase.RUNNING


def test_a_gang_that_is_torn_for_too_long_is_put_back_whole():
    """Its other members idle: all of it waits again, from its checkpoint, and is admitted where it fits."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=settings("progress"))
    cluster.post(ev.JobSubmitted(gang("g", 3, ps=0, fewest=2, resizing="restart")))
    cluster.tick()
    cluster.carry_out()
    alone = next(r.name for r in cluster.state.replicas.values() if r.node == "node-1")
    cluster.die(alone, None)
    _ready(cluster, "node-1", ready=False)
    for _ in range(40):
        cluster.carry_out()
        cluster.tick()
    (over, *_) = [each for each in cluster.state.history if each.kind is Kind.PUT_BACK]
    assert over.state is TransactionState.SUCCEEDED
    assert f"{alone} has been missing" in over.reason
    cluster.settle(4)
    assert sorted(phases(cluster, "g").values()) == ["Absent", "Running", "Running"]
    assert cluster.state.jobs["default/g"].preemptions == 0


def test_a_member_that_was_told_to_end_before_it_was_seen_may_end_at_any_time():
    """So a refusal to end another one does not keep all as it was."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=settings("progress"))
    cluster.post(ev.JobSubmitted(gang("g", 3, ps=0, resizing="restart")))
    cluster.tick()
    cluster.carry_out()
    lost = next(r.name for r in cluster.state.replicas.values() if r.node == "node-1")
    late, there = sorted({worker("g", index) for index in range(3)} - {lost})
    cluster.die(lost, None)
    _ready(cluster, "node-1", ready=False)
    cluster.tick(DEADLINES.ready - 3)
    cluster.die(late, 1)
    cluster.tick(2)
    (start,) = cluster.orders
    assert isinstance(start, StartReplica)
    cluster.tick(1)
    (back,) = cluster.state.transactions.values()
    assert (back.kind, back.ending[late]) == (Kind.PUT_BACK, "")
    known = cluster.state.replicas[there].incarnation
    cluster.post(ev.EvictionRefused(replica=there, incarnation=known, reason="it hangs"))
    cluster.carry_out_one(start)
    assert cluster.state.replicas[late].phase is Phase.RUNNING
    assert cluster.state.transactions[back.id].state is TransactionState.LEAVING
    cluster.settle(3)
    assert cluster.state.history[-1].state is TransactionState.SUCCEEDED


def test_a_gang_that_trains_on_without_a_member_is_left_alone():
    """Elastic trainers go on with those that are left: to end them would lose what they do."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=settings("fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 3, ps=0, resizing="restart")))
    cluster.tick()
    cluster.carry_out()
    alone = next(r.name for r in cluster.state.replicas.values() if r.node == "node-1")
    cluster.die(alone, None)
    _ready(cluster, "node-1", ready=False)
    for number in range(60):
        for name in cluster.live:
            cluster.report(name, step=100 + number)
        cluster.carry_out()
        cluster.tick()
    assert not [each for each in cluster.state.history if each.kind is Kind.PUT_BACK]


def test_replicas_that_train_by_themselves_are_never_torn():
    """None of them waits for another."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=settings("fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 3, ps=0, coupled=False, resizing="restart")))
    cluster.tick()
    cluster.carry_out()
    alone = next(r.name for r in cluster.state.replicas.values() if r.node == "node-1")
    cluster.die(alone, None)
    _ready(cluster, "node-1", ready=False)
    for _ in range(60):
        cluster.carry_out()
        cluster.tick()
    assert not [each for each in cluster.state.history if each.kind is Kind.PUT_BACK]
    assert len(cluster.live) == 2


def test_nothing_is_started_again_during_a_pause_or_a_dry_run():
    """A replica that crashes waits for the end of the pause, in its room."""
    cluster = Cluster(nodes=1, cpus=2.0, settings=settings("fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0)))
    cluster.tick()
    cluster.carry_out()
    cluster.post(ev.Paused(reason="maintenance"))
    cluster.die(worker("g", 1), 1)
    cluster.submit("other", requests=Resources(cpu=1.0))
    cluster.settle(5)
    assert cluster.state.replicas[worker("g", 1)].holds
    cluster.post(ev.Paused(reason=None))
    dry = msgspec.structs.replace(settings("fifo"), dry_run=True)
    cluster.post(ev.ManagerStarted("dry", dry))
    cluster.settle(5)
    assert cluster.state.replicas[worker("g", 1)].holds
    cluster.post(ev.ManagerStarted("again", settings("fifo")))
    cluster.settle(3)
    assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def test_a_member_that_its_owner_restarts_keeps_its_room_meanwhile():
    """On Kubernetes the controller starts it again: until then nobody of ours takes its room."""
    cluster = OwnedTold(
        nodes=1, cpus=2.0, settings=msgspec.structs.replace(told.SETTINGS, deadlines=DEADLINES)
    )
    with registered(cluster.proposed):
        cluster.create(gang("g", 2, ps=0, held=False, present=2))
        cluster.start_all("node-0")
        cluster.prompt = False
        cluster.die(worker("g", 1), 1)
        for _ in range(3):
            cluster.tick()
        snapshot = cluster.state.snapshot(cluster.now)
        assert snapshot.room("node-0").cpu == 0.0
        cluster.tick(DEADLINES.ready)
        # Only its owner admits it, and it may never come back: the bound is the same.
        assert cluster.state.snapshot(cluster.now).room("node-0").cpu == 1.0


def test_an_admitted_gang_of_an_owner_that_stays_torn_is_put_back_and_admitted_again():
    """It is suspended as a whole, waits in its queue, and goes on from its checkpoint."""
    cluster = OwnedTold(
        nodes=2, cpus=4.0, settings=msgspec.structs.replace(told.SETTINGS, deadlines=DEADLINES)
    )
    with registered(cluster.proposed):
        cluster.create(gang("g", 2, ps=0, held=True, present=2))
        cluster.again("default/g", on("node-0", worker("g", 0), worker("g", 1)))
        assert cluster.state.jobs["default/g"].trains_since is not None
        cluster.prompt = False
        cluster.die(worker("g", 1), 1)
        for _ in range(45):
            cluster.tick()
            cluster.carry_out()
        assert cluster.state.history[-1].kind is Kind.PUT_BACK
        assert "default/g" in cluster.idle
        assert not cluster.state.jobs["default/g"].admitted
        cluster.again("default/g", on("node-1", worker("g", 0), worker("g", 1)))
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def test_the_end_of_a_start_that_was_never_seen_comes_before_the_next_one():
    """It is told to end until the backend says that it is gone; only then does it count as a crash."""
    cluster = Cluster(nodes=1, cpus=2.0, settings=settings("fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0)))
    cluster.tick()
    cluster.orders.clear()
    actions = cluster.tick(DEADLINES.start)
    assert {type(each) for each in actions} == {EvictReplica}
    assert all(cluster.state.replicas[worker("g", n)].crashes == 0 for n in (0, 1))
    assert not [each for each in cluster.tick(1.0) if isinstance(each, StartReplica)]
    cluster.carry_out()
    assert all(cluster.state.replicas[worker("g", n)].crashes == 1 for n in (0, 1))
    cluster.settle(4)
    assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def _ready(cluster: Told | Cluster, node: str, *, ready: bool) -> None:
    capacity = cluster.state.nodes[node].capacity
    cluster.post(ev.NodeObserved(node=node, capacity=capacity, usage=Resources(), ready=ready))
