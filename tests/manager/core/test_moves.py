"""A move through its states, and what happens when anything goes wrong in each of them."""

import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import (
    EvictReplica,
    HoldRoom,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Observation
from support.decisions.cluster import DIGEST, Cluster, replica_of

A, B, C, D = (replica_of(name) for name in "abcd")
STOPS = {
    TransactionState.PROPOSED: HoldRoom,
    TransactionState.RESERVED: RequestCheckpoint,
    TransactionState.LEAVING: EvictReplica,
    TransactionState.COMING: StartReplica,
    TransactionState.VERIFYING: None,
}
"""By state: the order that is held back so that a move waits in it."""
UNTOUCHED = [TransactionState.PROPOSED, TransactionState.RESERVED, TransactionState.CHECKPOINTING]


def cluster_with_room() -> Cluster:
    """Two nodes; a and c share node-0; b and d on node-1 are gone."""
    cluster = Cluster()
    cluster.run("a", "b", "c", "d")
    for replica in (A, B, C, D):
        cluster.report(replica, step=100)
    cluster.die(B, 0)
    cluster.die(D, 0)
    return cluster


def cluster_with_move(stop: TransactionState) -> Cluster:
    """Two nodes; a and c share node-0, where a converged; b and d on node-1 are gone: a is to move."""
    cluster = cluster_with_room()
    cluster.report(A, Category.CONVERGED, step=200)
    held = STOPS[TransactionState.RESERVED if stop is TransactionState.CHECKPOINTING else stop]
    cluster.may_carry_out = lambda action: held is None or not isinstance(action, held)
    cluster.tick()
    cluster.carry_out()
    if stop is TransactionState.CHECKPOINTING:
        known = cluster.live[A].incarnation
        cluster.post(ev.InstructionDelivered(id=cluster.asked(A), replica=A, incarnation=known))
    assert cluster.state.transaction_of(A).state is stop
    return cluster


def test_a_move_orders_room_checkpoint_eviction_and_start_in_this_order():
    """Room, then a checkpoint, then the eviction, then the start; nothing before its predecessor."""
    cluster = cluster_with_move(TransactionState.VERIFYING)
    kinds = [type(a) for _, _, actions in cluster.history for a in actions if getattr(a, "replica", A) == A]
    assert kinds == [StartReplica, HoldRoom, RequestCheckpoint, WithdrawRequest, EvictReplica, StartReplica]


@pytest.mark.parametrize(("done", "release"), [(True, False), (False, True)])
def test_a_trainer_that_pauses_trains_on_where_its_move_is_off_and_not_before_its_end(done, release):
    """Told to end next, it has nothing to train any more; else there is nothing to wait for."""
    cluster = cluster_with_move(TransactionState.CHECKPOINTING)
    cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
    checkpoint = Checkpoint(step=200, path="/c", digest="ab" * 32) if done else None
    (told,) = [
        action
        for action in cluster.acknowledge(A, done=done, checkpoint=checkpoint)
        if isinstance(action, WithdrawRequest)
    ]
    assert told.release is release


def test_a_step_after_the_checkpoint_completes_the_move():
    """The move has succeeded when the new incarnation reports a step greater than the checkpoint's."""
    cluster = cluster_with_move(TransactionState.VERIFYING)
    cluster.now += 2
    cluster.report(A, Category.CONVERGED, step=200)
    assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING
    cluster.report(A, Category.CONVERGED, step=201)
    (move,) = cluster.state.history
    assert (move.state, move.source, move.target) == (TransactionState.SUCCEEDED, "node-0", "node-1")
    assert cluster.state.replicas[A].node == "node-1"
    assert cluster.state.replicas[A].moves == 1


def test_downtime_and_lost_steps_are_measured():
    """Downtime runs from the last step before to the first after; steps after the checkpoint were lost."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    cluster.now += 1
    cluster.report(A, Category.CONVERGED, step=207)
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    cluster.now += 3
    cluster.report(A, Category.CONVERGED, step=201)
    (move,) = cluster.state.history
    assert move.downtime == pytest.approx(3)
    assert move.steps_lost == 7
    assert cluster.state.measured.moves == 1
    assert cluster.state.measured.downtime == pytest.approx(3)


@pytest.mark.parametrize(
    ("last", "age", "downtime"),
    [
        (207, 0.0, 2.5),  # six in one reading: the first of them came half a second before it
        (207, 0.2, 3.0),  # the first one was read alone: the others came after that
        (302, 0.0, 0.5),  # nothing is trained before what was there is gone
    ],
)
def test_a_trainer_that_is_faster_than_its_sidecar_begins_to_read(last, age, downtime):
    """Steps that are read together came at the pace that is known: the first before the reading."""
    cluster = cluster_with_room()
    cluster.may_carry_out = lambda action: not isinstance(action, RequestCheckpoint)
    cluster.now += 10
    cluster.report(A, Category.CONVERGED, step=200)  # 100 steps in 10 s
    cluster.tick()
    cluster.carry_out()
    cluster.now += 5
    cluster.report(A, Category.CONVERGED, step=201)  # while it saves: that is no pace
    cluster.acknowledge(A, checkpoint=Checkpoint(step=201, path="/c", digest=DIGEST))
    cluster.may_carry_out = lambda action: True
    cluster.now += 0.5
    cluster.carry_out()
    cluster.now += 2.5
    read = Observation(name="loss", value=1.0, age=age, step=202)
    latest = Observation(name="loss", value=1.0, age=0.0, step=last)
    cluster.report(A, Category.CONVERGED, step=None, first=read, last=latest)
    (move,) = cluster.state.history
    assert move.downtime == pytest.approx(downtime - age)


def test_what_was_saved_while_nobody_led_is_not_lost():
    """Its first step shows from where it resumed, as exactly as its log names steps."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    cluster.now += 1
    cluster.report(A, Category.CONVERGED, step=207)
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    cluster.now += 10
    ended_with = Observation(name="loss", value=1.0, age=9.0, step=300)
    cluster.report(A, Category.CONVERGED, step=301, former=ended_with)
    (move,) = cluster.state.history
    assert (move.state, move.steps_lost) == (TransactionState.SUCCEEDED, 6)


def test_a_checkpoint_written_at_the_end_saves_the_steps_since_the_request():
    """A verified checkpoint in the last report of the old incarnation counts as the point of resume."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    last = Checkpoint(step=207, path="/c7", digest=DIGEST)
    cluster.report(A, Category.CONVERGED, step=207, checkpoint=last, ended=True)
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    cluster.report(A, Category.CONVERGED, step=208)
    (move,) = cluster.state.history
    assert move.steps_lost == 0
    assert move.checkpoint is not None
    assert move.checkpoint.step == 200


@pytest.mark.parametrize(("saved", "lost"), [(207, 0), (204, 6), (None, 6)])
def test_a_checkpoint_that_only_the_new_incarnation_tells_of_saves_the_steps_before_it(saved, lost):
    """No manager heard the end of the old one; without it only the gap between two reports is known."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    cluster.report(A, Category.CONVERGED, step=207)
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    checkpoint = None if saved is None else Checkpoint(step=saved, path="/c7", digest=DIGEST)
    cluster.report(A, Category.CONVERGED, step=208, checkpoint=checkpoint)
    (move,) = cluster.state.history
    assert (move.state, move.steps_lost) == (TransactionState.SUCCEEDED, lost)


@pytest.mark.parametrize(
    ("stop", "seconds"),
    [(TransactionState.PROPOSED, 5), (TransactionState.RESERVED, 10), (TransactionState.CHECKPOINTING, 10)],
)
def test_a_move_that_waits_too_long_leaves_the_replica_where_it_was(stop, seconds):
    """Before the eviction a deadline rolls the move back, and the replica runs on untouched."""
    cluster = cluster_with_move(stop)
    incarnation = cluster.live[A].incarnation
    actions = cluster.tick(seconds + 1)
    (move,) = cluster.state.history
    assert move.state is TransactionState.ROLLED_BACK
    assert any(isinstance(action, ReleaseRoom) for action in actions)
    assert cluster.live[A].incarnation == incarnation
    assert cluster.state.replicas[A].phase is Phase.RUNNING


@pytest.mark.parametrize(
    "checkpoint",
    [None, Checkpoint(step=200, path="/c")],
    ids=["none", "without digest"],
)
def test_an_answer_without_a_verified_checkpoint_rolls_back(checkpoint):
    """Only a verified checkpoint permits the eviction."""
    cluster = cluster_with_move(TransactionState.CHECKPOINTING)
    actions = cluster.acknowledge(A, done=True, checkpoint=checkpoint)
    assert not any(isinstance(action, EvictReplica) for action in actions)
    assert cluster.state.history[-1].state is TransactionState.ROLLED_BACK


def test_a_refused_checkpoint_rolls_back_with_the_reason():
    """What the sidecar says of a missing checkpoint is what the move says."""
    cluster = cluster_with_move(TransactionState.CHECKPOINTING)
    cluster.acknowledge(A, done=False, reason="no new checkpoint in 10 s")
    assert cluster.state.history[-1].note == "no checkpoint: no new checkpoint in 10 s"


def test_after_a_rollback_the_replica_is_left_alone_for_a_while():
    """Each move that did not succeed doubles the pause before the next."""
    cluster = cluster_with_move(TransactionState.CHECKPOINTING)
    cluster.acknowledge(A, done=False, reason="no")
    first = cluster.state.replicas[A].cooldown_until - cluster.now
    cluster.tick(first + 1)
    assert cluster.state.transaction_of(A) is not None
    cluster.may_carry_out = lambda action: not isinstance(action, RequestCheckpoint)
    cluster.carry_out()
    cluster.acknowledge(A, done=False, reason="no")
    assert cluster.state.replicas[A].cooldown_until - cluster.now == pytest.approx(2 * first)


@pytest.mark.parametrize("stop", UNTOUCHED)
def test_a_job_that_finishes_meanwhile_ends_the_move(stop):
    """A replica that completes before its eviction is complete."""
    cluster = cluster_with_move(stop)
    cluster.die(A, 0)
    assert cluster.state.history[-1].state is TransactionState.ROLLED_BACK
    assert cluster.state.replicas[A].phase is Phase.SUCCEEDED


@pytest.mark.parametrize("stop", UNTOUCHED)
def test_a_trainer_that_is_killed_meanwhile_is_started_again(stop):
    """A crash before the eviction ends the move and counts as the job's own crash."""
    cluster = cluster_with_move(stop)
    cluster.die(A, None)
    assert cluster.state.history[-1].state is TransactionState.ROLLED_BACK
    cluster.may_carry_out = lambda action: True
    cluster.settle()
    assert cluster.state.replicas[A].phase is Phase.RUNNING
    assert cluster.state.replicas[A].crashes == 1


def test_an_eviction_that_takes_too_long_is_ordered_again():
    """There is no way back from an eviction: it is repeated until the replica is gone."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    (again,) = cluster.tick(60)
    assert isinstance(again, EvictReplica)
    assert cluster.state.transaction_of(A).state is TransactionState.LEAVING


def test_a_failed_restore_goes_back_to_the_source_once():
    """The second attempt is on the source; when it works, the move is rolled back, not failed."""
    cluster = cluster_with_move(TransactionState.COMING)
    start = cluster.state.replicas[A].starts
    actions = cluster.post(ev.StartRefused(replica=A, start=start, reason="no such image"))
    (restart,) = [action for action in actions if isinstance(action, StartReplica)]
    assert restart.node == "node-0"
    assert any(isinstance(action, ReleaseRoom) for action in actions)
    cluster.orders = [restart]
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    cluster.report(A, Category.CONVERGED, step=201)
    (move,) = cluster.state.history
    assert (move.state, cluster.live[A].node) == (TransactionState.ROLLED_BACK, "node-0")
    assert "no such image" in move.note
    assert cluster.state.replicas[A].crashes == 0


def test_a_restore_that_fails_on_both_nodes_is_surfaced_and_the_job_is_not_lost():
    """After two failed attempts the move has failed; the replica waits, and that is no crash of its own."""
    cluster = cluster_with_move(TransactionState.COMING)
    for _ in range(2):
        start = cluster.state.replicas[A].starts
        cluster.post(ev.StartRefused(replica=A, start=start, reason="broken"))
    (move,) = cluster.state.history
    assert move.state is TransactionState.FAILED
    assert move.note.count("broken") == 2  # there, and on the way back
    cluster.orders.clear()
    cluster.may_carry_out = lambda action: True
    cluster.settle()
    assert cluster.state.replicas[A].phase is Phase.RUNNING
    assert cluster.state.replicas[A].crashes == 0


def test_a_new_incarnation_that_shows_no_step_is_evicted_before_the_source_gets_it_back():
    """Never two live copies: the one that does not prove its resume is gone before the next is started."""
    cluster = cluster_with_move(TransactionState.VERIFYING)
    actions = cluster.tick(30)
    orders = [type(action) for action in actions if not isinstance(action, ReleaseRoom)]
    assert orders == [EvictReplica]
    cluster.carry_out()
    assert cluster.live[A].node == "node-0"


def test_a_start_that_nobody_confirms_is_evicted_before_the_next():
    """A start whose outcome was lost may live: it is evicted, whichever it is, then started elsewhere."""
    cluster = cluster_with_move(TransactionState.COMING)
    actions = cluster.tick(20)
    (evict,) = [action for action in actions if isinstance(action, EvictReplica)]
    assert evict.incarnation is None
    cluster.orders = [evict]
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    assert cluster.live[A].node == "node-0"


def test_an_unproven_second_incarnation_is_left_running():
    """When even the source shows no step in time the move has failed, but what runs is not killed."""
    cluster = cluster_with_move(TransactionState.VERIFYING)
    cluster.tick(30)
    cluster.carry_out()
    cluster.tick(30)
    assert cluster.state.history[-1].state is TransactionState.FAILED
    assert A in cluster.live
    assert cluster.state.replicas[A].phase is Phase.RUNNING


def test_a_crash_of_the_new_incarnation_goes_back_to_the_source():
    """A crash while verifying uses up the attempt on the target."""
    cluster = cluster_with_move(TransactionState.VERIFYING)
    cluster.die(A, 1)
    cluster.carry_out()
    assert cluster.live[A].node == "node-0"


def test_a_trainer_that_answers_the_eviction_with_success_is_not_taken_for_finished():
    """Exit code 0 after an eviction, short of the total, is a stop and not an end."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    cluster.report(A, Category.CONVERGED, step=200, total_steps=1000)
    cluster.die(A, 0, evicted=True)
    assert cluster.state.transaction_of(A).state is TransactionState.COMING


def test_a_trainer_that_finished_just_before_its_eviction_is_finished():
    """Exit code 0 at the last step is the end, even when the eviction was already on its way."""
    cluster = cluster_with_move(TransactionState.LEAVING)
    cluster.report(A, Category.CONVERGED, step=1000, total_steps=1000)
    cluster.die(A, 0, evicted=True)
    assert cluster.state.replicas[A].phase is Phase.SUCCEEDED
    assert cluster.state.history[-1].state is TransactionState.ROLLED_BACK


@pytest.mark.parametrize("stop", [*STOPS, TransactionState.CHECKPOINTING])
def test_a_manager_killed_in_any_state_finishes_the_move_after_its_restart(stop):
    """Whatever had been ordered is ordered again, once; the move then ends like any other."""
    cluster = cluster_with_move(stop)
    cluster.may_carry_out = lambda action: True
    cluster.now += 3600
    cluster.restart_manager()
    cluster.carry_out()
    assert A in cluster.live
    cluster.report(A, Category.CONVERGED, step=201)
    assert cluster.state.history[-1].state is TransactionState.SUCCEEDED


@pytest.mark.parametrize("stop", [*STOPS, TransactionState.CHECKPOINTING])
def test_news_that_comes_twice_changes_nothing(stop):
    """Every event of a move, delivered a second time, leaves the state as it is."""
    cluster = cluster_with_move(stop)
    past = [event for _, event, _ in cluster.history if not isinstance(event, ev.Tick)]
    for event in past:
        if isinstance(event, ev.NodeObserved | ev.JobSubmitted):
            continue
        before = cluster.state
        actions = cluster.post(event)
        assert cluster.state == before, event
        assert not actions, event
