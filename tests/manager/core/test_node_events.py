"""Nodes that come, change and go, and the moves that were to go there."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import ReleaseRoom
from specon_manager.model.constraints import Taint
from specon_manager.model.moves import FINAL_STATES, MoveState
from specon_manager.model.resources import Resources
from specon_sidecar.wire import Checkpoint
from support.cluster import DIGEST
from support.owners import Owners, described

A = "default/a/worker/0"
EARLY = [MoveState.PROPOSED, MoveState.RESERVED, MoveState.CHECKPOINTING]
LATE = [state for state in MoveState if state not in {*EARLY, *FINAL_STATES}]


def moving(stop):
    cluster = Owners()
    cluster.sidecars_answer = False
    cluster.observe(described("a"))
    cluster.start_all("node-0")
    cluster.report(A, step=100)
    cluster.post(ev.MoveRequested(id="default/m", replica=A, target="node-1"))
    if stop is not MoveState.PROPOSED:
        cluster.post(ev.RoomHeld(move="default/m"))
    if stop not in {MoveState.PROPOSED, MoveState.RESERVED}:
        cluster.post(ev.InstructionDelivered(id="default/m", replica=A, incarnation="uid-1"))
    if stop in LATE:
        cluster.acknowledge(A, checkpoint=Checkpoint(step=100, path="/c", digest=DIGEST))
    while cluster.state.moves[A].state is not stop:
        cluster.carry_out_one(next(o for o in cluster.orders if getattr(o, "replica", "") == A))
    return cluster


def unready(cluster, node):
    known = cluster.state.nodes[node]
    return ev.NodeObserved(node=node, capacity=known.capacity, usage=known.usage, ready=False)


@pytest.mark.parametrize("stop", EARLY)
@pytest.mark.parametrize("gone", [True, False])
def test_a_lost_target_ends_a_move_before_anything_was_ended(stop, gone):
    """The replica stays where it trains; what was held is given back."""
    cluster = moving(stop)
    actions = cluster.post(ev.NodeGone(node="node-1") if gone else unready(cluster, "node-1"))
    (move,) = cluster.state.history
    assert (move.state, move.note) == (
        MoveState.ROLLED_BACK,
        "the target node-1 is gone" if gone else "the target node-1 is not ready",
    )
    assert any(isinstance(action, ReleaseRoom) for action in actions)
    assert cluster.state.replicas[A].node == "node-0"


@pytest.mark.parametrize("stop", LATE)
def test_a_target_that_is_lost_later_is_for_the_restore_to_find_out(stop):
    """The replica must get back to life first: the start is refused, and the source gets it."""
    cluster = moving(stop)
    assert cluster.post(unready(cluster, "node-1")) == []
    assert cluster.state.moves[A].state is stop


@pytest.mark.parametrize("stop", [*EARLY, *LATE])
def test_a_lost_source_is_no_reason_to_stay(stop):
    """The more so as it runs there still, until its end is seen."""
    cluster = moving(stop)
    assert cluster.post(ev.NodeGone(node="node-0")) == []
    assert cluster.state.moves[A].state is stop


def test_what_runs_on_a_node_that_is_gone_is_known_until_its_end_is_seen():
    """The node is no target any more, and no policy stumbles over it."""
    cluster = Owners(nodes=3)
    cluster.observe(described("a"))
    cluster.start_all("node-2")
    cluster.post(ev.NodeGone(node="node-2"))
    assert [node.name for node in cluster.state.snapshot(cluster.now).ready_nodes] == ["node-0", "node-1"]
    assert cluster.state.replicas[A].node == "node-2"
    assert cluster.tick() == []
    before = cluster.state
    assert cluster.post(ev.NodeGone(node="node-2")) == []
    assert cluster.state == before


def test_labels_and_taints_are_what_was_seen_last():
    """A change of nothing but these is a change."""
    cluster = Owners()
    event = ev.NodeObserved(
        node="node-0",
        capacity=Resources(cpu=4.0),
        usage=Resources(),
        labels={"disk": "ssd"},
        taints=(Taint(key="gpu"),),
    )
    cluster.post(event)
    assert cluster.state.nodes["node-0"].labels == {"disk": "ssd"}
    assert cluster.state.nodes["node-0"].taints == (Taint(key="gpu"),)
    cluster.post(msgspec.structs.replace(event, labels={}, taints=()))
    assert cluster.state.nodes["node-0"].labels == {}
