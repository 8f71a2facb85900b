"""Moves of replicas that their owners place: one order for all of the job, and the way back."""

import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import HoldRoom, PlaceJob, ReleaseRoom, WithdrawRequest
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from support.decisions.owned_moves import A1, MOVE, STATES, A, carry_out_placement, move_of, moving, running
from support.decisions.owners import Owners, described, placed

LETS_GO = [("", {A: None})]


def last(cluster):
    return cluster.state.history[-1]


def test_a_move_goes_through_hold_checkpoint_eviction_and_start():
    """The same transaction as for jobs of ours; room names the replica that it is held for."""
    cluster = running()
    actions = cluster.post(ev.MoveRequested(id=MOVE, replica=A, target="node-1"))
    held = [(each.transaction, each.replica, each.node) for each in actions if isinstance(each, HoldRoom)]
    assert held == [(MOVE, A, "node-1")]
    cluster.carry_out()
    assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING
    cluster.report(A, step=101)
    move = last(cluster)
    assert (move.state, move.policy, move.purpose, move.note) == (
        TransactionState.SUCCEEDED,
        "request",
        "requested",
        "",
    )
    cluster.carry_out()
    assert cluster.room == {}


def test_of_replicas_that_train_by_themselves_the_others_are_told_to_stay():
    """One order says of all of them where they run; which incarnation must go, it says by name."""
    cluster = moving(TransactionState.LEAVING, replicas=2)
    (order,) = [each for each in cluster.orders if placed([each])]
    assert (order.placement, order.ending) == ({A1: "node-0"}, {A: "uid-1"})
    assert order.fresh_until == cluster.now + cluster.state.settings.deadlines.checkpoint_age
    carry_out_placement(cluster)
    assert placed(cluster.orders) == [(MOVE, {A: "node-1", A1: "node-0"})]
    assert cluster.live[A1].incarnation == "uid-2"


def test_a_scheduler_that_knows_better_is_believed():
    """The target becomes the node where it runs, and the note says so; the room on the other is given up."""
    cluster = Owners(nodes=3)
    cluster.observe(described("a"))
    cluster.start_all("node-0")
    cluster.report(A, step=100)
    cluster.post(ev.MoveRequested(id=MOVE, replica=A, target="node-1"))
    cluster.scheduled = "node-2"
    cluster.carry_out()
    assert cluster.state.transaction_of(A).target == "node-2"
    assert cluster.room == {}
    cluster.report(A, step=101)
    move = last(cluster)
    assert (move.state, move.target, move.note) == (
        TransactionState.SUCCEEDED,
        "node-2",
        f"the scheduler put {A} on node-2",
    )


def test_a_scheduler_that_puts_it_back_has_not_moved_it():
    """On the source again the move is rolled back."""
    cluster = moving(TransactionState.COMING)
    cluster.scheduled = "node-0"
    carry_out_placement(cluster)
    cluster.report(A, step=101)
    assert (last(cluster).state, last(cluster).note) == (
        TransactionState.ROLLED_BACK,
        f"the scheduler put {A} on node-0",
    )


def test_a_refused_eviction_leaves_the_replica_where_it_trains():
    """Nothing was ended: a trainer that pauses trains on, the room is given back, its owner is let go."""
    cluster = moving(TransactionState.LEAVING)
    refused = ev.EvictionRefused(replica=A, incarnation="uid-1", reason="blocked by budget b")
    actions = cluster.post(refused)
    withdrawn, *others = [action for action in actions if not placed([action])]
    assert (type(withdrawn), withdrawn.release) == (WithdrawRequest, True)
    assert [type(action) for action in others] == [ReleaseRoom]
    assert placed(actions) == LETS_GO
    assert (last(cluster).state, last(cluster).note) == (TransactionState.ROLLED_BACK, "blocked by budget b")
    record = cluster.state.replicas[A]
    assert (record.phase, record.node, record.incarnation) == (Phase.RUNNING, "node-0", "uid-1")
    assert cluster.post(refused) == []


@pytest.mark.parametrize("stop", [state for state in STATES if state is not TransactionState.LEAVING])
def test_an_eviction_that_was_not_ordered_cannot_be_refused(stop):
    """In other states the event means nothing."""
    cluster = moving(stop)
    before = cluster.state
    incarnation = cluster.state.replicas[A].incarnation
    assert cluster.post(ev.EvictionRefused(replica=A, incarnation=incarnation, reason="no")) == []
    assert cluster.state == before


def test_the_refused_eviction_of_another_incarnation_is_no_news():
    """It may come late."""
    cluster = moving(TransactionState.LEAVING)
    before = cluster.state
    assert cluster.post(ev.EvictionRefused(replica=A, incarnation="uid-0", reason="no")) == []
    assert cluster.post(ev.EvictionRefused(replica="default/x/worker/0", incarnation="1", reason="")) == []
    assert cluster.state == before


def test_on_the_way_back_an_eviction_is_not_given_up():
    """It did not resume on the target: it must end before the source gets it, and people hear why not."""
    cluster = moving(TransactionState.VERIFYING)
    cluster.tick(1000.0)
    move = move_of(cluster)
    assert (move.state, move.attempt) == (TransactionState.LEAVING, 2)
    refused = ev.EvictionRefused(replica=A, incarnation="uid-2", reason="blocked by budget b")
    assert cluster.post(refused) == []
    assert (move_of(cluster).state, move_of(cluster).stuck) == (
        TransactionState.LEAVING,
        "blocked by budget b",
    )
    for _ in range(2):
        assert placed(cluster.tick(1000.0)) == [(MOVE, {})]
    cluster.tick(1000.0)
    assert last(cluster).state is TransactionState.FAILED
    assert last(cluster).note.endswith(f"{A} was not made to go: blocked by budget b")


def test_pods_without_a_sidecar_are_counted_for_the_way_there_and_back_together():
    """The record keeps the highest count that was heard, and each order for the owner says it."""
    cluster = moving(TransactionState.COMING)
    for count in (1, 3, 2, 3):
        assert cluster.post(ev.SidecarMissing(transaction=MOVE, replica=A, count=count)) == []
    cluster.post(ev.SidecarMissing(transaction="another", replica=A, count=9))
    cluster.post(ev.SidecarMissing(transaction=MOVE, replica=A1, count=9))
    assert move_of(cluster).missing_sidecars == {A: 3}
    (back,) = orders_of(cluster.post(ev.JobRefused(job="default/a", transaction=MOVE, reason="no sidecar")))
    assert (move_of(cluster).attempt, back.missing_sidecars) == (2, {A: 3})
    again = orders_of(cluster.post(ev.ManagerStarted("again", cluster.state.settings)))
    assert [order.missing_sidecars for order in again] == [{A: 3}]


def orders_of(actions):
    return [action for action in actions if isinstance(action, PlaceJob)]


@pytest.mark.parametrize("taken_back", ["first", "last"])
def test_a_job_that_is_over_in_mid_move_needs_no_proof(taken_back):
    """Its owner takes back the replica that moves, and the other one is complete: nothing is left to show."""
    cluster = running(2, present=2, workers=2, min_workers=1)
    cluster.post(ev.MoveRequested(id=MOVE, replica=A1, target="node-1"))
    cluster.carry_out()
    assert cluster.state.transaction_of(A1).state is TransactionState.VERIFYING
    if taken_back == "first":
        cluster.edit("default/a", 1)
        cluster.die(A, 0)
    else:
        cluster.die(A, 0)
        cluster.edit("default/a", 1)
    assert cluster.state.jobs["default/a"].ended_at == cluster.now
    assert cluster.state.replicas[A1].phase is Phase.ABSENT
    assert (last(cluster).state, last(cluster).witnesses[A1].proven) == (TransactionState.SUCCEEDED, False)


def failed():
    """Let neither node restore A."""
    cluster = moving(TransactionState.COMING)
    cluster.orders.clear()
    cluster.post(ev.JobRefused(job="default/a", transaction=MOVE, reason="unschedulable"))
    assert (move_of(cluster).state, move_of(cluster).attempt) == (TransactionState.LEAVING, 2)
    cluster.post(ev.ReplicaGone(replica=A, incarnation=None))
    assert move_of(cluster).state is TransactionState.COMING
    actions = cluster.tick(cluster.state.settings.deadlines.start)
    assert last(cluster).state is TransactionState.FAILED
    return cluster, actions


def test_what_no_node_restores_comes_back_wherever_there_is_room():
    """A move that failed lets its owner run what it likes, and is over when that runs."""
    cluster, actions = failed()
    assert placed(actions) == LETS_GO
    assert "unschedulable" in actions[-1].reason
    assert cluster.state.replicas[A].phase is Phase.AWAITED
    cluster.orders[:] = actions
    cluster.carry_out()
    record = cluster.state.replicas[A]
    assert (record.phase, record.node, record.crashes) == (Phase.RUNNING, "node-0", 0)
    assert cluster.tick(1000.0) == []


def test_an_owner_is_let_go_again_and_ever_later():
    """While something is missing the order is given again, by the next manager at once."""
    cluster, _ = failed()
    waits = []
    for _ in range(8):
        waits.append(cluster.state.jobs["default/a"].release_due - cluster.now)
        assert cluster.tick(waits[-1] - 0.5) == []
        assert placed(cluster.tick(0.5)) == LETS_GO
    start = cluster.state.settings.deadlines.start
    assert waits == [start, *(start * 2**n for n in (0, 1, 2, 3, 4, 4, 4))]
    assert placed(cluster.restart_manager()) == LETS_GO


def test_an_owner_is_not_let_go_again_once_all_of_its_job_is_over():
    """Nothing is missing of what has succeeded."""
    cluster, _ = failed()
    cluster.orders.clear()
    cluster.appears(A, "node-1")
    cluster.die(A, 0)
    assert cluster.state.replicas[A].phase is Phase.SUCCEEDED
    assert cluster.tick(1000.0) == []


def test_what_lives_on_after_a_failed_move_is_left_alone():
    """It showed no step on the source in time, but it is there: nothing is to end."""
    cluster = moving(TransactionState.VERIFYING)
    cluster.orders[:] = cluster.tick(1000.0)
    cluster.carry_out()
    assert (move_of(cluster).state, move_of(cluster).attempt) == (TransactionState.VERIFYING, 2)
    actions = cluster.tick(1000.0)
    assert last(cluster).state is TransactionState.FAILED
    assert placed(actions) == LETS_GO
    assert cluster.state.replicas[A].phase is Phase.RUNNING
