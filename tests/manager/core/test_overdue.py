"""What was ordered and not yet seen: noticed at its deadline, not before, and in a fixed order."""

import msgspec

from specon_manager.core.overdue import catch_up
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.decisions.cluster import Cluster, replica_of

A, B, C = (replica_of(name) for name in "abc")


def starting() -> Cluster:
    """Three replicas whose starts were ordered at 1001 and are overdue at 1011."""
    cluster = Cluster()
    for name in "cab":
        cluster.submit(name)
    cluster.tick()
    return cluster


def told(state, now):
    """Return the replicas that are told to end at that time since their starts are overdue."""
    _, actions = catch_up(state, now)
    assert all(isinstance(action, EvictReplica) for action in actions)
    return [action.replica for action in actions]


def move(replica: str, number: int, deadline: float, source: str = "node-0") -> Transaction:
    return Transaction(
        id=f"move-{number}",
        kind=Kind.MOVE,
        job=replica.removesuffix("/worker/0"),
        before={replica: source},
        after={replica: f"node-{number}"},
        policy="specon",
        reason="",
        state=TransactionState.PROPOSED,
        proposed_at=0.0,
        deadline=deadline,
    )


def test_a_start_is_overdue_at_its_deadline_and_not_before():
    """By name, so that two managers would treat them in the same order."""
    state = starting().state
    assert told(state, 1010.9) == []
    assert told(state, 1011.0) == [A, B, C]


def test_what_runs_or_waits_is_not_overdue():
    """Only an ordered start is: what waits out a pause after a crash has been ordered nothing."""
    cluster = starting()
    cluster.carry_out()
    assert told(cluster.state, 1e9) == []
    cluster.die(A, 1)
    assert cluster.state.replicas[A].deadline is None
    assert told(cluster.state, 1e9) == []


def test_a_start_within_a_transaction_is_the_transactions_to_watch():
    """It has a deadline of its own, and a way back that a plain start has not."""
    state = starting().state
    state = state.with_transaction(move(A, 1, deadline=5000.0))
    assert told(state, 1011.0) == [B, C]


def test_overdue_transactions_are_looked_at_in_a_fixed_order():
    """Job by job, by name, so that two managers would treat them in the same order."""
    cluster = Cluster(nodes=6)
    cluster.run("c", "a", "b")
    for number, replica in enumerate((C, A, B), 3):
        source = cluster.live[replica].node
        flying = move(replica, number, deadline=cluster.now + 1, source=source)
        cluster.state = cluster.state.with_transaction(flying)
    cluster.tick(0.5)
    assert len(cluster.state.transactions) == 3
    cluster.tick(0.5)
    assert [each.replica for each in cluster.state.history] == [A, B, C]


def test_nothing_is_ordered_twice_while_it_is_awaited():
    """Tick after Tick, a start that was ordered is not ordered again before its deadline."""
    cluster = starting()
    for _ in range(9):
        assert cluster.tick() == []


def test_a_manager_that_was_away_gives_every_start_its_time_again():
    """A deadline that passed while nobody watched says nothing about the start."""
    cluster = starting()
    cluster.now += 3600
    cluster.post(ev.ManagerStarted("again", cluster.state.settings))
    assert told(cluster.state, cluster.now + 9.9) == []
    assert len(told(cluster.state, cluster.now + 10)) == 3


def test_a_start_without_a_deadline_is_awaited_for_ever():
    """None says that nobody set one."""
    state = starting().state
    waiting = msgspec.structs.replace(state.replicas[A], deadline=None)
    assert told(state.with_replica(waiting), 1e9) == [B, C]


def test_a_late_start_is_told_to_end_until_it_is_gone_and_is_a_crash_only_then():
    """It may live: the next one is ordered once it is gone, and its pause is over."""
    cluster = starting()
    cluster.orders.clear()
    for _ in range(3):
        (again,) = [each for each in cluster.tick(60) if getattr(each, "replica", "") == A]
        assert isinstance(again, EvictReplica)
        assert again.incarnation is None
        assert cluster.state.replicas[A].crashes == 0
    cluster.post(ev.ReplicaGone(replica=A, incarnation=None))
    known = cluster.state.replicas[A]
    assert (known.phase, known.crashes, known.note) == (Phase.PENDING, 1, "crash 1: it did not start in time")
    assert [type(each) for each in cluster.tick(5) if each.replica == A] == [StartReplica]


def test_a_late_start_that_shows_up_is_told_to_end_by_its_name():
    """Its end was ordered before it was seen; now there is an incarnation to name."""
    cluster = starting()
    held, cluster.orders = cluster.orders, []
    cluster.tick(60)
    cluster.orders = [each for each in held if each.replica == A]
    cluster.carry_out()
    assert A not in cluster.live
    assert cluster.state.replicas[A].crashes == 1
