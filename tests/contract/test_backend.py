"""What every backend promises to the controller (`backends/base.py`)."""

import pytest

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.cluster import Node, Phase
from specon_manager.model.resources import NOTHING
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from support.kube.backend_contract import REFUSALS, Stage

# -- nodes -------------------------------------------------------------------------------------------------


async def test_begin_reports_the_nodes(stage: Stage):
    """Every node is reported with a capacity and as ready before anything is ordered."""
    await stage.begin()
    nodes = await stage.hears(ev.NodeObserved, count=2)
    known = {node.node: node for node in nodes}
    assert known.keys() >= set(stage.nodes)
    assert all(known[name].ready and known[name].capacity.cpu > 0 for name in stage.nodes)


async def test_begin_reports_a_node_that_is_there_no_more(stage: Stage):
    """A node that the state knows and the backend does not have is gone, or not ready."""
    await stage.begin(State(nodes={"node-9": Node(name="node-9", capacity=NOTHING)}))
    await stage.comes(lambda: {each.node for each in _nodes(stage)} >= {*stage.nodes, "node-9"})
    (lost,) = [each for each in _nodes(stage) if each.node == "node-9"]
    assert isinstance(lost, ev.NodeGone) or not lost.ready
    assert not [each for each in _nodes(stage) if each.node in stage.nodes and isinstance(each, ev.NodeGone)]


def _nodes(stage: Stage) -> list[ev.NodeObserved | ev.NodeGone]:
    return stage.said(ev.NodeObserved, ev.NodeGone)


# -- starts ------------------------------------------------------------------------------------------------


async def test_a_start_ends_in_the_word_of_it(stage: Stage):
    """ReplicaStarted names the replica and the node that was ordered."""
    await stage.begin()
    node = stage.nodes[1]
    await stage.startable(node)
    await stage.backend.carry_out(stage.start(node))
    started = (await stage.hears(ev.ReplicaStarted))[0]
    assert started.replica == stage.replica
    assert started.node == node if stage.pins else started.node in stage.nodes
    assert await stage.left(started.incarnation)


async def test_the_same_start_ordered_again_starts_nothing_more(stage: Stage):
    """The second time it names the same incarnation."""
    await stage.begin()
    node = stage.nodes[1]
    await stage.startable(node)
    await stage.backend.carry_out(stage.start(node))
    first = (await stage.hears(ev.ReplicaStarted))[0]
    stage.events.clear()
    await stage.backend.carry_out(stage.start(node))
    assert (await stage.hears(ev.ReplicaStarted))[0] == first
    assert not stage.said(ev.ReplicaGone)


async def test_the_same_start_ordered_twice_at_once_starts_one(stage: Stage):
    """The second order comes before the first one's outcome."""
    await stage.begin()
    node = stage.nodes[1]
    await stage.startable(node)
    for _ in range(2):
        await stage.backend.carry_out(stage.start(node))
    await stage.hears(ev.ReplicaStarted)
    await stage.backend.carry_out(stage.start(node))
    assert len({event.incarnation for event in stage.said(ev.ReplicaStarted)}) == 1
    assert not stage.said(ev.ReplicaGone, *REFUSALS)


async def test_never_two_live_incarnations(stage: Stage):
    """A start beside a live incarnation is refused, or answered with that one's name, which lives on."""
    await stage.begin()
    started = await stage.running()
    stage.events.clear()
    await stage.backend.carry_out(stage.start(stage.nodes[1], start=2))
    answer = (await stage.hears(*REFUSALS, ev.ReplicaStarted))[0]
    if isinstance(answer, REFUSALS):
        assert (stage.named(answer), bool(answer.reason)) == (stage.order_name(2), True)
    assert {event.incarnation for event in stage.said(ev.ReplicaStarted)} <= {started.incarnation}
    assert await stage.left(started.incarnation)
    assert not stage.said(ev.ReplicaGone)


async def test_a_start_on_an_unknown_node_is_refused(stage: Stage):
    """The refusal names the order, by its ordinal or its transaction, and gives the reason."""
    await stage.begin()
    await stage.startable(stage.nodes[1])
    await stage.backend.carry_out(stage.start("node-7", start=4))
    (refused,) = await stage.hears(*REFUSALS)
    assert (stage.named(refused), "node-7" in refused.reason) == (stage.order_name(4), True)


# -- ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3])
async def test_an_end_that_nobody_ordered_is_reported_with_its_code(stage: Stage, code: int):
    """ReplicaGone carries the exit code and does not claim an eviction."""
    _needs_ends(stage)
    await stage.begin()
    started = await stage.running()
    await stage.ends(code)
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert (gone.incarnation, gone.exit_code, gone.evicted) == (started.incarnation, code, False)


async def test_an_end_by_somebody_else_is_reported(stage: Stage):
    """ReplicaGone names the incarnation, once."""
    await stage.begin()
    started = await stage.running()
    await stage.ended_by_others()
    gone = await stage.hears(ev.ReplicaGone)
    assert [event.incarnation for event in gone] == [started.incarnation]


def _needs_ends(stage: Stage) -> None:
    if not stage.ends_by_itself:
        pytest.skip(
            "does not hold of a StatefulSet, whose containers begin again in place: other owners run it"
        )


@pytest.mark.parametrize("named", [True, False])
async def test_an_eviction_ends_in_the_word_that_the_replica_is_gone(stage: Stage, named: bool):
    """Whether an incarnation is named or whichever there is: it is gone, evicted, and may start elsewhere."""
    await stage.begin()
    started = await stage.running()
    node = next(name for name in stage.nodes if name != started.node)
    await stage.bound_for(node)
    await stage.backend.carry_out(stage.eviction(started.incarnation if named else None))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert (gone.incarnation, gone.evicted) == (started.incarnation, True)
    await stage.backend.carry_out(stage.start(node, start=2))
    await stage.comes(lambda: _others(stage, started))
    again = _others(stage, started)[0]
    assert again.node == node if stage.pins else again.node in stage.nodes
    assert stage.events.index(gone) < stage.events.index(again)


def _others(stage: Stage, first: ev.ReplicaStarted) -> list[ev.ReplicaStarted]:
    """Return the words of incarnations after the first."""
    return [event for event in stage.said(ev.ReplicaStarted) if event.incarnation != first.incarnation]


async def test_gone_is_said_when_nothing_of_it_is_left(stage: Stage):
    """The report waits however long the end takes, and whichever part of it takes long."""
    await stage.begin()
    started = await stage.running(slow_to_end=True)
    assert await stage.left(started.incarnation)
    await stage.backend.carry_out(stage.eviction(started.incarnation, grace_seconds=1.0))
    await stage.hears(ev.ReplicaGone)
    assert await stage.left(started.incarnation) == []


async def test_the_same_eviction_ordered_again_ends_nothing_more(stage: Stage):
    """While it goes, and after: it is gone, and what came after it lives."""
    await stage.begin()
    started = await stage.running(slow_to_end=True)
    await stage.bound_for(stage.nodes[1])
    for _ in range(2):
        await stage.backend.carry_out(stage.eviction(started.incarnation, grace_seconds=1.0))
    await stage.hears(ev.ReplicaGone)
    await stage.backend.carry_out(stage.start(stage.nodes[1], start=2))
    await stage.comes(lambda: _others(stage, started))
    told = len(stage.said(ev.ReplicaGone))
    await stage.backend.carry_out(stage.eviction(started.incarnation, grace_seconds=1.0))
    gone = await stage.hears(ev.ReplicaGone, count=told + 1)
    assert {event.incarnation for event in gone} == {started.incarnation}
    assert await stage.left(_others(stage, started)[0].incarnation)


async def test_an_eviction_of_nothing_is_answered_all_the_same(stage: Stage):
    """The order may come a second time, or after the end: there is nothing, and that is the answer."""
    await stage.begin()
    await stage.nothing_runs()
    await stage.backend.carry_out(stage.eviction("0007"))
    await stage.hears(ev.ReplicaGone)  # of two orders for one job the later one counts
    await stage.backend.carry_out(stage.eviction(None))
    gone = await stage.hears(ev.ReplicaGone, count=2)
    assert [event.incarnation for event in gone] == ["0007", None]


async def test_an_eviction_of_a_former_incarnation_spares_the_present_one(stage: Stage):
    """It is answered that the former one is gone."""
    await stage.begin()
    started = await stage.running()
    await stage.backend.carry_out(stage.eviction("0007"))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert gone.incarnation == "0007"
    assert await stage.left(started.incarnation)


# -- room --------------------------------------------------------------------------------------------------


async def test_room_is_held(stage: Stage):
    """Once, though it is ordered twice; and given back, once and again."""
    await stage.begin()
    started = await stage.running()
    node = next(name for name in stage.nodes if name != started.node)
    for count in (1, 2):
        await stage.backend.carry_out(stage.hold("move-1", node))
        held = await stage.hears(ev.RoomHeld, count=count)
        assert {(event.transaction, event.replica) for event in held} == {("move-1", stage.replica)}
    assert await stage.rooms() in ([], [node])
    for _ in range(2):
        await stage.backend.carry_out(stage.release("move-1", node))
    await stage.settles(lambda: _no_rooms(stage))
    assert await stage.left(started.incarnation)


async def test_room_on_an_unknown_node_is_refused(stage: Stage):
    """RoomRefused names the move and gives the reason."""
    await stage.begin()
    await stage.running()
    await stage.backend.carry_out(stage.hold("move-1", "node-7"))
    (refused,) = await stage.hears(ev.RoomRefused)
    assert (refused.transaction, "node-7" in refused.reason) == ("move-1", True)
    assert await stage.rooms() == []


async def test_room_for_what_is_not_there_is_answered(stage: Stage):
    """Held or refused with words: the move waits for one of both."""
    await stage.begin()
    await stage.hears(ev.NodeObserved, count=2)
    await stage.backend.carry_out(stage.hold("move-1", stage.nodes[1]))
    (answer,) = await stage.hears(ev.RoomHeld, ev.RoomRefused)
    assert answer.transaction == "move-1"
    assert isinstance(answer, ev.RoomHeld) or answer.reason


async def test_room_that_is_not_held_can_be_released(stage: Stage):
    """An order that is given again after it was carried out does nothing."""
    await stage.begin()
    started = await stage.running()
    await stage.backend.carry_out(stage.release("move-1", stage.nodes[1]))
    assert await stage.left(started.incarnation)
    assert not stage.said(ev.RoomHeld, ev.RoomRefused, ev.ReplicaGone)


async def _no_rooms(stage: Stage) -> bool:
    return not await stage.rooms()


# -- one manager after another -----------------------------------------------------------------------------


async def test_the_end_of_a_manager_leaves_replicas_running(stage: Stage):
    """And says nothing of them."""
    await stage.begin()
    started = await stage.running()
    stage.events.clear()
    await stage.backend.end()
    assert await stage.left(started.incarnation)
    assert not stage.said(ev.ReplicaGone)


async def test_what_runs_is_taken_up_by_the_next_manager(stage: Stage):
    """A replica goes on while no manager is there, and its end reaches the next one."""
    await stage.begin()
    started = await stage.running()
    await stage.another_manager(stage.state(phase=Phase.RUNNING, incarnation=started.incarnation))
    assert not stage.said(ev.ReplicaGone)
    await stage.backend.carry_out(stage.eviction(started.incarnation))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert gone.incarnation == started.incarnation


async def test_an_end_while_no_manager_was_there_reaches_the_next(stage: Stage):
    """The exit code is not lost with the manager that would have heard it."""
    _needs_ends(stage)
    await stage.begin()
    started = await stage.running()
    state = stage.state(phase=Phase.RUNNING, incarnation=started.incarnation)
    await stage.another_manager(state, lambda: stage.ends(5))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert (gone.incarnation, gone.exit_code, gone.evicted) == (started.incarnation, 5, False)


async def test_what_vanished_while_no_manager_was_there_is_told(stage: Stage):
    """Though nobody knows how it ended."""
    await stage.begin()
    started = await stage.running()

    async def vanish() -> None:
        await stage.ended_by_others()

        async def vanished() -> bool:
            return not await stage.left(started.incarnation)

        await stage.settles(vanished)

    state = stage.state(phase=Phase.RUNNING, incarnation=started.incarnation)
    await stage.another_manager(state, vanish)
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert gone.incarnation == started.incarnation
    assert all(stage.events.index(gone) < stage.events.index(event) for event in _others(stage, started))


async def test_an_eviction_by_the_manager_before_is_told_by_the_next(stage: Stage):
    """Both when it is over at its begin and when it is not; and the order may be given again."""
    await stage.begin()
    started = await stage.running(slow_to_end=True)
    await stage.bound_for(stage.nodes[1])
    await stage.backend.carry_out(stage.eviction(started.incarnation, grace_seconds=1.0))
    await stage.another_manager(stage.state(phase=Phase.RUNNING, incarnation=started.incarnation))
    await stage.backend.carry_out(stage.eviction(started.incarnation, grace_seconds=1.0))
    gone = await stage.hears(ev.ReplicaGone)
    assert {event.incarnation for event in gone} == {started.incarnation}
    assert await stage.left(started.incarnation) == []


async def test_a_start_whose_word_was_lost_is_said_when_it_is_ordered_again(stage: Stage):
    """The next manager knows of the order only; it orders it again and hears of the same incarnation."""
    await stage.begin()
    node = stage.nodes[1]
    await stage.startable(node)
    await stage.backend.carry_out(stage.start(node))
    started = (await stage.hears(ev.ReplicaStarted))[0]
    await stage.another_manager(stage.state(phase=Phase.STARTING))
    await stage.backend.carry_out(stage.start(node))
    again = await stage.hears(ev.ReplicaStarted)
    assert {event.incarnation for event in again} == {started.incarnation}
    assert not stage.said(ev.ReplicaGone)


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.SUCCEEDED, Phase.FAILED])
async def test_what_runs_and_is_not_wanted_is_ended(our_stage: Stage, phase: Phase):
    """What the state does not have running is ended before the next start, which then is not refused."""
    stage = our_stage
    await stage.begin()
    await stage.running()
    await stage.another_manager(stage.state(phase=phase))
    await stage.backend.carry_out(stage.start(stage.nodes[0], start=2))
    (started,) = await stage.hears(ev.ReplicaStarted)
    assert started.node == stage.nodes[0]


@pytest.mark.parametrize("phase", [Phase.AWAITED, Phase.SUCCEEDED, Phase.FAILED])
async def test_what_an_owner_runs_is_wanted_by_it(owned_stage: Stage, phase: Phase):
    """What the state does not have running is told, and lives on."""
    stage = owned_stage
    await stage.begin()
    started = await stage.running()
    await stage.another_manager(stage.state(phase=phase))
    (again,) = await stage.hears(ev.ReplicaStarted)
    assert again == started
    assert await stage.left(started.incarnation)


GIVEN_UP = [
    (TransactionState.VERIFYING, 1),
    (TransactionState.COMING, 2),
    (TransactionState.SUCCEEDED, 1),
]


@pytest.mark.parametrize(("reached", "attempt"), GIVEN_UP)
async def test_room_that_no_move_needs_is_given_up_at_begin(
    owned_stage: Stage, reached: TransactionState, attempt: int
):
    """Of moves that are not in flight, or have come to the target, or go back to the source; no other."""
    stage = owned_stage
    await stage.begin()
    started = await stage.running()
    node = next(name for name in stage.nodes if name != started.node)
    for count, move in enumerate(("move-1", "move-2", "move-3"), 1):
        await stage.backend.carry_out(stage.hold(move, node))
        await stage.hears(ev.RoomHeld, count=count)
    assert len(await stage.rooms()) == 3
    state = stage.state(phase=Phase.RUNNING, incarnation=started.incarnation)
    flying = {
        "move-1": _move(stage, "move-1", started, TransactionState.CHECKPOINTING, 1),
        "move-2": _move(stage, "move-2", started, reached, attempt),
    }
    await stage.another_manager(State(jobs=state.jobs, replicas=state.replicas, transactions=flying))

    async def two_given_up() -> bool:
        return len(await stage.rooms()) == 1

    await stage.settles(two_given_up)
    await stage.backend.carry_out(stage.hold("move-1", node))
    await stage.hears(ev.RoomHeld)
    assert await stage.rooms() == [node]


def _move(
    stage: Stage, name: str, started: ev.ReplicaStarted, state: TransactionState, attempt: int
) -> Transaction:
    target = next(node for node in stage.nodes if node != started.node)
    return Transaction(
        id=name,
        kind=Kind.MOVE,
        job=stage.job,
        before={stage.replica: started.node},
        after={stage.replica: target},
        policy="test",
        purpose="migrate",
        reason="test",
        state=state,
        proposed_at=0.0,
        deadline=1e9,
        attempt=attempt,
        witnesses={stage.replica: Witness(incarnation=started.incarnation)},
    )
