"""A pause: nothing new is ordered, what is in flight continues, and each request is told why."""

import msgspec
import pytest

from specon_manager.core.state import Pause, State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import Refusal, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category
from support.decisions.cluster import SETTINGS, Cluster, replica_of

A = replica_of("a")
WHY = "the storage is serviced"


@pytest.fixture
def cluster():
    """Two jobs side by side on a node of two cores, which would be moved apart."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=SETTINGS)
    cluster.run("a", "b")
    return cluster


def test_a_pause_is_kept_with_its_time_and_reworded_without_another():
    """The first word begins it, the next ones change the words alone, None ends it; twice is as once."""
    state, begun = State(), {}
    for now, reason in ((10.0, WHY), (11.0, WHY), (12.0, "longer"), (13.0, None), (14.0, None)):
        state, actions = step(state, ev.Paused(reason=reason), now)
        assert actions == []
        begun[now] = state.pause
    first, reworded = Pause(since=10.0, reason=WHY), Pause(since=10.0, reason="longer")
    assert list(begun.values()) == [first, first, reworded, None, None]


def test_nothing_is_started_during_a_pause_and_everything_after_it():
    """A submitted job waits, with the refusal and its words; the end of the pause lets it start."""
    cluster = Cluster(nodes=1, settings=SETTINGS)
    cluster.post(ev.Paused(reason=WHY))
    cluster.submit("a")
    assert cluster.tick() == []
    assert cluster.state.replicas[A].phase is Phase.PENDING
    decision = cluster.state.verdicts[A]
    assert (decision.refusal, decision.reason) == (Refusal.PAUSED, f"the manager is paused: {WHY}")
    cluster.post(ev.Paused(reason=None))
    assert [type(action) for action in cluster.tick()] == [StartReplica]


def test_a_crashed_replica_waits_for_the_end_of_the_pause(cluster):
    """A restart is something new too."""
    cluster.post(ev.Paused(reason=""))
    cluster.die(A, 1)
    assert all(cluster.tick(5.0) == [] for _ in range(5))
    cluster.post(ev.Paused(reason=None))
    assert [action.replica for action in cluster.tick(5.0)] == [A]


def moving(cluster):
    """Let a move of the first job begin, and the manager be paused then; return the source and the target."""
    cluster.report(A, Category.CONVERGED, step=10)
    source = cluster.state.replicas[A].node
    target = next(node for node in cluster.state.nodes if node != source)
    cluster.post(ev.MoveRequested(id="default/m", replica=A, target=target))
    assert cluster.state.transaction_of(A).state is TransactionState.PROPOSED
    cluster.post(ev.Paused(reason=WHY))
    return source, target


def test_a_move_in_flight_finishes_during_a_pause(cluster):
    """From the first order on: room, checkpoint, eviction, start and proof all come about."""
    _, target = moving(cluster)
    cluster.carry_out()
    cluster.report(A, Category.CONVERGED, step=11)
    cluster.tick()
    assert [move.state for move in cluster.state.history] == [TransactionState.SUCCEEDED]
    assert cluster.live[A].node == target


def test_a_move_in_flight_still_goes_back_during_a_pause(cluster):
    """What cannot be restored on its target is restored where it was: to leave it down would do harm."""
    source, target = moving(cluster)
    cluster.may_carry_out = lambda order: not (isinstance(order, StartReplica) and order.node == target)
    cluster.carry_out()
    assert cluster.state.transaction_of(A).state is TransactionState.COMING
    cluster.orders.clear()
    cluster.post(ev.StartRefused(replica=A, start=cluster.state.replicas[A].starts, reason="no image"))
    cluster.carry_out()
    cluster.report(A, Category.CONVERGED, step=11)
    assert [move.state for move in cluster.state.history] == [TransactionState.ROLLED_BACK]
    assert cluster.live[A].node == source


def test_a_move_that_is_asked_for_is_refused_during_a_pause(cluster):
    """With the reason of the pause; the same request under another name is taken after it."""
    cluster.post(ev.Paused(reason=WHY))
    cluster.report(A, Category.CONVERGED, step=10)
    target = next(node for node in cluster.state.nodes if node != cluster.state.replicas[A].node)
    assert cluster.post(ev.MoveRequested(id="default/first", replica=A, target=target)) == []
    assert cluster.state.history[-1].note == f"the manager is paused: {WHY}"
    cluster.post(ev.Paused(reason=None))
    cluster.post(ev.MoveRequested(id="default/second", replica=A, target=target))
    assert cluster.state.transaction_of(A).id == "default/second"


def test_a_pause_survives_another_manager(cluster):
    """The manager that takes over the state does not begin to act."""
    cluster.post(ev.Paused(reason=WHY))
    kept = msgspec.json.decode(msgspec.json.encode(cluster.state.flatten()), type=State)
    after, _ = step(kept, ev.ManagerStarted("next", SETTINGS), cluster.now)
    assert after.pause == Pause(since=cluster.now, reason=WHY)


def test_a_state_of_a_manager_that_knew_no_pause_is_not_paused():
    """Journals of before go on to be read."""
    assert msgspec.json.decode(b"{}", type=State).pause is None


def test_words_of_a_pause_without_a_reason(cluster):
    """Nobody has to say why."""
    cluster.post(ev.Paused(reason=""))
    cluster.post(ev.MoveRequested(id="default/x", replica=A))
    assert cluster.state.history[-1].note == "the manager is paused"
