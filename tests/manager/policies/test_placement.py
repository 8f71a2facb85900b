"""First placement: the round robin of SpeCon's experiments."""

import msgspec
import pytest

from specon_manager.model.actions import Admit
from specon_manager.model.cluster import Phase
from specon_manager.model.constraints import Constraints, Taint, Toleration
from specon_manager.model.resources import Resources
from specon_manager.policies.placement import admit_round_robin
from specon_manager.policies.round_robin import RoundRobinSettings, propose
from support.decisions.cluster import Cluster, replica_of
from support.decisions.snapshots import NOW, cluster_of, short


def pending(jobs, nodes=3, *, not_ready="", cpus=4.0, requests=0.0, **changes):
    """Return a state in which that many replicas wait."""
    state = cluster_of({"node-0": "p" * jobs}, cpus=cpus)
    ready = cluster_of({f"node-{n}": "" for n in range(nodes)}, not_ready=not_ready, cpus=cpus)
    state = msgspec.structs.replace(state, nodes=ready.nodes)
    for replica in state.replicas.values():
        fresh = {"phase": Phase.PENDING, "node": None, "incarnation": None, **changes}
        state = state.with_replica(
            msgspec.structs.replace(replica, requests=Resources(cpu=requests), **fresh)
        )
    return state


def placed(state):
    return [(short(a.replica), a.node) for a in admit_round_robin(state.snapshot(NOW))]


def test_job_k_goes_to_node_k_modulo_the_nodes():
    """Worker ((k-1) mod W) + 1 in the words of the paper."""
    assert placed(pending(5)) == [
        ("p0", "node-0"),
        ("p1", "node-1"),
        ("p2", "node-2"),
        ("p3", "node-0"),
        ("p4", "node-1"),
    ]


def test_nodes_count_by_number_and_not_by_letters():
    """node-2 comes before node-10."""
    state = pending(11, nodes=11)
    assert placed(state)[2] == ("p2", "node-2")
    assert placed(state)[10] == ("p10", "node-10")


def test_the_next_node_with_room_takes_what_does_not_fit():
    """What was promised to an earlier one in the same round is taken; what fits nowhere waits."""
    assert placed(pending(5, nodes=2, cpus=2.0, requests=1.0)) == [
        ("p0", "node-0"),
        ("p1", "node-1"),
        ("p2", "node-0"),
        ("p3", "node-1"),
    ]
    assert placed(pending(3, nodes=3, cpus=2.0, requests=2.0, not_ready="node-1")) == [
        ("p0", "node-0"),
        ("p1", "node-2"),
    ]


@pytest.mark.parametrize("not_ready", ["node-0 node-1 node-2"])
def test_without_a_ready_node_everything_waits(not_ready):
    """No node, no proposal, and no error."""
    assert placed(pending(3, not_ready=not_ready)) == []
    assert placed(pending(3, nodes=0)) == []


def test_a_node_that_a_job_may_not_run_on_is_passed_over():
    """Its taint is not tolerated; who tolerates it is not held up by those who do not."""
    state = pending(4, 2, requests=1.0, cpus=2.0)
    tainted = msgspec.structs.replace(state.nodes["node-0"], taints=(Taint(key="gpu"),))
    state = msgspec.structs.replace(state, nodes={**state.nodes, "node-0": tainted})
    assert placed(state) == [("p0", "node-1"), ("p1", "node-1")]
    job = state.jobs["default/p3"]
    tolerant = Constraints(tolerations=(Toleration(operator="Exists"),))
    spec = msgspec.structs.replace(job.spec, constraints=tolerant)
    state = state.with_job(msgspec.structs.replace(job, spec=spec))
    assert placed(state) == [("p0", "node-1"), ("p1", "node-1"), ("p3", "node-0")]


def test_a_replica_goes_back_to_where_it_ran():
    """Its files are warm there; when that node is gone the round robin goes on."""
    assert placed(pending(1, node="node-2", crashes=1)) == [("p0", "node-2")]
    assert placed(pending(1, node="node-2", not_ready="node-2")) == [("p0", "node-0")]


def test_a_replica_that_crashed_waits_for_the_end_of_its_pause():
    """Until then it is not thought of."""
    assert placed(pending(1, not_before=NOW + 0.1)) == []
    assert placed(pending(1, not_before=NOW)) == [("p0", "node-0")]


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED])
def test_only_what_is_pending_is_admitted(phase):
    """Everything else has its node, or needs none."""
    state = pending(1)
    (replica,) = state.replicas.values()
    state = state.with_replica(msgspec.structs.replace(replica, phase=phase, node="node-0"))
    assert placed(state) == []


def test_the_baseline_places_and_never_moves():
    """Round robin alone, however unbalanced the cluster."""
    state = cluster_of({"node-0": "ppcccc", "node-1": ""})
    assert list(propose(state.snapshot(NOW), RoundRobinSettings())) == []
    proposals = list(propose(pending(2).snapshot(NOW), RoundRobinSettings()))
    assert [type(proposal) for proposal in proposals] == [Admit, Admit]


def test_a_queue_that_fits_nowhere_does_not_hold_up_what_fits():
    """A replica that asks for less than one that fits nowhere is still placed."""
    cluster = Cluster()
    for name, cpu in (("big", 2.0), ("bigger", 3.0), ("small", 0.5)):
        cluster.submit(name, requests=Resources(cpu=cpu))
    admitted = [proposal.replica for proposal in admit_round_robin(cluster.state.snapshot(cluster.now))]
    assert admitted == [replica_of("small")]
