"""Converged jobs that reserve processors leave a full node to those beside them that still grow."""

import msgspec
import pytest

from specon_manager.core.plan import plan
from specon_manager.model.actions import Migrate
from specon_manager.model.cluster import Phase
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.policies.making_way import make_way
from specon_manager.policies.progress import ProgressSettings, propose
from specon_sidecar.classify import Category
from support.decisions.expected import in_place
from support.decisions.gang_worlds import NOW, Layout, nodes_of, spec_of

ONE = Resources(cpu=1.0)


def full(*, growing=2, converged=2, nodes=2, **changes):
    """Return jobs of one processor each on node 0 of as many, the converged ones first."""
    layout = Layout(nodes_of(nodes, cpu=float(growing + converged)))
    for number in range(growing + converged):
        name = f"{'converged' if number < converged else 'growing'}-{number}"
        layout.add(spec_of(name, requests=ONE, **{"bursts": True, **changes}), "0")
        category = Category.CONVERGED if number < converged else Category.PROGRESSING
        told = Progress(category=category, category_since=NOW - 100 + number, step=50, reported_at=NOW - 1)
        layout.change(f"{name}/worker/0", progress=told)
    return layout


def moves(layout, promised=()):
    return [(move.replica.split("/")[1], move.target) for move in make_way(layout.snapshot, promised)]


def test_a_converged_job_leaves_a_full_node_for_an_empty_one():
    """The one that has converged longest, one from a node at a time, and the reason says who gains."""
    (move,) = make_way(full().snapshot, ())
    assert (move.replica, move.target) == ("default/converged-0/worker/0", "node-1")
    assert str(move.reason) == (
        "it has converged: 2 others still grow on node-0 and can use its 1 processor;"
        " node-1 has 4 that nobody reserves"
    )


def test_the_default_policy_orders_it_where_processors_are_short():
    """Eight jobs train on four processors, and each reserves half a processor: the plan accepts the move."""
    layout = full(growing=6)
    layout.state = msgspec.structs.replace(layout.state, nodes=nodes_of(2, cpu=4.0))
    half = Resources(cpu=0.5)
    for job in list(layout.state.jobs.values()):
        spec = msgspec.structs.replace(job.spec, requests=half)
        layout.state = layout.state.with_job(msgspec.structs.replace(job, spec=spec))
        layout.change(f"{job.name.removeprefix('default/')}/worker/0", requests=half)
    verdicts = plan(layout.state, list(propose(layout.snapshot, ProgressSettings())), NOW, layout.snapshot)
    ordered = [each.proposal for each in verdicts if each.objection is None]
    assert [(type(each), each.replica) for each in ordered] == [(Migrate, "default/converged-0/worker/0")]


@pytest.mark.parametrize(
    ("why", "layout"),
    [
        ("nobody there grows", full(growing=0, converged=4)),
        ("the growing job is limited to its requests", full(bursts=False)),
        ("nobody has converged", full(growing=4, converged=0)),
        ("there is one node", full(nodes=1)),
        ("it saves nothing", full(checkpointing="none")),
        ("its owner forbids moves", full(migratable=False)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_it_stays_where_nobody_would_gain_or_it_cannot_go(why, layout):
    """Each of these alone keeps it."""
    assert moves(layout) == [], why


def test_it_stays_where_the_node_is_not_full():
    """A growing job can use the processors that nobody reserves."""
    layout = full()
    layout.change("converged-1/worker/0", phase=Phase.ABSENT, node=None, incarnation=None)
    assert moves(layout) == []


def test_its_processors_are_lent_in_place_first():
    """Where its owner allows it, and while that has not been done."""
    layout = in_place(full(lowest_cpu=0.25))
    assert moves(layout) == []
    for number in range(2):
        layout.change(f"converged-{number}/worker/0", weight=0.25)
    assert moves(layout) == [("converged-0", "node-1")]


def test_it_is_moved_for_this_once_and_not_to_a_node_that_would_be_full():
    """Else two nodes would send it to and fro."""
    layout = full()
    layout.change("converged-0/worker/0", moved_for=("make-way",))
    assert moves(layout) == [("converged-1", "node-1")]
    assert moves(layout, {"node-1"}) == []
    layout = full()
    layout.add(spec_of("large", requests=Resources(cpu=2.5)), "1")
    assert moves(layout) == []
