"""Which jobs a cluster can never run."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.engine.feasibility import Feasibility
from specon_manager.model.resources import Resources
from support.lab.simulations import job, nodes

CLUSTER = Feasibility([*nodes(2, cpu=8.0, gpu=4.0)])


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (job(0, requests=Resources(cpu=8.0)), None),
        (job(0, workers=2, requests=Resources(gpu=4.0)), None),
        (job(0, requests=Resources(gpu=5.0)), "asks for 5 GPUs: no node has as much"),
        (
            job(0, workers=3, requests=Resources(gpu=3.0)),
            "needs 3 workers at least: the nodes have room for 2",
        ),
        (job(0, workers=3, requests=Resources(gpu=3.0), spec={"min_workers": 2}), None),
        (
            job(0, workers=8, ps=2, requests=Resources(cpu=2.0), spec={"ps_requests": Resources(cpu=1.0)}),
            "asks for 18 cores at least",
        ),
        (job(0, ps=1, spec={"ps_requests": Resources(memory=65e9)}), "ps/0 asks for 65 GB"),
    ],
)
def test_only_what_is_certain_is_turned_away(asked, why):
    """A job is turned away when a part of it, or its smallest gang, is larger than the cluster."""
    found = CLUSTER.objection(asked.spec)
    assert (found is None) if why is None else (found is not None and why in found)


def test_nodes_that_are_never_ready_do_not_count():
    """A node that takes nothing is no room."""
    broken = [msgspec.structs.replace(node, ready=False) for node in nodes(2)]
    assert Feasibility(broken).objection(job(0).spec) is not None


@given(workers=st.integers(1, 12), cpu=st.floats(0.1, 9.0))
def test_what_can_be_placed_is_not_turned_away(workers, cpu):
    """Whatever fits when nodes are filled one after the other may come in."""
    room = [8.0, 8.0]
    for _ in range(workers):
        index = next((i for i, left in enumerate(room) if left >= cpu), None)
        if index is None:
            return
        room[index] -= cpu
    spec = job(0, workers=workers, requests=Resources(cpu=cpu)).spec
    assert CLUSTER.objection(spec) is None
