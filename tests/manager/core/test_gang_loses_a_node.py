"""A node is lost in each state of a gang's move: all of it runs again on what is left, and nobody twice."""

import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import MigrateGang
from specon_manager.model.cluster import Phase
from specon_manager.policies.placement import readmissions
from support.decisions.changed_worlds import W0, W1, G, change_of, runs, trains_on
from support.decisions.gangs import on
from support.decisions.told import Told

ORDERS = 8
"""So many are carried out from the proposal to the last start."""


def lose(cluster: Told, node: str) -> None:
    """Take a node away with all that runs there."""
    known = cluster.state.nodes[node]
    cluster.post(ev.NodeObserved(node=node, capacity=known.capacity, usage=known.usage, ready=False))
    for name, live in list(cluster.live.items()):
        if live.node == node:
            cluster.die(name, None)


def go_on(cluster: Told, lost: str) -> None:
    """Let time pass and a policy start again what waits, until nothing is in flight and all of it runs."""
    for step in range(101, 161):
        cluster.settle(1)
        trains_on(cluster, step)
        if cluster.state.transactions_of(G):
            continue
        waiting = [each.phase is Phase.PENDING for each in cluster.state.replicas.values()]
        if all(waiting) and cluster.state.snapshot(cluster.now).waiting:
            cluster.again(G, on("node-3", W0, W1))
        elif any(waiting):
            cluster.propose(*readmissions(cluster.state.snapshot(cluster.now)))
        elif all(each.phase is Phase.RUNNING for each in cluster.state.replicas.values()):
            return
    raise AssertionError(f"{lost} was lost, and it never ran again: {cluster.state.replicas}")


@pytest.mark.parametrize("lost", ["node-0", "node-1", "node-2"])
@pytest.mark.parametrize("carried_out", range(ORDERS + 1))
def test_a_gang_that_loses_a_node_while_it_moves_runs_whole_again(carried_out: int, lost: str):
    """From the source or to a target: before the move, after it, or elsewhere where neither is left."""
    with runs(resizing="none", workers=2, most=2, fewest=None) as cluster:
        there = {W0: "node-1", W1: "node-2"}
        cluster.propose(MigrateGang(job=G, placement=there, purpose="migrate", reason="room"))
        cluster.sidecars_answer = True
        for _ in range(carried_out):
            if cluster.orders:
                cluster.carry_out_one(cluster.orders[0])
        lose(cluster, lost)
        go_on(cluster, lost)
        nodes = {each.node for each in cluster.state.replicas.values()}
        assert lost not in nodes
        assert not change_of(cluster).in_flight
        assert {cluster.live[name].node for name in (W0, W1)} == nodes
