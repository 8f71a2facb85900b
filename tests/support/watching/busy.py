"""Clusters in which enough happens to look at."""

import msgspec

from specon_manager.model.actions import EvictReplica
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.classify import Category
from support.decisions.changed_jobs import change
from support.decisions.gangs import gang, with_gang
from support.watching.watched import WatchedCluster

GANG = "default/gang"


def busy_cluster():
    """Three nodes: one job has converged, some learn, one is in trouble, one waits."""
    cluster = WatchedCluster(nodes=3)
    learnt, growing, slow, rising = cluster.run("vae-1", "gru-1", "team-a-transformer", "gan-2")
    cluster.learn(growing, to=0.8, category=Category.PROGRESSING)
    cluster.learn(slow, to=0.5, category=Category.WATCHING)
    cluster.learn(rising, to=3.0, category=Category.DIVERGING)
    cluster.learn(learnt)
    cluster.submit("waits", job_class="trial")
    cluster.may_carry_out = lambda order: not isinstance(order, EvictReplica)
    return cluster


def moved(cluster):
    """Start the move of vae-1 and let it come as far as its eviction."""
    cluster.move("default/vae-1/worker/0", "node-2")
    cluster.carry_out()
    return cluster


def with_moving_gang(cluster, *, gpus=0.0):
    """Add a job of two workers that moves from two nodes to two others; nodes have so many GPUs."""
    spec = gang("gang", ps=0, resizing="none")
    first, second = spec.replicas
    state = with_gang(cluster.state, spec, {first: "node-0", second: "node-1"})
    flying = change(
        Kind.MOVE,
        job="gang",
        before={first: "node-0", second: "node-1"},
        after={first: "node-2", second: "node-1"},
        restart=True,
        state=TransactionState.LEAVING,
    )
    capacity = Resources(cpu=4.0, memory=8e9, gpu=gpus)
    nodes = {
        name: msgspec.structs.replace(node, capacity=capacity) if gpus else node
        for name, node in state.nodes.items()
    }
    cluster.state = msgspec.structs.replace(state.with_transaction(flying), nodes=nodes)
    return cluster
