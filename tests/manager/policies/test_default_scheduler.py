"""The default scheduler: pods one by one, where the most is free; gangs that do not get together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.cluster import Phase
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.policies.default_scheduler import DefaultSchedulerSettings, propose
from support.decisions.gang_worlds import NOW, InstantWorld, Layout, layouts, nodes_of, said, spec_of

DEFAULT = DefaultSchedulerSettings()
TURNS = DefaultSchedulerSettings(placement="round-robin")
BLOCKING = DefaultSchedulerSettings(blocking=True)
PATIENT = DefaultSchedulerSettings(gang_timeout=300.0)


def bound(layout, settings=DEFAULT):
    return said(propose(layout.snapshot, settings))


def test_pods_spread_over_the_nodes_with_the_most_free():
    """LeastAllocated: each pod goes where the largest part is free, so a gang is torn apart."""
    layout = Layout().add(spec_of("a", 1), "0").add(spec_of("b", 3))
    assert bound(layout) == [
        ("Admit", "b/worker/0", "1"),
        ("Admit", "b/worker/1", "0"),
        ("Admit", "b/worker/2", "1"),
    ]


def test_servers_come_before_workers_and_worker_2_before_worker_10():
    """FIFO over pods: by job, then servers, then by number and not by spelling."""
    layout = Layout(nodes_of(1, gpu=20.0)).add(spec_of("a", 11, ps=1))
    names = [subject for _, subject, _ in bound(layout)]
    assert names == ["a/ps/0", *(f"a/worker/{index}" for index in range(11))]


def test_a_part_of_a_gang_takes_what_room_there_is():
    """It knows nothing of gangs: two of four workers start and wait for the rest."""
    layout = Layout(nodes_of(1)).add(spec_of("a", 2), "0 0").add(spec_of("b", 4))
    assert bound(layout) == [("Admit", "b/worker/0", "0"), ("Admit", "b/worker/1", "0")]


@pytest.mark.parametrize(("settings", "names"), [(DEFAULT, ["small/worker/0"]), (BLOCKING, [])])
def test_a_pod_without_room_holds_nobody_back_unless_told_to(settings, names):
    """An unschedulable pod waits apart from the queue; `blocking` is strict FIFO."""
    layout = Layout(nodes_of(1)).add(spec_of("large", 1, requests=Resources(gpu=5.0))).add(spec_of("small"))
    assert [subject for _, subject, _ in bound(layout, settings)] == names


def test_pods_that_request_nothing_spread_by_number():
    """Where nothing is reserved, the node with the fewest replicas is the least allocated."""
    layout = Layout(nodes_of(3, cpu=8.0)).add(spec_of("a", 1, requests=NOTHING), "0")
    for name in "bcd":
        layout.add(spec_of(name, 1, requests=NOTHING))
    assert [place for _, _, place in bound(layout)] == ["1", "2", "0"]


def test_of_different_nodes_the_larger_part_free_counts():
    """The share of the node's own capacity that stays free decides, not the amount."""
    nodes = nodes_of(1, gpu=8.0) | {"node-1": nodes_of(2, gpu=2.0)["node-1"]}
    layout = Layout(nodes).add(spec_of("a", 6), "0 0 0 0 0 0").add(spec_of("b"))
    assert bound(layout) == [("Admit", "b/worker/0", "1")]


def test_in_turn_pods_go_to_one_node_after_the_other():
    """round-robin: pod i of job k starts at node (k + i) mod |W|, whatever the nodes hold."""
    layout = Layout(nodes_of(3)).add(spec_of("a", 2)).add(spec_of("b", 2))
    assert [place for _, _, place in bound(layout, TURNS)] == ["0", "1", "1", "2"]


def test_hashed_placement_depends_on_the_seed_alone():
    """The same seed gives the same nodes, another seed others, and all nodes get some."""
    layout = Layout(nodes_of(4, gpu=40.0)).add(spec_of("a", 40))
    first, again, other = (
        bound(layout, DefaultSchedulerSettings(placement="hashed", seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert {place for _, _, place in first} == {"0", "1", "2", "3"}


def deadlock():
    """Two gangs of three, each with two of the four places, since NOW - 900."""
    layout = Layout(nodes_of(1)).add(spec_of("a", 3), "0 0").add(spec_of("b", 3), "0 0")
    for name in "ab":
        layout.change(f"{name}/worker/2", phase=Phase.PENDING)
    return layout


def test_a_deadlock_lasts_without_a_time_out():
    """Two gangs that hold what the other needs wait for each other for ever."""
    assert bound(deadlock()) == []


def test_after_the_time_out_the_youngest_gang_is_put_back():
    """One at a time: the other one may find room then."""
    assert bound(deadlock(), PATIENT) == [("Preempt", "b", "")]
    assert deadlock().refused(propose(deadlock().snapshot, PATIENT)) == []
    assert bound(deadlock(), DefaultSchedulerSettings(gang_timeout=900.1)) == []


def test_nothing_is_put_back_while_something_leaves():
    """The room of the last one may be enough; its own pods are not started while it ends."""
    layout = deadlock().leave("b/worker/0", "preempt").leave("b/worker/1", "preempt")
    assert bound(layout, PATIENT) == []


def test_pods_of_a_gang_that_is_put_back_do_not_start_meanwhile():
    """There is room for the one that is missing, but the others are on their way out."""
    layout = Layout().add(spec_of("a", 3), "0 0")
    layout.change("a/worker/2", phase=Phase.PENDING)
    assert bound(layout) == [("Admit", "a/worker/2", "1")]
    assert bound(layout.leave("a/worker/0", "preempt").leave("a/worker/1", "preempt")) == []


def test_a_gang_that_just_lost_a_pod_is_not_in_part_for_long():
    """The time counts from the end of the pause after the crash."""
    layout = Layout(nodes_of(1, gpu=2.0)).add(spec_of("a", 2), "0").add(spec_of("b"), "0")
    layout.change("a/worker/1", phase=Phase.PENDING, not_before=NOW - 299.0)
    assert bound(layout, PATIENT) == []
    layout.change("a/worker/1", not_before=NOW - 300.0)
    assert bound(layout, PATIENT) == [("Preempt", "a", "")]


@pytest.mark.parametrize(("settings", "ended"), [(DEFAULT, {"z"}), (PATIENT, {"z", "a", "b"})])
def test_only_with_a_time_out_a_deadlock_ends(settings, ended):
    """Pods of b take the places that are too small for those of a; neither gang ever gets together."""
    world = InstantWorld(nodes_of(2), lambda snapshot: propose(snapshot, settings))
    world.submit(spec_of("z", 2), 20.0, 0.0)
    world.submit(spec_of("a", 3, requests=Resources(gpu=2.0)), 50.0, 0.0)
    world.submit(spec_of("b", 5), 50.0, 0.0)
    for now in range(0, 1500, 5):
        world.tick(float(now))
    assert set(world.ended) == {f"default/{name}" for name in ended}
    assert world.refused == []


@given(layout=layouts(), settings=st.sampled_from([DEFAULT, TURNS, BLOCKING, PATIENT]))
def test_every_proposal_is_possible(layout, settings):
    """No pod without room, none twice, the same snapshot gives the same proposals, each with its reason."""
    proposals = list(propose(layout.snapshot, settings))
    assert proposals == list(propose(layout.snapshot, settings))
    assert all(proposal.reason for proposal in proposals)
    assert layout.refused(proposals) == []
    assert len({subject for _, subject, _ in said(proposals)}) == len(proposals)


def test_hashed_order_tries_pods_in_another_order_at_each_attempt():
    """Each pod has its own back-off: the same time and seed give the same order, another seed another."""
    layout = Layout(nodes_of(1, gpu=3.0)).add(spec_of("a", 8)).add(spec_of("b", 8))
    taken = [
        [pod for _, pod, _ in bound(layout, DefaultSchedulerSettings(order="hashed", seed=seed))]
        for seed in (1, 1, 2)
    ]
    assert taken[0] == taken[1] != taken[2]
    assert all(len(pods) == 3 for pods in taken)
    assert any(pod.startswith("b/") for pods in taken for pod in pods)
