"""`step` as a whole: decisions that are remembered, settings that change, and moves that meet odd news."""

import msgspec
import pytest

from specon_manager.core.step import calls_for_tick, step
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    EvictReplica,
    HoldRoom,
    Refusal,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
)
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Observation, Report
from support.decisions.cluster import DIGEST, SETTINGS, Cluster, replica_of

A, B, C, D = (replica_of(name) for name in "abcd")


def about_to_move(settings=SETTINGS, **changes) -> Cluster:
    """Node-0 holds a, which converged, and c; node-1 is idle."""
    cluster = Cluster(settings=settings)
    for name in "abcd":
        cluster.submit(name, **changes)
    cluster.tick()
    cluster.carry_out()
    for replica in (A, B, C, D):
        cluster.report(replica, step=100)
    cluster.die(B, 0)
    cluster.die(D, 0)
    cluster.report(A, Category.CONVERGED, step=200)
    return cluster


def verifying(**changes) -> Cluster:
    cluster = about_to_move(**changes)
    cluster.tick()
    cluster.carry_out()
    assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING
    return cluster


def of(kind, actions):
    return [action for action in actions if isinstance(action, kind)]


# -- decisions -----------------------------------------------------------------------------------


def test_a_decision_is_remembered_with_its_reason():
    """`explain` reads them: what was proposed, when, by which policy, and why it was accepted."""
    cluster = about_to_move()
    cluster.tick()
    decision = cluster.state.verdicts[A]
    assert (decision.at, decision.policy, decision.proposal) == (cluster.now, "specon", "Migrate node-1")
    assert decision.refusal is None
    assert decision.reason.startswith("converged at step 200; score")
    assert cluster.state.decisions[-1] == decision


def test_a_refusal_is_remembered_once_while_it_stays_the_same():
    """A job that asks at every Tick does not fill the memory; another refusal is another decision."""
    cluster = about_to_move(msgspec.structs.replace(SETTINGS), migratable=False)
    for _ in range(5):
        cluster.tick()
    refusals = [decision for decision in cluster.state.decisions if decision.refusal is not None]
    assert [decision.refusal for decision in refusals] == [Refusal.FORBIDDEN]
    gone = msgspec.structs.replace(cluster.state.nodes["node-1"], ready=False)
    cluster.post(ev.NodeObserved(node="node-1", capacity=gone.capacity, usage=gone.usage, ready=False))
    cluster.tick()
    assert [d for d in cluster.state.decisions if d.refusal is not None] == refusals


def test_the_memory_of_decisions_is_bounded():
    """The latest three hundred, whatever happens."""
    cluster = Cluster()
    for number in range(400):
        cluster.submit(f"job{number}", requests=Resources())
    cluster.tick()
    assert len(cluster.state.decisions) == 300
    assert len(cluster.state.verdicts) == 400


def test_the_history_of_moves_is_bounded():
    """Moves that ended are kept, but not for ever."""
    cluster = about_to_move()
    cluster.tick()
    (move,) = cluster.state.transactions.values()
    old = [msgspec.structs.replace(move, id=f"old-{n}", state=TransactionState.SUCCEEDED) for n in range(500)]
    state = msgspec.structs.replace(cluster.state, history=tuple(old))
    refusal = ev.RoomRefused(transaction=move.id, replica=A, reason="full")
    after, _ = step(state, refusal, cluster.now)
    assert len(after.history) == 500
    assert after.history[-1].id == move.id


def test_staying_is_remembered_on_the_replica():
    """Literal mode: a job that was looked at and left is not looked at again."""
    settings = msgspec.structs.replace(SETTINGS, parameters={"literal": True})
    cluster = Cluster(settings=settings)
    cluster.run("a", "b", "c", "d", "e", "f")
    for gain in (0.2, 0.1):  # it asks once its gain falls further
        cluster.report(A, Category.CONVERGED, step=10, gain=gain)
    assert cluster.tick() == []
    assert cluster.state.replicas[A].moved_for == ("migrate",)
    assert cluster.state.verdicts[A].proposal == "Stay"
    assert cluster.state.verdicts[A].refusal is None
    decisions = cluster.state.decisions
    cluster.tick()
    assert cluster.state.decisions == decisions


def test_two_policies_of_one_state_are_two_different_plans():
    """The policy is a setting: a manager that takes over with another one follows that."""
    cluster = about_to_move()
    cluster.post(ev.ManagerStarted("next", msgspec.structs.replace(SETTINGS, policy="round-robin")))
    assert cluster.tick() == []
    cluster.post(ev.ManagerStarted("next", SETTINGS))
    assert cluster.tick()


def test_what_happened_is_not_changed_by_what_happens():
    """States are values: the one before a step is the same after it."""
    cluster = about_to_move()
    before = cluster.state
    copy = msgspec.json.decode(msgspec.json.encode(before), type=type(before))
    cluster.tick()
    cluster.carry_out()
    assert before == copy
    assert before != cluster.state


def test_only_what_matters_to_the_policy_calls_for_a_tick():
    """Reports come by the thousand: a change of category can wait."""
    cluster = about_to_move()
    called = {type(event) for _, event, _ in cluster.history if calls_for_tick(event)}
    assert called == {ev.JobSubmitted, ev.ReplicaStarted, ev.ReplicaGone}
    assert calls_for_tick(ev.ManagerStarted("m", Settings(policy="specon")))
    assert calls_for_tick(ev.StartRefused(replica=A, start=1, reason=""))


def test_a_node_that_is_seen_again_as_it_was_changes_nothing():
    """Nor is the state copied for it."""
    cluster = about_to_move()
    node = cluster.state.nodes["node-0"]
    before = cluster.state
    cluster.post(ev.NodeObserved(node="node-0", capacity=node.capacity, usage=node.usage))
    assert cluster.state is before


@pytest.mark.parametrize("held", [HoldRoom, RequestCheckpoint, EvictReplica, StartReplica, None])
def test_a_manager_that_was_away_gives_a_move_its_time_again(held):
    """A deadline that passed while nobody watched is nobody's failure: nothing is given up or repeated.

    But what was about to end may have trained on since its checkpoint: another one is asked for first.
    """
    cluster = about_to_move()
    cluster.may_carry_out = lambda action: held is None or not isinstance(action, held)
    cluster.tick()
    cluster.carry_out()
    state = cluster.state.transaction_of(A).state
    cluster.now += 3600
    cluster.restart_manager()
    cluster.tick(4)
    aged = held is EvictReplica
    assert cluster.state.transaction_of(A).state is (TransactionState.CHECKPOINTING if aged else state)
    assert cluster.state.transaction_of(A).attempt == 1


# -- moves that meet odd news --------------------------------------------------------------------


@pytest.mark.parametrize("saved", [150, 250, 10**6])
def test_an_answer_that_comes_after_the_eviction_changes_nothing(saved):
    """Another checkpoint than the verified one would be another proof of the resume."""
    for stop in (EvictReplica, StartReplica):
        cluster = about_to_move()
        cluster.may_carry_out = lambda action, stop=stop: not isinstance(action, stop)
        cluster.tick()
        cluster.carry_out()
        before = cluster.state
        move = before.transaction_of(A)
        answer = Acknowledgement(
            schema=1,
            replica=A,
            incarnation=move.witnesses[A].incarnation or "none",
            id=move.id,
            done=True,
            checkpoint=Checkpoint(step=saved, path="/other", digest=DIGEST),
        )
        assert cluster.post(ev.InstructionAcknowledged(answer)) == []
        assert cluster.state == before


def test_a_late_answer_of_the_new_incarnation_does_not_raise_the_bar():
    """While the resume is being proven the checkpoint stands."""
    cluster = verifying()
    before = cluster.state
    cluster.acknowledge(A, checkpoint=Checkpoint(step=10**9, path="/other", digest=DIGEST))
    assert cluster.state == before
    cluster.report(A, Category.CONVERGED, step=201)
    assert cluster.state.history[-1].state is TransactionState.SUCCEEDED


def test_the_old_incarnations_steps_prove_nothing():
    """A new incarnation that began from nothing must not pass for resumed by what the old one reached."""
    cluster = about_to_move()
    cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
    cluster.tick()
    cluster.carry_out()
    cluster.report(A, Category.CONVERGED, step=207)  # seven steps beyond the checkpoint
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    live = cluster.live[A]
    began = Observation(name="loss", value=9.0, age=0.0, step=0)
    for seen in (None, Observation(name="loss", value=9.0, age=0.0), began):
        assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING
        live.sequence += 1
        cluster.post(
            ev.ReportReceived(
                Report(
                    schema=1,
                    replica=A,
                    incarnation=live.incarnation,
                    session=live.session,
                    sequence=live.sequence,
                    category=Category.UNKNOWN,
                    first=seen,
                    last=seen,
                )
            )
        )
    move = cluster.state.history[-1]
    assert move.state is TransactionState.FAILED
    assert move.note == f"{A} is at step 0, and its checkpoint at step 200: it started from the beginning"


def saved_nothing() -> tuple[Cluster, list]:
    """Evict a trainer that saves on termination, and have it save nothing."""
    cluster = about_to_move(checkpointing="on-termination")
    cluster.sidecars_answer = False
    cluster.tick()
    cluster.carry_out()
    cluster.may_carry_out = lambda action: False
    cluster.acknowledge(A, done=True)
    assert cluster.state.transaction_of(A).state is TransactionState.LEAVING
    return cluster, cluster.die(A, 143, evicted=True)


def test_a_trainer_that_saved_nothing_when_it_ended_goes_back_to_its_source():
    """The target is given up at once: its room must not stay held."""
    cluster, actions = saved_nothing()
    assert [start.node for start in of(StartReplica, actions)] == ["node-0"]
    assert [release.node for release in of(ReleaseRoom, actions)] == ["node-1"]
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    assert cluster.room == {}


def test_a_trainer_that_saved_nothing_ends_its_move_with_its_first_step():
    """It began anew where it was: the move failed, and a person has to look before the next."""
    cluster, _ = saved_nothing()
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    cluster.report(A, Category.PROGRESSING, step=1)
    assert cluster.state.history[-1].state is TransactionState.FAILED
    assert "it started from the beginning" in cluster.state.replicas[A].unproven
    assert cluster.state.replicas[A].phase is Phase.RUNNING


def test_a_restore_that_nobody_confirms_twice_leaves_nothing_behind():
    """When the second start is overdue too, whatever there is of it is ended before the next."""
    cluster = about_to_move()
    cluster.may_carry_out = lambda action: not isinstance(action, StartReplica)
    cluster.tick()
    cluster.carry_out()
    for _ in range(2):
        assert cluster.state.transaction_of(A).state is TransactionState.COMING
        unseen = of(StartReplica, cluster.orders)[-1]
        cluster.orders.remove(unseen)
        cluster.start(unseen)  # it lives, and nobody says so
        cluster.tick(11)
        cluster.carry_out()
    assert cluster.state.history[-1].state is TransactionState.FAILED
    cluster.tick()
    cluster.carry_out()
    assert A not in cluster.live
    cluster.may_carry_out = lambda action: True
    cluster.settle()
    assert cluster.live[A].incarnation == cluster.state.replicas[A].incarnation


def test_room_that_a_move_may_come_back_to_is_not_given_away():
    """A replica that waits for room gets the source's only once the move has ended."""
    cluster = Cluster(cpus=2.0)
    for name in "abcd":
        cluster.submit(name, requests=Resources(cpu=1))
    cluster.tick()
    cluster.carry_out()
    for replica in (A, B, C, D):
        cluster.report(replica, step=100)
    cluster.die(B, 0)
    cluster.die(D, 0)
    cluster.report(A, Category.CONVERGED, step=200)
    cluster.tick()
    cluster.carry_out()
    assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING
    waiting = cluster.submit("e", requests=Resources(cpu=1))
    blocked = cluster.submit("f", requests=Resources(cpu=1))
    cluster.tick()
    assert {cluster.state.replicas[name].node for name in (waiting, blocked)} == {"node-1", None}
    cluster.report(A, Category.CONVERGED, step=201)
    cluster.tick()
    assert (
        cluster.state.replicas[blocked].node == "node-0" or cluster.state.replicas[waiting].node == "node-0"
    )
