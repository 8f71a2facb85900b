"""A job whose replicas train as one moves as a whole, from one step, or not at all."""

import msgspec
import pytest

from specon_manager.core.requested_moves import answer_to, answer_to_job
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    EvictReplica,
    HoldRoom,
    Migrate,
    MigrateGang,
    PlaceJob,
    Refusal,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
)
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import RESUMED, Kind, TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Hang
from support.decisions.changed_worlds import SETTINGS, W0, W1, G, change_of, owned, runs, trains_on
from support.decisions.cluster import DIGEST, Cluster
from support.decisions.gangs import gang, on, phases

HANG = Hang(age=1.0, silent=60.0, usual=1.0)
FIXED = {"resizing": "none", "workers": 2, "most": 2, "fewest": None}


def saved(step=100):
    return Checkpoint(step=step, path="/c", digest=DIGEST)


def move(cluster, placement, purpose="migrate"):
    return cluster.propose(MigrateGang(job=G, placement=placement, purpose=purpose, reason="room"))


def nodes_of(cluster):
    return {name: replica.node for name, replica in cluster.state.replicas.items()}


def of_kind(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def test_a_gang_moves_whole_from_the_step_that_its_lead_saved():
    """Room for all, one checkpoint, all end before any starts, and each is heard before it is a success."""
    with runs(**FIXED) as cluster:
        actions = move(cluster, on("node-1", W0, W1))
        assert {(each.replica, each.node) for each in of_kind(actions, HoldRoom)} == {
            (W0, "node-1"),
            (W1, "node-1"),
        }
        cluster.carry_out()
        change = change_of(cluster)
        assert (change.kind, change.whole, change.restart) == (Kind.MOVE, True, True)
        assert list(change.witnesses) == [W0]
        ordered = cluster.acknowledge(W0, checkpoint=saved())
        assert {each.replica for each in of_kind(ordered, EvictReplica)} == {W0, W1}
        assert not of_kind(ordered, StartReplica)
        started = cluster.die(W0, 143, evicted=True)
        assert not of_kind(started, StartReplica), "one is there still"
        started = cluster.die(W1, 143, evicted=True)
        assert {(each.replica, each.node) for each in of_kind(started, StartReplica)} == {
            (W0, "node-1"),
            (W1, "node-1"),
        }
        cluster.orders.clear()
        for order in of_kind(started, StartReplica):
            cluster._carry_out(order)
        cluster.report(W0, step=101)
        assert change_of(cluster).state is TransactionState.VERIFYING, "worker 1 was not heard yet"
        cluster.report(W1, step=None)
        over = cluster.state.history[-1]
        assert (over.state, over.steps_lost) == (TransactionState.SUCCEEDED, 0)
        assert nodes_of(cluster)[W0] == nodes_of(cluster)[W1] == "node-1"


def test_what_had_to_be_killed_is_on_record():
    """A replica that outlives its grace period has lost what it trained since the checkpoint."""
    with runs(**FIXED) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.acknowledge(W0, checkpoint=saved())
        gone = cluster._end(W1, None, evicted=True)
        cluster.post(msgspec.structs.replace(gone, killed=True))
        assert change_of(cluster).killed == (W1,)


def test_its_trainer_is_asked_to_pause():
    """So long it waits after the save: what it would train until it is told to end would be lost."""
    with runs(**FIXED) as cluster:
        move(cluster, on("node-1", W0, W1))
        for hold in of_kind(list(cluster.orders), HoldRoom):
            cluster.carry_out_one(hold)
        (asked,) = of_kind(cluster.orders, RequestCheckpoint)
        assert asked.pause == cluster.state.settings.deadlines.pause > 0


def test_one_replica_of_a_gang_takes_all_of_it_along():
    """A policy that moves one moves the job: the others end, and start again where they are."""
    with runs(**FIXED) as cluster:
        cluster.propose(Migrate(replica=W1, target="node-2", purpose="migrate", reason="room"))
        change = change_of(cluster)
        assert change.whole
        assert dict(change.after) == {W0: "node-0", W1: "node-2"}
        assert change.moved == (W1,)
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.settle(1)
        trains_on(cluster, 101)
        assert change_of(cluster).state is TransactionState.SUCCEEDED
        assert nodes_of(cluster) == {W0: "node-0", W1: "node-2"}
        assert {cluster.state.replicas[name].starts for name in (W0, W1)} == {2}


def test_what_could_not_start_holds_no_room_there_on_the_way_back():
    """It holds that of its former node, where it starts again; others may have what is free on the target."""
    with runs(**FIXED) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.die(W0, 143, evicted=True)
        started = of_kind(cluster.die(W1, 143, evicted=True), StartReplica)
        cluster.orders.clear()
        (order,) = [each for each in started if each.replica == W0]
        cluster.post(ev.StartRefused(replica=W0, start=order.start, reason="no such image"))
        replica = cluster.state.replicas[W0]
        assert (change_of(cluster).attempt, replica.phase) == (2, Phase.PENDING)
        assert (replica.node, replica.holds) == ("node-0", True)


def test_parts_of_different_steps_are_no_checkpoint():
    """Where each worker saves a part, all parts are of one step, or nothing ends."""
    with runs(**FIXED, savers="all") as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        assert list(change_of(cluster).witnesses) == [W0, W1]
        assert not of_kind(cluster.acknowledge(W0, checkpoint=saved(100)), EvictReplica)
        cluster.acknowledge(W1, checkpoint=saved(101))
        over = cluster.state.history[-1]
        assert over.state is TransactionState.ROLLED_BACK
        assert over.note == f"they saved at different steps: {W0} at 100, {W1} at 101"
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def test_one_rank_that_cannot_save_rolls_all_of_it_back():
    """All train on where they are."""
    with runs(**FIXED, savers="all") as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.acknowledge(W1, done=False, reason="disk full")
        assert cluster.state.history[-1].note == "no checkpoint: disk full"
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def test_parts_of_one_step_let_it_move():
    """The last answer lets all of it go, and its first worker alone logs the steps that prove it."""
    with runs(**FIXED, savers="all") as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.acknowledge(W1, checkpoint=saved())
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.settle(1)
        cluster.report(W0, step=101)
        cluster.report(W1, step=None)
        over = change_of(cluster)
        assert (over.state, over.steps_lost) == (TransactionState.SUCCEEDED, 0)


def test_a_gang_whose_target_is_lost_goes_back_whole():
    """Its room was kept, and all of it trains where it was."""
    with runs(**FIXED) as cluster:
        move(cluster, {W0: "node-1", W1: "node-2"})
        cluster.carry_out()
        cluster.may_carry_out = lambda action: not isinstance(action, StartReplica)
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.carry_out()
        known = cluster.state.nodes["node-2"]
        cluster.post(ev.NodeObserved(node="node-2", capacity=known.capacity, usage=known.usage, ready=False))
        cluster.may_carry_out = lambda action: True
        cluster.settle(2)
        trains_on(cluster, 101)
        over = change_of(cluster)
        assert over.state is TransactionState.ROLLED_BACK
        assert nodes_of(cluster) == {W0: "node-0", W1: "node-0"}
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def test_a_gang_is_not_ended_when_the_node_of_one_that_stays_is_lost():
    """It begins anew there like the others: the move is refused while all of it still runs."""
    with owned(resizing="none", most=2, fewest=None) as cluster:
        cluster.propose(Migrate(replica=W1, target="node-2", purpose="migrate", reason="room"))
        cluster.post(ev.NodeGone(node="node-0"))
        over = cluster.state.history[-1]
        assert (over.state, over.moved) == (TransactionState.ROLLED_BACK, (W1,))
        assert "node-0" in over.note
        assert not any(order.ending for order in of_kind(cluster.orders, PlaceJob))


def test_a_gang_does_not_leave_in_part_when_the_node_of_one_that_would_stay_is_lost():
    """All of it would start again, and the node of the one that stays takes nothing."""
    with runs(**FIXED) as cluster:
        known = cluster.state.nodes["node-0"]
        cluster.post(ev.NodeObserved(node="node-0", capacity=known.capacity, usage=known.usage, ready=False))
        assert move(cluster, {W0: "node-1", W1: "node-0"}) == []
        said = cluster.state.verdicts[G]
        assert said.refusal is Refusal.NODE_NOT_READY
        assert said.reason == f"node node-0, where {W1} is to run, is not ready"


def test_room_is_kept_on_both_sides_until_it_is_proven():
    """Nobody takes the way back, nor the room on the target."""
    with runs(**FIXED) as cluster:
        cluster.report(W0, step=100)
        move(cluster, on("node-1", W0, W1))
        snapshot = cluster.state.snapshot(cluster.now)
        assert snapshot.room("node-0").cpu == snapshot.room("node-1").cpu == 2.0
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.carry_out()
        snapshot = cluster.state.snapshot(cluster.now)
        assert snapshot.room("node-0").cpu == snapshot.room("node-1").cpu == 2.0


def test_what_is_left_of_a_gang_is_ended_however_old_the_checkpoint_has_grown():
    """A manager that was frozen between two orders to end must not leave half of a gang waiting for ever."""
    with runs(**FIXED) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=saved())
        for order in of_kind(list(cluster.orders), EvictReplica):
            cluster.carry_out_one(order)
            cluster.now += 1.5 * cluster.state.settings.deadlines.checkpoint_age
        assert sorted(cluster.live) == [W1]
        cluster.settle(3)
        trains_on(cluster, 101)
        assert change_of(cluster).state is TransactionState.SUCCEEDED
        assert nodes_of(cluster) == {W0: "node-1", W1: "node-1"}


def one_ends_slowly(cluster):
    """Let one of two obey while the order to end the other expires: new checkpoints are asked for first."""
    move(cluster, on("node-1", W0, W1))
    cluster.carry_out()
    for name in (W0, W1):
        cluster.acknowledge(name, checkpoint=saved())
    first, _ = of_kind(list(cluster.orders), EvictReplica)
    cluster.orders.clear()
    cluster.now += 1.5 * cluster.state.settings.deadlines.checkpoint_age
    cluster._carry_out(first)
    assert change_of(cluster).asks == 2


def test_the_rest_of_a_gang_follows_one_that_ended_while_new_checkpoints_are_asked_for():
    """Nobody can answer who waits for a peer that is gone: the checkpoints at hand have to do."""
    with runs(**FIXED, savers="all") as cluster:
        one_ends_slowly(cluster)
        ordered = cluster.die(W1, 143, evicted=True)
        (last,) = of_kind(ordered, EvictReplica)
        assert (last.replica, last.fresh_until) == (W0, None)
        cluster.settle(2)
        trains_on(cluster, 101)
        assert change_of(cluster).state is TransactionState.SUCCEEDED
        assert {each.checkpoint.step for each in change_of(cluster).witnesses.values()} == {100}


def test_a_gang_of_which_one_saved_anew_and_the_other_ended_goes_back():
    """Their parts are of different steps by now: none of them is a checkpoint that could be proven."""
    with runs(**FIXED, savers="all") as cluster:
        one_ends_slowly(cluster)
        cluster.acknowledge(W0, checkpoint=saved(105))
        cluster.die(W1, 143, evicted=True)
        cluster.settle(2)
        trains_on(cluster, 106)
        over = change_of(cluster)
        assert over.state is TransactionState.ROLLED_BACK
        assert over.note == f"they saved at different steps: {W1} at 100, {W0} at 105"
        assert nodes_of(cluster) == {W0: "node-0", W1: "node-0"}
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


def test_an_owner_gets_one_order_for_all_of_it():
    """First that nothing runs, then where each runs."""
    with owned(resizing="none", most=2, fewest=None) as cluster:
        before = {name: live.incarnation for name, live in cluster.live.items()}
        move(cluster, on("node-1", W0, W1))
        for hold in of_kind(list(cluster.orders), HoldRoom):
            cluster.carry_out_one(hold)
        cluster.carry_out()
        ordered = cluster.acknowledge(W0, checkpoint=saved())
        (gone,) = of_kind(ordered, PlaceJob)
        assert gone.placement == {}
        assert set(gone.ending) == {W0, W1}
        cluster.carry_out()
        cluster.reconcile(G)
        cluster.settle(2)
        trains_on(cluster, 101)
        assert change_of(cluster).state is TransactionState.SUCCEEDED
        assert nodes_of(cluster) == {W0: "node-1", W1: "node-1"}
        assert not {live.incarnation for live in cluster.live.values()} & set(before.values())


def test_what_came_beside_a_gang_and_is_named_no_more_stays_where_the_move_is_given_up():
    """It was told to end with the others: that is taken back with theirs."""
    with owned(resizing="none", most=2, fewest=None) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.orders.clear()
        spec, third = cluster.specs[G], f"{G}/worker/2"
        cluster.observe(msgspec.structs.replace(spec, replicas=(W0, W1, third)))
        cluster.appears(third, "node-2")
        assert cluster.state.replicas[third].leaving is not None
        cluster.observe(msgspec.structs.replace(spec, present=None))
        cluster.post(ev.JobRefused(job=G, transaction=change_of(cluster).id, reason="a budget"))
        assert change_of(cluster).state is TransactionState.ROLLED_BACK
        assert not [name for name, each in cluster.state.replicas.items() if each.leaving is not None]


@pytest.mark.parametrize("gone", [(), (W0,), (W0, W1)], ids=["nothing", "one", "all"])
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_a_gang_that_its_user_lets_run_meanwhile_is_its_users(gone, back):
    """Wherever its move stands: nothing is ordered but that it runs, and nothing of it ends by that."""
    with owned(resizing="none", most=2, fewest=None) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.may_carry_out = lambda action: not isinstance(action, PlaceJob)
        cluster.acknowledge(W0, checkpoint=saved())
        if back:
            cluster.die(W0, 143, evicted=True)
            cluster.post(ev.JobRefused(job=G, transaction=change_of(cluster).id, reason="a budget"))
            assert (change_of(cluster).attempt, change_of(cluster).state) == (2, TransactionState.LEAVING)
        for name in gone:
            if name in cluster.live:
                cluster.die(name, 143, evicted=True)
        cluster.orders.clear()
        ordered = cluster.post(ev.JobRefused(job=G, transaction=change_of(cluster).id, reason=RESUMED))
        over = change_of(cluster)
        assert over.state is TransactionState.ROLLED_BACK
        assert over.note == ("a budget" if back else RESUMED)
        (order,) = of_kind(ordered, PlaceJob)
        assert (order.transaction, order.ending, order.placement) == ("", {}, {W0: None, W1: None})
        assert not [name for name, each in cluster.state.replicas.items() if each.leaving is not None]
        cluster.may_carry_out = lambda action: True
        cluster.carry_out()
        cluster.reconcile(G)
        cluster.settle(2)
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running"}


@pytest.mark.parametrize("present", [None, 3], ids=["by names", "by number"])
@pytest.mark.parametrize("hangs", [True, False], ids=["restarted", "moved"])
def test_a_gang_that_its_owner_enlarges_meanwhile_is_left_to_its_owner(hangs, present):
    """A new worker is no part of what was to run: it would be ended, and nobody would start it."""
    with owned(resizing="none", most=2, fewest=None, on_hang="restart" if hangs else "report") as cluster:
        if hangs:
            cluster.report(W0, step=110)
            cluster.report(W1, step=110)
            cluster.now += 60
            for name in (W0, W1):
                cluster.report(name, step=None, hang=HANG, checkpoint=saved())
            cluster.tick()
        else:
            move(cluster, on("node-1", W0, W1))
            cluster.carry_out()
            cluster.acknowledge(W0, checkpoint=saved())
        assert change_of(cluster).state is TransactionState.LEAVING
        spec, third = cluster.specs[G], f"{G}/worker/2"
        cluster.observe(msgspec.structs.replace(spec, replicas=(W0, W1, third), present=present))
        over = change_of(cluster)
        assert over.state is TransactionState.ROLLED_BACK
        assert over.note == "its owner changed the number of its workers to 3 meanwhile"
        cluster.carry_out()
        cluster.reconcile(G)
        cluster.settle(2)
        assert set(cluster.live) == {W0, W1, third}
        assert phases(cluster, "g") == {"worker0": "Running", "worker1": "Running", "worker2": "Running"}


def test_room_on_a_node_that_nothing_landed_on_is_given_back_though_the_manager_was_killed():
    """The scheduler puts all of it where it ran before: at the end no replica has moved."""
    with owned(resizing="none", most=2, fewest=None) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.scheduled = "node-0"
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.may_carry_out = lambda action: not isinstance(action, ReleaseRoom)
        cluster.carry_out()
        cluster.may_carry_out = lambda action: True
        cluster.restart_manager()
        assert cluster.room
        trains_on(cluster, 101)
        cluster.carry_out()
        assert change_of(cluster).state is TransactionState.ROLLED_BACK
        assert not cluster.room


def test_gangs_of_eight_are_moved_with_the_default_budgets():
    """A gang counts once, in the cluster and on each of its nodes."""
    with runs(resizing="none", workers=2, most=2, fewest=None) as cluster:
        busy = msgspec.structs.replace(
            cluster.state.settings.budgets, moves_at_once=1, moves_at_once_per_node=1
        )
        settings = msgspec.structs.replace(cluster.state.settings, budgets=busy)
        cluster.post(ev.ManagerStarted("again", settings))
        move(cluster, {W0: "node-1", W1: "node-2"})
        assert change_of(cluster).in_flight
        snapshot = cluster.state.snapshot(cluster.now)
        assert len(snapshot.moves) == 1
        assert snapshot.busy == {"node-0": 1, "node-1": 1, "node-2": 1}


@pytest.mark.parametrize(
    ("event", "after"),
    [
        ({"job": G, "targets": ("node-2", "node-3")}, {W0: "node-2", W1: "node-2"}),
        ({"job": G}, {W0: "node-1", W1: "node-1"}),
        ({"replica": W1, "target": "node-3"}, {W0: "node-0", W1: "node-3"}),
        ({"replica": W1}, {W0: "node-1", W1: "node-1"}),
    ],
)
def test_what_a_person_asks_for(event, after):
    """A job goes to nodes or off its own; one replica to its node, or off it with all that share it."""
    with runs(**FIXED) as cluster:
        if "job" in event:
            assert answer_to_job(cluster.state, G, event.get("targets", ()), cluster.now) == (after, "")
        else:
            target, _ = answer_to(cluster.state, event["replica"], event.get("target"), cluster.now)
            assert target == after[event["replica"]]
        cluster.post(ev.MoveRequested(id="mine", **event))
        change = change_of(cluster)
        assert (change.id, change.policy, change.state) == ("mine", "request", TransactionState.PROPOSED)
        assert dict(change.after) == after


def test_a_gang_over_two_nodes_that_are_drained_leaves_both_by_one_move():
    """All of it starts again: it could not do so where it stays, and would leave twice."""
    with runs(**FIXED) as cluster:
        there = msgspec.structs.replace(cluster.state.replicas[W1], node="node-1")
        state = cluster.state.with_replica(there)
        drained = {
            name: msgspec.structs.replace(state.nodes[name], ready=False) for name in ("node-0", "node-1")
        }
        state = msgspec.structs.replace(state, nodes={**state.nodes, **drained})
        state, _ = step(state, ev.MoveRequested(id="drain", replica=W1, leave="node-1"), cluster.now)
        assert dict(state.transactions["drain"].after) == on("node-2", W0, W1)


def test_one_that_is_to_leave_its_node_waits_for_the_move_of_its_gang():
    """Also while it starts elsewhere: only the end of that move tells whether it has left."""
    with runs(**FIXED) as cluster:
        move(cluster, on("node-1", W0, W1))
        cluster.post(ev.MoveRequested(id="evict", replica=W1, leave="node-0"))
        cluster.carry_out()
        cluster.may_carry_out = lambda action: not isinstance(action, StartReplica)
        cluster.acknowledge(W0, checkpoint=saved())
        cluster.carry_out()
        cluster.tick()
        assert cluster.state.replicas[W1].phase is Phase.STARTING
        assert "evict" in cluster.state.requests
        cluster.may_carry_out = lambda action: True
        cluster.carry_out()
        trains_on(cluster, 101)
        cluster.tick()
        assert cluster.state.history[-1].note == "it has left node-0"


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"job": "default/none"}, "there is no job default/none"),
        ({"job": G, "targets": ("node-9",)}, "no room for all 2 replicas on node-9: node node-9 is unknown"),
        ({"job": G, "targets": ("node-0",)}, "the whole job runs where it is to go"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_words(event, why):
    """The request is in the history, and says why nothing came of it."""
    with runs(**FIXED) as cluster:
        cluster.post(ev.MoveRequested(id="mine", **event))
        over = cluster.state.history[-1]
        assert (over.id, over.state, over.note) == ("mine", TransactionState.REFUSED, why)


def test_a_person_need_not_wait_until_a_gang_has_rested():
    """After a move that came to nothing policies wait; who asks for one by hand does not."""
    with runs(**FIXED) as cluster:
        rest = msgspec.structs.replace(cluster.state.settings.budgets, retry_cooldown=30.0)
        settings = msgspec.structs.replace(cluster.state.settings, budgets=rest)
        cluster.post(ev.ManagerStarted("again", settings))
        move(cluster, on("node-1", W0, W1))
        cluster.carry_out()
        cluster.acknowledge(W0, done=False, reason="disk full")
        cluster.propose(MigrateGang(job=G, placement=on("node-1", W0, W1), purpose="p", reason="again"))
        assert cluster.state.verdicts[G].refusal is Refusal.COOLDOWN
        cluster.post(ev.MoveRequested(id="mine", job=G))
        assert change_of(cluster).id == "mine"
        assert change_of(cluster).in_flight


def test_a_gang_that_was_changed_rests_before_a_policy_moves_it():
    """However long its replicas have been where they are."""
    with runs(**FIXED) as cluster:
        rests = msgspec.structs.replace(cluster.state.jobs[G], cooldown_until=cluster.now + 60.0)
        cluster.state = cluster.state.with_job(rests)
        move(cluster, on("node-1", W0, W1))
        assert cluster.state.verdicts[G].refusal is Refusal.COOLDOWN
        assert not cluster.state.transactions


def test_replicas_that_train_by_themselves_are_not_moved_as_one():
    """Each has its own checkpoint."""
    with runs(**FIXED, coupled=False) as cluster:
        move(cluster, on("node-1", W0, W1))
        assert cluster.state.verdicts[G].refusal is Refusal.COUPLED


def test_a_gang_that_saves_in_parts_when_told_to_end_is_not_moved():
    """Nobody could say beforehand that the parts are of one step."""
    with runs(**FIXED, savers="all", checkpointing="on-termination") as cluster:
        move(cluster, on("node-1", W0, W1))
        assert cluster.state.verdicts[G].refusal is Refusal.NO_CHECKPOINT


def test_a_manager_that_was_killed_in_any_state_ends_the_move():
    """Whatever was ordered and not carried out is ordered again."""
    for stop in range(6):
        with runs(**FIXED) as cluster:
            move(cluster, on("node-1", W0, W1))
            cluster.sidecars_answer = True
            for _ in range(stop):
                if cluster.orders:
                    cluster.carry_out_one(cluster.orders[0])
            cluster.restart_manager()
            cluster.settle(2)
            trains_on(cluster, 101)
            cluster.settle(1)
            assert change_of(cluster).state is TransactionState.SUCCEEDED, stop
            assert all(replica.phase is Phase.RUNNING for replica in cluster.state.replicas.values())


@pytest.mark.parametrize(("policy", "others"), [("specon", "xy"), ("progress", "y")])
def test_policies_move_converged_gangs(policy, others):
    """A gang that has converged leaves the node that it shares with a job that grows, within one move."""
    cluster = Cluster(nodes=2, cpus=1.0, settings=msgspec.structs.replace(SETTINGS, policy=policy))
    for name in others:
        cluster.post(ev.JobSubmitted(gang(name, 1, ps=0, cpu=0.0, resizing="none")))
        cluster.settle(2)
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0, cpu=0.0, resizing="none")))
    cluster.settle(2)
    crowded = cluster.state.replicas["default/y/worker/0"].node
    for name in (W0, W1):
        cluster.live[name].node = crowded
        cluster.state = cluster.state.with_replica(
            msgspec.structs.replace(cluster.state.replicas[name], node=crowded)
        )
    for _ in range(3):
        for name in sorted(cluster.live):
            category = Category.CONVERGED if name in {W0, W1} else Category.PROGRESSING
            step = (cluster.state.replicas[name].progress.step or 0) + 1
            cluster.report(name, category, step=step)
        cluster.settle(2)
    moves = [each for each in cluster.state.history if each.kind is Kind.MOVE]
    assert moves, nodes_of(cluster)
    assert (moves[0].job, moves[0].whole, moves[0].policy) == (G, True, policy)
    assert moves[0].state is TransactionState.SUCCEEDED
