"""What was ordered and not yet seen: noticed at its deadline, not before, and in a fixed order."""

import msgspec
from specon_manager.core.expectations import overdue_moves, overdue_replicas

from specon_manager.model import events as ev
from specon_manager.model.transactions import TransactionState
from support.cluster import Cluster, replica_of

A, B, C = (replica_of(name) for name in "abc")


def starting() -> Cluster:
    """Three replicas whose starts were ordered at 1001 and are overdue at 1011."""
    cluster = Cluster()
    for name in "cab":
        cluster.submit(name)
    cluster.tick()
    return cluster


def move(replica: str, number: int, deadline: float, proposed_at: float = 0.0) -> Move:
    return Move(
        id=f"move-{number}",
        replica=replica,
        source="node-0",
        target="node-1",
        policy="specon",
        purpose="migrate",
        reason="",
        state=TransactionState.COMING,
        proposed_at=proposed_at,
        deadline=deadline,
        incarnation=None,
    )


def test_a_start_is_overdue_at_its_deadline_and_not_before():
    """By name, so that two managers would treat them in the same order."""
    state = starting().state
    assert overdue_replicas(state, 1010.9)[0] == []
    assert [replica.name for replica in overdue_replicas(state, 1011.0)[0]] == [A, B, C]


def test_what_runs_or_waits_is_not_overdue():
    """The deadline of a waiting replica is the end of its pause, which is nothing to be late for."""
    cluster = starting()
    cluster.carry_out()
    assert overdue_replicas(cluster.state, 1e9)[0] == []
    cluster.die(A, 1)
    assert cluster.state.replicas[A].deadline is not None
    assert overdue_replicas(cluster.state, 1e9)[0] == []


def test_a_start_within_a_move_is_the_moves_to_watch():
    """It has a deadline of its own, and a way back that a plain start has not."""
    state = starting().state
    state = state.with_move(move(A, 1, deadline=5000.0))
    assert [replica.name for replica in overdue_replicas(state, 1011.0)[0]] == [B, C]
    assert overdue_moves(state, 4999.0) == []
    assert [late.id for late in overdue_moves(state, 5000.0)] == ["move-1"]


def test_overdue_moves_are_looked_at_in_the_order_of_their_proposal():
    """The oldest first."""
    state = starting().state
    for late in (move(A, 3, 10.0, 2.0), move(B, 2, 10.0, 3.0), move(C, 9, 10.0, 1.0)):
        state = state.with_move(late)
    assert [late.id for late in overdue_moves(state, 10.0)] == ["move-9", "move-3", "move-2"]


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
    assert overdue_replicas(cluster.state, cluster.now + 9.9)[0] == []
    assert len(overdue_replicas(cluster.state, cluster.now + 10)[0]) == 3


def test_a_start_without_a_deadline_is_awaited_for_ever():
    """None says that nobody set one."""
    state = starting().state
    waiting = msgspec.structs.replace(state.replicas[A], deadline=None)
    assert [r.name for r in overdue_replicas(state.with_replica(waiting), 1e9)[0]] == [B, C]
