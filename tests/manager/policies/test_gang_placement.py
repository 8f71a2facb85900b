"""Where the replicas of a gang go, and what is idle meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.policies.gang_placement import (
    place_first_fit,
    place_on_fewest_nodes,
    place_on_one_node,
    request_of_all,
    spread,
)
from specon_manager.policies.idle import Idle
from specon_manager.policies.no_fit_cache import TooLarge
from support.decisions.gang_layouts import Gang, layout, snapshot_of


def idle_of(nodes, *gangs):
    return Idle(snapshot_of(nodes, *gangs))


def where(placement):
    return None if placement is None else layout(placement)


def unlike(*cpus):
    """Return a job whose workers reserve so many processors each."""
    names = tuple(f"default/j/worker/{index}" for index in range(len(cpus)))
    amounts = tuple((index, Resources(cpu=cpu)) for index, cpu in enumerate(cpus))
    return JobSpec(name="default/j", replicas=names, requests=Resources(cpu=max(cpus)), unlike=amounts)


def placements(spec, idle):
    """Return what each rule makes of all of it."""
    number = len(spec.replicas)
    return (
        place_on_one_node(spec, idle, most=number, least=number),
        spread(spec, idle, most=number, least=number),
        place_on_fewest_nodes(spec, idle, most=number, least=number),
        place_first_fit(spec, idle, workers=number),
    )


@pytest.mark.parametrize("cpus", [(8, 1, 1), (1, 1, 8)])
def test_a_gang_whose_workers_differ_has_room_where_each_has_its_own(cpus):
    """So many of the largest would have none; the largest goes where only it has room."""
    spec = unlike(*cpus)
    assert place_on_one_node(spec, idle_of({"a": 10}), most=3, least=3) == dict.fromkeys(spec.replicas, "a")
    for placement in placements(spec, idle_of({"a": 2, "b": 8}))[1:]:
        assert [placement[name] for name in spec.replicas] == ["b" if cpu == 8 else "a" for cpu in cpus]
    assert placements(spec, idle_of({"a": 7, "b": 7})) == (None,) * 4


AMOUNTS = st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=1, max_size=5)
IDLE = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0, 4.0, 6.0]), max_size=4)


@given(AMOUNTS, IDLE)
def test_workers_that_differ_never_take_more_than_is_idle(cpus, nodes):
    """Nor is room that one node has for all of them overlooked."""
    spec = unlike(*cpus)
    found = placements(spec, idle_of(nodes))
    for placement in filter(None, found):
        assert set(placement) == set(spec.replicas)
        for node in set(placement.values()):
            there = [spec.requests_of(name).cpu for name, place in placement.items() if place == node]
            assert sum(there) <= nodes[node]
    assert (found[0] is not None) == (sum(cpus) <= max(nodes.values(), default=0))


@given(AMOUNTS, IDLE)
def test_of_workers_that_differ_the_first_are_taken_too(cpus, nodes):
    """However small the others are: the lead is one of those that train."""
    spec = unlike(*cpus)
    placement = spread(spec, idle_of(nodes), most=len(cpus), least=1) or {}
    assert set(placement) == set(spec.replicas[: len(placement)])


def test_a_gang_whose_workers_differ_is_not_taken_for_so_many_of_its_largest():
    """So many workers of the largest size had no room before."""
    known = TooLarge()
    known.add(Gang("alike", workers=3, cpu=8).spec(), 3)
    assert known.covers(Gang("other", workers=3, cpu=8).spec(), 3)
    assert not known.covers(unlike(8, 1, 1), 3)


# -- what is idle --------------------------------------------------------------------------------


def test_idle_is_what_nobody_requests_and_no_other_job_claims():
    """A claim takes room from everybody but its owner."""
    idle = idle_of(
        {"a": 8}, Gang("runs", workers=2, on={"a": "01"}), Gang("waits", workers=3, claim={"a": "012"})
    )
    assert idle.open("a").cpu == 3
    assert idle.open("a", "default/waits").cpu == 6
    assert idle.open("a", "default/other").cpu == 3


def test_the_claim_of_a_job_ends_when_it_starts():
    """Its room is counted once."""
    waits = Gang("waits", workers=3, claim={"a": "012"})
    idle = idle_of({"a": 8}, waits)
    idle.start(waits.spec(), waits.places({"a": "01"}))
    assert idle.open("a").cpu == 6


def test_a_claim_is_kept_beside_the_one_before_until_the_call_is_over():
    """The planner hears of the new one last, so nobody else may have the room of the old one before."""
    waits = Gang("waits", workers=3, claim={"a": "012"})
    idle = idle_of({"a": 8, "b": 8}, waits)
    idle.keep(waits.spec(), waits.places({"b": "0"}))
    assert (idle.open("a").cpu, idle.open("b").cpu) == (5, 7)
    assert idle.open("a", waits.full).cpu == 8
    idle.keep(waits.spec(), {})
    assert (idle.open("a").cpu, idle.open("b").cpu) == (8, 8)


def test_a_copy_is_tried_on_without_changing_the_original():
    """What is taken from and given to a copy is not seen in what it was made of."""
    idle = idle_of({"a": 4})
    twin = idle.copy()
    twin.take("a", Resources(cpu=3))
    assert (idle.open("a").cpu, twin.open("a").cpu) == (4, 1)
    twin.give("a", Resources(cpu=2))
    assert (idle.open("a").cpu, twin.open("a").cpu) == (4, 3)


def test_fractions_that_fit_the_planner_fit_here():
    """Ten tenths of a core fill a core though each difference rounds."""
    waits = Gang("waits", workers=10, cpu=0.1)
    placement = place_on_one_node(
        waits.spec(), idle_of({"a": total([Resources(cpu=0.1)] * 10)}, waits), most=10, least=10
    )
    assert where(placement) == {"a": "0123456789"}


def test_most_idle_counts_what_the_job_asks_for():
    """A node with many idle GPUs is not the most idle for a job that asks for cores."""
    nodes = {"a": Resources(cpu=2, gpu=8), "b": Resources(cpu=4)}
    assert idle_of(nodes).nodes_by_most_idle(Gang("cores").spec()) == ["b", "a"]
    assert idle_of(nodes).nodes_by_most_idle(Gang("devices", cpu=0, gpu=1).spec()) == ["a", "b"]


def test_of_nodes_as_idle_the_first_by_name_comes_first():
    """node-2 is before node-10."""
    assert idle_of({"node-10": 4, "node-2": 4}).nodes_by_most_idle(Gang("waits").spec()) == [
        "node-2",
        "node-10",
    ]


def test_a_job_that_requests_nothing_goes_where_there_are_the_fewest_replicas():
    """It fits everywhere, so room says nothing."""
    runs = Gang("runs", workers=2, cpu=0, on={"a": "01"})
    waits = Gang("waits", workers=2, cpu=0)
    assert where(
        place_on_fewest_nodes(waits.spec(), idle_of({"a": 4, "b": 4}, runs, waits), most=2, least=2)
    ) == {"b": "01"}


# -- one node ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({"a": 5, "b": 6}, {"b": "p0123"}),  # all fits
        ({"a": 3, "b": 4}, {"b": "p012"}),  # as many as it holds
        ({"a": 3, "b": 3}, {"a": "p01"}),  # of equals the first
        ({"a": 2, "b": 2}, None),  # not even the fewest
        ({}, None),
    ],
)
def test_one_node_takes_all_or_as_many_workers_as_it_holds(nodes, expected):
    """The node that holds the most workers beside the parameter server, never fewer than `least`."""
    spec = Gang("waits", ps=1, workers=4).spec()
    assert where(place_on_one_node(spec, idle_of(nodes), most=4, least=2)) == expected


def test_one_node_is_tested_for_each_resource():
    """A node with the cores and another with the memory make no node that holds the gang."""
    nodes = {"a": Resources(cpu=8, memory=1), "b": Resources(cpu=1, memory=8)}
    assert (
        place_on_one_node(Gang("waits", workers=2, memory=2).spec(), idle_of(nodes), most=2, least=2) is None
    )


# -- several nodes -------------------------------------------------------------------------------


def test_what_no_node_holds_is_spread_the_most_idle_first_with_its_parameter_server():
    """KOD2, section 4.1: parameter server and workers together, in the order of the idlest nodes."""
    spec = Gang("waits", ps=1, workers=6).spec()
    assert where(place_on_fewest_nodes(spec, idle_of({"a": 2, "b": 4, "c": 3}), most=6, least=6)) == {
        "b": "p012",
        "c": "345",
    }


def test_the_parameter_server_goes_where_most_of_its_workers_are():
    """Not alone to the most idle node: all its workers would talk to it over the network."""
    spec = Gang("waits", ps=1, ps_cpu=1, workers=3, cpu=3).spec()
    nodes = {
        "a": Resources(cpu=3, memory=99),
        "b": Resources(cpu=7, memory=1),
        "c": Resources(cpu=3, memory=9),
    }
    assert where(spread(spec, idle_of(nodes), most=3, least=3)) == {"b": "p01", "a": "2"}


def test_one_node_with_the_fewest_workers_is_better_than_several_with_all():
    """Section 4.1: the fewest nodes; the job grows later."""
    spec = Gang("waits", workers=4, least=2).spec()
    assert where(place_on_fewest_nodes(spec, idle_of({"a": 2, "b": 2}), most=4, least=2)) == {"a": "01"}


def test_the_parameter_server_gives_way_where_it_would_take_the_room_of_a_worker():
    """A gang that fits in some order is placed: otherwise everybody would wait behind it for nothing."""
    spec = Gang("waits", ps=1, ps_cpu=1, workers=2, cpu=2).spec()
    assert where(spread(spec, idle_of({"a": 4, "b": 1}), most=2, least=2)) == {"a": "01", "b": "p"}


def test_first_fit_goes_by_name():
    """The Kubeflow dynamic scheduler: each replica on the first node that has room."""
    spec = Gang("waits", ps=1, workers=4).spec()
    assert where(place_first_fit(spec, idle_of({"a": 2, "b": 1, "c": 9}), workers=4)) == {
        "a": "p0",
        "b": "1",
        "c": "23",
    }
    assert place_first_fit(spec, idle_of({"a": 2, "b": 2}), workers=4) is None


# -- what holds for every placement --------------------------------------------------------------

GANGS = st.builds(
    Gang,
    name=st.just("waits"),
    ps=st.integers(0, 2),
    workers=st.integers(1, 5),
    least=st.just(1),
    cpu=st.sampled_from([0.1, 0.5, 1.0, 2.0]),
    ps_cpu=st.sampled_from([None, 0.3, 2.0]),
)
NODES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0]), max_size=4)


@given(GANGS, NODES, st.integers(1, 5))
def test_a_placement_is_a_whole_gang_and_fits(gang, nodes, least):
    """All parameter servers, the first `least` to `most` workers, and on no node more than is idle."""
    spec, most = gang.spec(), gang.workers
    least = min(least, most)
    idle = idle_of(nodes)
    for placement in (
        place_on_one_node(spec, idle, most=most, least=least),
        spread(spec, idle, most=most, least=least),
        place_on_fewest_nodes(spec, idle, most=most, least=least),
        place_first_fit(spec, idle, workers=least),
    ):
        if placement is None:
            continue
        workers = len(placement) - gang.ps
        assert least <= workers <= most
        assert set(placement) == {*spec.ps, *spec.worker_names[:workers]}
        for node in set(placement.values()):
            there = [spec.requests_of(name) for name, place in placement.items() if place == node]
            assert total(there).fits(Resources(cpu=nodes[node], memory=1))


@given(GANGS, NODES)
def test_what_fits_on_one_node_is_never_spread(gang, nodes):
    """`place_on_fewest_nodes` uses one node whenever one holds the smallest gang."""
    spec, idle = gang.spec(), idle_of(nodes)
    fits = any(request_of_all(spec, 1).fits(idle.open(node)) for node in nodes)
    placement = place_on_fewest_nodes(spec, idle, most=gang.workers, least=1)
    assert (placement is not None and len(set(placement.values())) == 1) or not fits


@given(NODES, st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([0.1, 0.5, 2.0])), max_size=8))
def test_idle_room_is_never_negative(nodes, taken):
    """Whatever is taken, what is left is an amount."""
    idle = idle_of(nodes)
    for node, cpu in taken:
        if node in nodes:
            idle.take(node, Resources(cpu=cpu))
            assert NOTHING.fits(idle.open(node))
