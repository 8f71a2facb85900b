"""Gangs on as few nodes as possible, the first worker beside its servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.policies.backfill import gang_of
from specon_manager.policies.idle import Idle
from specon_manager.policies.packing import grow, place_tightly
from support.decisions.gang_worlds import Layout, layouts, nodes_of, spec_of

SERVED = {"ps_requests": Resources(gpu=1.0)}


def placed(layout, job, least=None, choice="best-fit"):
    """Return where the gang goes, in short: `ps/0` to the number of a node."""
    snapshot = layout.snapshot
    gang = gang_of(snapshot.jobs[f"default/{job}"], snapshot)
    idle = Idle(snapshot, choice=choice)
    found = place_tightly(gang.servers, gang.workers, gang.least if least is None else least, idle)
    return found and {name.split("/", 2)[2]: number(node) for name, node in found.items()}


def number(node):
    return int(node.removeprefix("node-"))


def occupied(*gpus):
    """Return nodes of four GPUs, with so many of them taken."""
    layout = Layout(nodes_of(len(gpus)))
    for node, taken in enumerate(gpus):
        if taken:
            layout.add(spec_of(f"old-{node}", taken), " ".join([str(node)] * taken))
    return layout


@pytest.mark.parametrize(("choice", "node"), [("best-fit", 2), ("first-fit", 0)])
def test_the_tightest_of_the_nodes_that_hold_all_of_it(choice, node):
    """The one that is left with least; or the first by name, where that is set."""
    layout = occupied(0, 3, 2, 1).add(spec_of("j", 1, ps=1, **SERVED))
    assert placed(layout, "j", choice=choice) == {"ps/0": node, "worker/0": node}


def test_node_after_node_is_filled_the_one_that_holds_most_first():
    """Six on nodes with 1, 4, 2 and 3 free: four, then two on the first by name that holds them both."""
    assert placed(occupied(3, 0, 2, 1).add(spec_of("j", 6)), "j") == {
        "worker/0": 1,
        "worker/1": 1,
        "worker/2": 1,
        "worker/3": 1,
        "worker/4": 2,
        "worker/5": 2,
    }


@pytest.mark.parametrize("gpus", [(3, 1, 1, 1), (1, 1, 1, 3)])
def test_the_largest_of_workers_that_differ_goes_first(gpus):
    """Else the small ones take the room that only the large one needs."""
    amounts = tuple((index, Resources(gpu=float(gpu))) for index, gpu in enumerate(gpus))
    spec = spec_of("j", 4, requests=Resources(gpu=3.0), unlike=amounts)
    found = placed(occupied(1, 1).add(spec), "j")
    large = f"worker/{gpus.index(3)}"
    assert found.pop(large) not in found.values()
    assert len(set(found.values())) == 1
    assert placed(occupied(2, 2).add(spec), "j") is None


def test_the_first_worker_is_beside_all_servers():
    """Two servers and a worker take the node with three free, not those with two."""
    layout = occupied(2, 1, 2).add(spec_of("j", 3, ps=2, **SERVED))
    assert placed(layout, "j") == {"ps/0": 1, "ps/1": 1, "worker/0": 1, "worker/1": 0, "worker/2": 0}


def test_a_gang_waits_rather_than_train_over_the_network():
    """There is room for all of it, but nowhere for the servers and a worker together."""
    layout = occupied(2, 2, 2).add(spec_of("j", 2, ps=2, **SERVED))
    assert placed(layout, "j") is None


def test_servers_are_apart_where_no_empty_node_holds_them_with_a_worker():
    """It would wait for ever."""
    layout = Layout(nodes_of(2)).add(
        spec_of("j", 1, ps=1, requests=Resources(gpu=3.0), ps_requests=Resources(gpu=2.0))
    )
    assert placed(layout, "j") == {"ps/0": 0, "worker/0": 1}


def test_without_servers_workers_go_wherever_there_is_room():
    """Each node may hold one."""
    assert placed(occupied(3, 3, 3).add(spec_of("j", 3)), "j") == {
        "worker/0": 0,
        "worker/1": 1,
        "worker/2": 2,
    }


def test_nothing_is_taken_where_not_all_of_it_fits():
    """A gang that waits leaves the room to others."""
    snapshot = occupied(2, 3).add(spec_of("j", 4)).snapshot
    gang, idle = gang_of(snapshot.jobs["default/j"], snapshot), Idle(snapshot, choice="best-fit")
    before = [idle.open(node) for node in idle.nodes]
    assert place_tightly(gang.servers, gang.workers, gang.least, idle) is None
    assert [idle.open(node) for node in idle.nodes] == before


@pytest.mark.parametrize(("abroad", "nodes"), [(False, [0, 0]), (True, [0, 0, 1])])
def test_a_gang_grows_where_it_is_and_elsewhere_only_if_told(abroad, nodes):
    """Four workers want to join, and two have room beside the first."""
    snapshot = occupied(2, 3).add(spec_of("j", 4, min_workers=1)).snapshot
    gang, idle = gang_of(snapshot.jobs["default/j"], snapshot), Idle(snapshot, choice="first-fit")
    placement = place_tightly(gang.servers, gang.workers, 1, idle)
    grow(gang.workers, placement, idle, abroad=abroad)
    assert [number(node) for node in placement.values()] == nodes


@given(layouts(), st.sampled_from(["best-fit", "first-fit"]))
def test_a_placement_is_whole_and_fits(layout, choice):
    """All servers and the fewest workers, within what is free; None only where one node is not enough."""
    snapshot = layout.snapshot
    for job in snapshot.waiting:
        gang, idle = gang_of(job, snapshot), Idle(snapshot, choice=choice)
        found = place_tightly(gang.servers, gang.workers, gang.least, idle)
        if found is None:
            whole = total([r.requests for r in (*gang.servers, *gang.workers[: gang.least])])
            assert not any(whole.fits(snapshot.open_room(node.name)) for node in snapshot.ready_nodes)
            continue
        assert list(found) == [r.name for r in (*gang.servers, *gang.workers[: gang.least])]
        used = dict.fromkeys(found.values(), NOTHING)
        for name, node in found.items():
            used[node] += snapshot.replicas[name].requests
        for node, amount in used.items():
            assert amount.fits(snapshot.open_room(node))
