"""Nodes that come, change and go, and the moves that were to go there."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob, ReleaseRoom
from specon_manager.model.constraints import Taint
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import FINAL_STATES, TransactionState
from support.decisions.owned_moves import A, moving
from support.decisions.owners import Owners, described

EARLY = [TransactionState.PROPOSED, TransactionState.RESERVED, TransactionState.CHECKPOINTING]
LATE = [state for state in TransactionState if state not in {*EARLY, *FINAL_STATES}]


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
        TransactionState.ROLLED_BACK,
        f"node node-1, where {A} is to run, is {'gone' if gone else 'not ready'}",
    )
    assert any(isinstance(action, ReleaseRoom) for action in actions)
    assert cluster.state.replicas[A].node == "node-0"


def test_a_target_that_is_lost_while_the_replica_leaves_is_given_up_once_that_is_gone():
    """It was told to end and cannot be told otherwise: it comes back where it was, and waits for nothing."""
    cluster = moving(TransactionState.LEAVING)
    assert cluster.post(unready(cluster, "node-1")) == []
    actions = cluster.die(A, 143, evicted=True)
    assert [each.placement for each in actions if isinstance(each, PlaceJob)] == [{A: "node-0"}]


def test_a_target_that_is_lost_before_the_replica_runs_there_is_given_up_at_once():
    """What was ordered may live there all the same: nothing runs anywhere before that is known to be gone."""
    cluster = moving(TransactionState.COMING)
    actions = cluster.post(unready(cluster, "node-1"))
    (order,) = [each for each in actions if isinstance(each, PlaceJob)]
    assert (order.placement, dict(order.ending)) == ({}, {A: ""})
    move = cluster.state.transaction_of(A)
    assert (move.state, move.attempt) == (TransactionState.LEAVING, 2)


def test_a_target_that_is_lost_while_the_replica_runs_there_is_for_the_proof_to_find_out():
    """As long as nobody says that it is gone it may train."""
    cluster = moving(TransactionState.VERIFYING)
    assert cluster.post(unready(cluster, "node-1")) == []
    assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING


@pytest.mark.parametrize("stop", [*EARLY, *LATE])
def test_a_lost_source_is_no_reason_to_stay(stop):
    """The more so as it runs there still, until its end is seen."""
    cluster = moving(stop)
    assert cluster.post(ev.NodeGone(node="node-0")) == []
    assert cluster.state.transaction_of(A).state is stop


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
