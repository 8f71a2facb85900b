"""What is on a node that is to be emptied leaves it before that, the one with the most left first."""

import msgspec
import pytest

from specon_manager.core.step import frees_what_waits, step
from specon_manager.model import events as ev
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from support.decisions.cluster import replica_of
from support.decisions.snapshots import NOW, cluster_of

LAYOUT = {"node-0": "pp", "node-1": "", "node-2": ""}
FIRST, SECOND = replica_of("p0"), replica_of("p1")


def state_of(*, warnings=("cordon",), at_once=10, rests=120.0, **changes):
    budgets = Budgets(
        cooldown=1e6, retry_cooldown=rests, moves_at_once=at_once, moves_at_once_per_node=at_once
    )
    settings = Settings(policy="fifo", gate=Gate(horizon=1.0), budgets=budgets, warnings=warnings, **changes)
    return cluster_of(LAYOUT, settings=settings)


def with_left(state, **seconds):
    """Let jobs have so many seconds left."""
    for name, left in seconds.items():
        job = state.jobs[f"default/{name}"]
        spec = msgspec.structs.replace(job.spec, declared_seconds=job.attained(NOW) + left)
        state = state.with_job(msgspec.structs.replace(job, spec=spec))
    return state


def warned(state, node="node-0", by=("cordon",), **changes):
    known = state.nodes[node]
    seen = ev.NodeObserved(node=node, capacity=known.capacity, usage=Resources(), warnings=by, **changes)
    return step(state, seen, NOW)[0]


def after_tick(state):
    return step(state, ev.Tick(), NOW)[0]


def test_what_runs_there_leaves_and_nothing_new_comes():
    """Also from where its kubelet is as ready as ever."""
    state = after_tick(warned(state_of()))
    assert {move.source for move in state.transactions.values()} == {"node-0"}
    assert len(state.transactions) == 2
    assert {move.policy for move in state.transactions.values()} == {"early-warning"}
    assert "cordoned" in state.transaction_of(FIRST).reason
    assert not state.nodes["node-0"].ready


def test_the_end_of_a_move_calls_for_a_tick_while_a_node_is_to_be_emptied():
    """What is left there may go then; a node that nobody warns of waits for nothing."""
    state = after_tick(warned(state_of(at_once=1)))
    (move,) = state.transactions.values()
    refused = ev.RoomRefused(transaction=move.id, replica=move.replica, reason="full")
    over, _ = step(state, refused, NOW)
    assert frees_what_waits(state, over)
    assert not frees_what_waits(warned(state, by=()), step(warned(state, by=()), refused, NOW)[0])


def test_a_failure_after_which_nothing_rests_waits_for_the_next_tick():
    """It would begin again at once, and fail again, as fast as somebody refuses the room."""
    state = after_tick(warned(state_of(rests=0.0)))
    move = next(iter(state.transactions.values()))
    refused = ev.RoomRefused(transaction=move.id, replica=move.replica, reason="full")
    over, _ = step(state, refused, NOW)
    assert len(over.transactions) < len(state.transactions)
    assert not frees_what_waits(state, over)


@pytest.mark.parametrize(("heeded", "by"), [((), ("cordon",)), (("taint",), ("cordon",)), (("cordon",), ())])
def test_only_what_is_to_be_heeded_counts(heeded, by):
    """It is off by default, and each kind is switched on by name."""
    assert after_tick(warned(state_of(warnings=heeded), by=by)).transactions == {}


def test_who_has_the_most_left_goes_first():
    """The others may end before anybody evicts them."""
    state = after_tick(warned(with_left(state_of(at_once=1), p0=60.0, p1=600.0)))
    assert next(iter(state.transactions.values())).before.keys() == {SECOND}


def test_what_ends_before_the_maintenance_stays():
    """Where it is known when that begins."""
    state = with_left(state_of(warnings=("annotation",)), p0=60.0, p1=600.0)
    state = after_tick(warned(state, by=("annotation",), leaves_at=NOW + 300))
    assert next(iter(state.transactions.values())).before.keys() == {SECOND}
    assert len(state.transactions) == 1


def test_what_has_room_nowhere_stays_as_it_is():
    """An eviction that comes is answered for itself; nothing is asked of the trainer for nothing."""
    state = state_of()
    for node in ("node-1", "node-2"):
        known = msgspec.structs.replace(state.nodes[node], ready=False)
        state = msgspec.structs.replace(state, nodes={**state.nodes, node: known})
    assert after_tick(warned(state)).transactions == {}


def test_a_dry_run_orders_nothing():
    """It tells what it would do."""
    assert after_tick(warned(state_of(dry_run=True))).transactions == {}


def warned_alone(state, name=FIRST, incarnation=None, **changes):
    """Let a replica be about to lose what it needs."""
    incarnation = incarnation or state.replicas[name].incarnation
    event = ev.ReplicaWarned(replica=name, incarnation=incarnation, **{"why": "its device goes", **changes})
    return step(state, event, NOW)[0]


def test_who_loses_a_device_leaves_and_its_neighbours_stay():
    """The node takes others as before; who is told no more that it loses one stays, too."""
    state = warned_alone(state_of(warnings=("device-taint",)))
    moved = after_tick(state)
    (move,) = moved.transactions.values()
    assert (move.replica, move.policy, move.reason) == (FIRST, "early-warning", "its device goes")
    assert moved.nodes["node-0"].ready
    assert move.target != "node-0"
    assert after_tick(warned_alone(state, why="")).transactions == {}


def test_what_was_told_of_another_incarnation_or_is_not_to_be_heeded_counts_for_nothing():
    """The next pod has other devices."""
    state = state_of(warnings=("device-taint",))
    assert after_tick(warned_alone(state, incarnation="another")).transactions == {}
    assert after_tick(warned_alone(state, "default/nobody/worker/0", "x")).transactions == {}
    assert after_tick(warned_alone(state_of(warnings=("taint",)))).transactions == {}
    first = warned_alone(state)
    later = msgspec.structs.replace(first.replicas[FIRST], incarnation="later")
    assert after_tick(first.with_replica(later)).transactions == {}


def test_what_ends_before_its_device_goes_stays():
    """Where it is known when that is."""
    state = with_left(state_of(warnings=("device-taint",)), p0=60.0, p1=600.0)
    for replica in (FIRST, SECOND):
        state = warned_alone(state, replica, leaves_at=NOW + 300)
    (move,) = after_tick(state).transactions.values()
    assert move.replica == SECOND


def test_the_end_of_a_move_calls_for_a_tick_while_a_replica_is_to_leave_alone():
    """As where its node is to be emptied."""
    state = state_of(at_once=1, warnings=("device-taint",))
    state = after_tick(warned_alone(warned_alone(state), SECOND))
    (move,) = state.transactions.values()
    refused = ev.RoomRefused(transaction=move.id, replica=move.replica, reason="full")
    over, _ = step(state, refused, NOW)
    assert frees_what_waits(state, over)
