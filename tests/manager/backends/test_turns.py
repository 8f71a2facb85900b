"""The schedule of jobs that share nodes: nobody beside too many others, shares as weights, short stops."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.turns import LEAST_SHARE, Sharer, schedules
from specon_sidecar.slices.lease import LONGEST_STOP, Lease

ROUNDING = 1e-6
NODES = ("a", "b", "c")
WEIGHTS = st.sampled_from([1.0, 0.02, 0.3, 5.0, 1e-6])


@st.composite
def clusters(draw):
    room = {node: draw(st.integers(1, 4)) for node in NODES}
    sharers = []
    for index in range(draw(st.integers(1, 12))):
        nodes = draw(
            st.sets(st.sampled_from(NODES), min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 3])))
        )
        ranks = {node: draw(st.sampled_from([1, 1, 1, 2])) for node in sorted(nodes)}
        sharers.append(Sharer(name=f"job-{index}", weight=draw(WEIGHTS), nodes=ranks))
    return sharers, room


def alone(name, weight, node="a", ranks=1):
    return Sharer(name=name, weight=weight, nodes={node: ranks})


def share(schedule, name):
    return sum(length for _, length in schedule.turns[name]) / schedule.period


def runs(schedule, name, at):
    """Whether a job runs at a time, as its supervisor would find."""
    return name not in schedule.turns or Lease(schedule.period, schedule.turns[name], 1e9).turn(at)[0]


@given(clusters())
def test_never_more_run_at_once_than_a_node_has_room_for(cluster):
    """At any time the turns on a node fit into it, or belong to one job alone."""
    sharers, room = cluster
    for schedule in schedules(sharers, room):
        edges = {0.0, schedule.period}
        edges |= {
            edge % schedule.period
            for turns in schedule.turns.values()
            for turn in turns
            for edge in (turn[0], sum(turn))
        }
        for begin, end in pairwise(sorted(edges)):
            if end - begin < ROUNDING:
                continue
            for node in NODES:
                on = [
                    each
                    for each in sharers
                    if node in each.nodes
                    and each.name in schedule.turns
                    and runs(schedule, each.name, (begin + end) / 2)
                ]
                assert len(on) <= 1 or sum(each.nodes[node] for each in on) <= room[node]


@given(clusters())
def test_nobody_is_stopped_for_longer_than_is_bearable(cluster):
    """Every lease that a schedule gives is one that a supervisor takes."""
    sharers, room = cluster
    for schedule in schedules(sharers, room):
        for turns in schedule.turns.values():
            lease = Lease(schedule.period, turns, 1e9)  # raises for a stop that is too long
            assert (
                max(
                    later[0] - sum(former)
                    for former, later in pairwise([*lease.on, (lease.on[0][0] + lease.period, 0)])
                )
                <= LONGEST_STOP + ROUNDING
            )


@given(st.lists(WEIGHTS, min_size=2, max_size=20), st.integers(1, 4))
def test_shares_are_as_the_weights(weights, room):
    """What two jobs get of a node is as their weights, unless one runs always or is at the floor."""
    sharers = [alone(f"job-{index}", weight) for index, weight in enumerate(weights)]
    floor = LEAST_SHARE * sum(weights)
    for schedule in schedules(sharers, {"a": room}):
        known = [
            (share(schedule, each.name), max(each.weight, floor))
            for each in sharers
            if each.name in schedule.turns
        ]
        for (part, weight), (other, against) in pairwise(known):
            assert part / other == pytest.approx(weight / against)
        full = len(sharers) - len(known)
        assert full + sum(part for part, _ in known) == pytest.approx(room)


def test_a_job_alone_is_never_stopped():
    """Where all have room nobody waits for a turn, whatever the weights."""
    assert schedules([alone("one", 0.02)], {"a": 1}) == []
    assert schedules([alone("one", 0.02), alone("two", 1.0, "b")], {"a": 1, "b": 1}) == []
    assert schedules([alone("one", 0.02), alone("two", 1.0)], {"a": 2}) == []


def test_equal_weights_stop_nobody():
    """The kernel shares a node equally by itself."""
    assert schedules([alone("one", 1.0), alone("two", 1.0)], {"a": 1}) == []


def test_the_first_runs_nearly_always():
    """A weight of 0.02 against 1 is a fiftieth of the time, in turns of a tenth of a second."""
    [schedule] = schedules([alone("first", 1.0), alone("second", 0.02)], {"a": 1})
    assert share(schedule, "second") == pytest.approx(0.02 / 1.02)
    assert 0.09 < schedule.turns["second"][0][1] < 0.11


def test_a_gang_runs_on_all_of_its_nodes_at_once():
    """One that trains on two nodes has the same turns on both, and others fill the rest of each node."""
    gang = Sharer(name="gang", weight=1.0, nodes={"a": 1, "b": 2})
    [schedule] = schedules([gang, alone("here", 0.5, "a"), alone("there", 3.0, "b")], {"a": 1, "b": 2})
    assert share(schedule, "gang") == pytest.approx(1 / 4)
    assert share(schedule, "here") == share(schedule, "there") == pytest.approx(3 / 4)


def test_too_many_are_not_stopped():
    """Among more jobs than get turns worth a stop, the kernel shares."""
    assert schedules([alone(f"job-{index}", 1.0 + index) for index in range(101)], {"a": 1}) == []


def test_who_shares_with_whom_is_found_without_comparing_all_with_all():
    """Thousands of pods on GPUs of their own; those that others connect have one schedule."""

    class Nodes(dict):
        looked = 0

        def __contains__(self, node):
            Nodes.looked += 1
            return super().__contains__(node)

        def keys(self):
            Nodes.looked += 1
            return super().keys()

    many = 1000
    sharers = [
        Sharer(name=f"{index:04}", weight=1.0 + index % 2, nodes=Nodes({f"gpu-{index // 2}": 1}))
        for index in range(many)
    ]
    assert len(schedules(sharers, {f"gpu-{index}": 1 for index in range(many)})) == many // 2
    assert Nodes.looked < 10 * many
    chain = [
        Sharer(name=name, weight=weight, nodes=dict.fromkeys(nodes, 1))
        for name, weight, nodes in (("a", 1.0, "p"), ("b", 0.1, "q"), ("c", 1.0, "r"), ("d", 0.1, "rp"))
    ]
    [schedule] = schedules(chain, dict.fromkeys("pqr", 1))
    assert schedule.turns.keys() == {"a", "c", "d"}
