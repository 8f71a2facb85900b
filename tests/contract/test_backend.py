"""What every backend promises to the controller (`backends/base.py`)."""

import msgspec
import pytest

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import HoldRoom
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.resources import NOTHING
from support.contract_stage import REPLICA, Stage, eviction

pytestmark = pytest.mark.processes

SPEC = JobSpec(name="default/a", replicas=(REPLICA,))


def state_with(**changes: object) -> State:
    """Return what a manager knows that ordered the first start of the replica."""
    replica = Replica(name=REPLICA, job=SPEC.name, node="node-0", starts=1)
    replica = msgspec.structs.replace(replica, **changes)
    return State(jobs={SPEC.name: Job(spec=SPEC, order=0, submitted_at=0.0)}, replicas={REPLICA: replica})


async def test_begin_reports_the_nodes(stage: Stage):
    """Every node is reported with a capacity and as ready before anything is ordered."""
    await stage.begin()
    nodes = await stage.hears(ev.NodeObserved, 2)
    assert {node.node for node in nodes} >= {"node-0", "node-1"}
    assert all(node.ready and node.capacity.cpu > 0 for node in nodes)


async def test_begin_reports_a_node_that_is_there_no_more(stage: Stage):
    """A node that the state knows and the backend does not have is not ready."""
    await stage.begin(State(nodes={"node-9": Node(name="node-9", capacity=NOTHING)}))
    nodes = await stage.hears(ev.NodeObserved, 3)
    assert {node.node for node in nodes if not node.ready} == {"node-9"}


async def test_a_start_ends_in_the_word_of_it(stage: Stage):
    """ReplicaStarted names the replica and the node that was ordered."""
    await stage.begin()
    started = await stage.running()
    assert (started.replica, started.node) == (REPLICA, "node-0")


@pytest.mark.parametrize("code", [0, 3])
async def test_an_end_that_nobody_ordered_is_reported_with_its_code(stage: Stage, code: int):
    """ReplicaGone carries the exit code and does not claim an eviction."""
    await stage.begin()
    started = await stage.running(f"raise SystemExit({code})")
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert (gone.incarnation, gone.exit_code, gone.evicted) == (started.incarnation, code, False)


async def test_the_same_start_ordered_again_starts_nothing_more(stage: Stage):
    """The second time it names the same incarnation."""
    await stage.begin()
    await stage.running()
    await stage.backend.carry_out(stage.start())
    first, second = await stage.hears(ev.ReplicaStarted, 2)
    assert first == second


async def test_never_two_live_incarnations(stage: Stage):
    """A start beside a live incarnation is refused, and that one lives on."""
    await stage.begin()
    started = await stage.running()
    await stage.backend.carry_out(stage.start(start=2, node="node-1"))
    (refused,) = await stage.hears(ev.StartRefused)
    assert (refused.replica, refused.start) == (REPLICA, 2)
    await stage.backend.carry_out(eviction(started.incarnation))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert gone.incarnation == started.incarnation


async def test_a_start_on_an_unknown_node_is_refused(stage: Stage):
    """StartRefused gives the reason."""
    await stage.begin()
    await stage.backend.carry_out(stage.start(node="node-7"))
    (refused,) = await stage.hears(ev.StartRefused)
    assert "node-7" in refused.reason


@pytest.mark.parametrize("named", [True, False])
async def test_an_eviction_ends_in_the_word_that_the_replica_is_gone(stage: Stage, named: bool):
    """Whether an incarnation is named or whichever there is: it is gone, evicted, and may start elsewhere."""
    await stage.begin()
    started = await stage.running()
    await stage.backend.carry_out(eviction(started.incarnation if named else None))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert gone.incarnation == started.incarnation
    assert gone.evicted
    await stage.backend.carry_out(stage.start(start=2, node="node-1"))
    assert (await stage.hears(ev.ReplicaStarted, 2))[1].node == "node-1"


async def test_an_eviction_of_nothing_is_answered_all_the_same(stage: Stage):
    """The order may come a second time, or after the end: there is nothing, and that is the answer."""
    await stage.begin()
    await stage.backend.carry_out(eviction("0007"))
    await stage.backend.carry_out(eviction(None))
    gone = await stage.hears(ev.ReplicaGone, 2)
    assert [event.incarnation for event in gone] == ["0007", None]


@pytest.mark.parametrize(("node", "outcome"), [("node-1", ev.RoomHeld), ("node-7", ev.RoomRefused)])
async def test_room_is_held_or_refused(stage: Stage, node: str, outcome: type[ev.Event]):
    """Every HoldRoom is answered; an unknown node has none."""
    await stage.begin()
    await stage.backend.carry_out(
        HoldRoom(move="move-1", replica="default/a/worker/0", node=node, requests=NOTHING, reason="test")
    )
    (answer,) = await stage.hears(outcome)
    assert answer.move == "move-1"


async def test_what_runs_is_taken_up_by_the_next_manager(stage: Stage):
    """A replica goes on while no manager is there, and its end reaches the next one."""
    await stage.begin()
    started = await stage.running()
    await stage.another_manager(state_with(phase=Phase.RUNNING, incarnation=started.incarnation))
    assert not [event for event in stage.events if isinstance(event, ev.ReplicaGone)]
    await stage.backend.carry_out(eviction(started.incarnation))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert gone.incarnation == started.incarnation


async def test_an_end_while_no_manager_was_there_reaches_the_next(stage: Stage):
    """The exit code is not lost with the manager that would have heard it."""
    await stage.begin()
    started = await stage.running("raise SystemExit(5)")
    await stage.another_manager(state_with(phase=Phase.RUNNING, incarnation=started.incarnation))
    (gone,) = await stage.hears(ev.ReplicaGone)
    assert (gone.incarnation, gone.exit_code) == (started.incarnation, 5)


async def test_a_start_whose_word_was_lost_is_said_when_it_is_ordered_again(stage: Stage):
    """The next manager knows of the order only; it orders it again and hears of the same incarnation."""
    await stage.begin()
    started = await stage.running()
    await stage.another_manager(state_with(phase=Phase.STARTING))
    await stage.backend.carry_out(stage.start())
    (again,) = await stage.hears(ev.ReplicaStarted)
    assert again.incarnation == started.incarnation


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.SUCCEEDED, Phase.FAILED])
async def test_what_runs_and_is_not_wanted_is_ended(stage: Stage, phase: Phase):
    """What the state does not have running is ended before the next start, which then is not refused."""
    await stage.begin()
    await stage.running()
    await stage.another_manager(state_with(phase=phase))
    await stage.backend.carry_out(stage.start(start=2))
    (started,) = await stage.hears(ev.ReplicaStarted)
    assert started.node == "node-0"
