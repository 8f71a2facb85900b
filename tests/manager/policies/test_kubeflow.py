"""The Kubeflow dynamic scheduler: its five listings, and what was repaired in them."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.resources import Resources
from specon_manager.policies.idle import Idle
from specon_manager.policies.kubeflow import KubeflowSettings, gang, order_queue, place, propose, requirement
from support.decisions.gang_clusters import clusters
from support.decisions.gang_layouts import NOW, Gang, layout, refused, snapshot_of, state_of, written
from support.decisions.gang_rules import broken_gang_rules, turn_records

DEFAULT = KubeflowSettings()
LITERAL = KubeflowSettings(literal=True)
QUIET = KubeflowSettings(cooldown=1e9)
WHOLE = Resources(cpu=10, memory=100, gpu=4)


def proposed(nodes, *gangs, settings=DEFAULT):
    return written(propose(snapshot_of(nodes, *gangs), settings))


def queue_of(*gangs, settings=DEFAULT):
    jobs = list(state_of({}, gangs).jobs.values())
    return [job.name.rpartition("/")[2] for job in order_queue(jobs, WHOLE, settings)]


# -- listing Weighting ---------------------------------------------------------------------------


def test_the_queue_is_by_utility_then_by_requirement_then_by_submission():
    """Lines 10 to 16: higher utility first, of equals the job that requests more, of those the first."""
    gangs = [
        Gang("small", utility=1, cpu=1),
        Gang("large", utility=1, cpu=2),
        Gang("valued", utility=2, cpu=0.5),
        Gang("late", utility=1, cpu=2),
    ]
    assert queue_of(*gangs) == ["valued", "large", "late", "small"]
    assert queue_of(*gangs, settings=KubeflowSettings(resource_sign=-1)) == [
        "valued",
        "small",
        "large",
        "late",
    ]


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([1.0, 2.0])), max_size=7))
def test_the_order_is_that_of_inserting_one_job_after_the_other(wanted):
    """Weighting as it is meant: each job in front of the first that it is ahead of, else at the end."""
    gangs = [Gang(f"j{i}", utility=utility, cpu=cpu) for i, (utility, cpu) in enumerate(wanted)]
    queue = []
    for new in gangs:
        behind = (k for k, old in enumerate(queue) if (new.utility, new.cpu) > (old.utility, old.cpu))
        queue.insert(next(behind, len(queue)), new)
    assert queue_of(*gangs) == [new.name for new in queue]


def test_a_requirement_adds_shares_of_a_node():
    """It adds those of parameter servers and requested workers; as printed it adds cores and bytes."""
    spec = Gang("j", ps=1, workers=3, cpu=1, memory=10, gpu=1).spec()
    assert requirement(spec, WHOLE, DEFAULT) == pytest.approx(4 * (0.1 + 0.1 + 0.25))
    assert requirement(spec, WHOLE, LITERAL) == pytest.approx(4 * 11)


# -- listing Gang Scheduling ---------------------------------------------------------------------


def placed(nodes, wanted, workers=None):
    spec, idle = wanted.spec(), Idle(snapshot_of(nodes))
    placement = place(spec, idle) if workers is None else gang(spec, idle, most=workers, least=workers)
    return None if placement is None else layout(placement)


def test_a_gang_goes_to_the_first_node_that_holds_all_of_it():
    """Lines 1 to 14 as they are meant: all pods are tested together, and the first node that passes wins."""
    assert placed({"a": 2, "b": 4, "c": 9}, Gang("j", ps=1, workers=3), 3) == {"b": "p012"}


def test_else_each_replica_goes_to_the_first_node_with_room():
    """Line 15: first fit, parameter servers first; none is placed where one of them has no room."""
    assert placed({"a": 2, "b": 3}, Gang("j", ps=1, workers=4), 4) == {"a": "p0", "b": "123"}
    assert placed({"a": 2, "b": 2}, Gang("j", ps=1, workers=4), 4) is None


def test_a_gang_starts_with_as_many_workers_as_have_room():
    """Fewer on one node rather than all on several: that is what the listing is for. Never too few."""
    assert placed({"a": 2, "b": 3}, Gang("j", workers=4, least=2)) == {"b": "012"}
    assert placed({"a": 1, "b": 2}, Gang("j", workers=4, least=3)) == {"a": "0", "b": "12"}
    assert placed({"a": 2, "b": 2}, Gang("j", workers=5, least=3)) == {"a": "01", "b": "23"}
    assert placed({"a": 1}, Gang("j", workers=4, least=2)) is None


def test_jobs_that_request_nothing_do_not_all_go_to_the_first_node():
    """Every node holds them; they go where there are the fewest replicas."""
    jobs = [Gang(f"j{i}", workers=2, cpu=0) for i in range(3)]
    assert proposed({"a": 4, "b": 4}, *jobs) == [
        ("start", "j0", {"a": "01"}),
        ("start", "j1", {"b": "01"}),
        ("start", "j2", {"a": "01"}),
    ]


# -- listing Scheduling --------------------------------------------------------------------------


def test_jobs_start_in_the_order_of_the_queue_and_those_without_room_are_passed_over():
    """Lines 17 to 25, again after each start."""
    runs = Gang("runs", utility=9, on={"a": "0"}, at=0)
    gangs = [Gang("second", utility=1), Gang("large", utility=3, cpu=9), Gang("first", utility=2, workers=2)]
    assert proposed({"a": 4}, runs, *gangs) == [
        ("start", "first", {"a": "01"}),
        ("start", "second", {"a": "0"}),
    ]


def test_a_job_of_higher_utility_than_all_that_run_takes_workers():
    """Lines 5 to 14: the room that they leave is claimed for it."""
    runs = Gang("runs", workers=4, least=1, on={"a": "0123"}, at=0, utility=1)
    assert proposed({"a": 4}, runs, Gang("head", workers=2, utility=2)) == [
        ("in", "runs", "23"),
        ("claim", "head", {"a": "01"}),
    ]


def test_equal_utility_takes_nothing():
    """Line 5 has `>`; KOD2 has `>=`."""
    runs = Gang("runs", workers=4, least=1, on={"a": "0123"}, at=0, utility=2)
    assert proposed({"a": 4}, runs, Gang("head", workers=2, utility=2)) == []


def test_behind_a_job_of_the_highest_utility_without_room_nothing_starts_and_what_runs_grows():
    """Line 17: h is set and the scale-down failed, so that only ScaleUp is left."""
    runs = Gang("runs", workers=1, most=2, on={"a": "0"}, at=0, utility=1)
    head, small = Gang("head", workers=4, cpu=1, utility=2), Gang("small")
    assert proposed({"a": 4}, runs, head, small) == [("out", "runs", {"a": "1"})]
    assert proposed({"a": 4}, runs, head, small, settings=QUIET) == []


def test_nobody_waits_behind_a_job_that_is_larger_than_the_cluster():
    """It can never start, and what is behind it would not either."""
    assert proposed({"a": 4}, Gang("huge", workers=9, utility=2), Gang("small")) == [
        ("start", "small", {"a": "0"})
    ]


def test_while_workers_leave_no_more_are_taken_and_others_may_start_beside_the_claim():
    """The job counts as started: its claim is kept, and the next in the queue has the rest."""
    runs = Gang("runs", workers=3, least=1, on={"a": "012"}, leaving="12", at=0, utility=1)
    head = Gang("head", workers=2, utility=2, claim={"a": "01"})
    assert proposed({"a": 4}, runs, head) == []
    assert proposed({"a": 4, "b": 0.5}, runs, head, Gang("small", cpu=0.5)) == [
        ("start", "small", {"b": "0"})
    ]


def test_a_claim_is_redeemed_as_soon_as_there_is_room():
    """The next calls admit the job, even behind jobs that are ahead of it by now."""
    claims = Gang("claims", workers=2, claim={"a": "01"})
    ahead = Gang("ahead", workers=1, utility=2)
    assert proposed({"a": 2}, claims, ahead) == [("start", "claims", {"a": "01"})]


# -- listing ScaleDown ---------------------------------------------------------------------------


def test_the_lowest_in_the_queue_lose_workers_first_and_only_those_of_lower_utility():
    """Those of "every job with lower priority": ascending, down to the fewest, no further than needed."""
    low = Gang("low", workers=3, least=2, on={"a": "012"}, at=0, utility=1)
    middle = Gang("middle", workers=3, least=1, on={"b": "012"}, at=0, utility=2)
    head = Gang("head", workers=2, utility=3)
    assert proposed({"a": 3, "b": 3}, low, middle, dataclasses.replace(head, workers=1)) == [
        ("in", "low", "2"),
        ("claim", "head", {"a": "0"}),
    ]
    assert proposed({"a": 3, "b": 3}, low, middle, head) == [
        ("in", "low", "2"),
        ("in", "middle", "2"),
        ("claim", "head", {"a": "0", "b": "1"}),
    ]
    equal = dataclasses.replace(middle, utility=3)
    assert proposed({"a": 3, "b": 3}, low, equal, head) == []


def test_workers_beside_the_parameter_server_go_last():
    """Nodes without it first; worker 0 and the parameter server never."""
    runs = Gang("runs", ps=1, workers=4, least=1, on={"a": "p01", "b": "23"}, at=0, utility=1)
    found = proposed({"a": 3, "b": 2}, runs, Gang("head", workers=1, utility=2))
    assert found == [("in", "runs", "3"), ("claim", "head", {"b": "0"})]
    found = proposed({"a": 3, "b": 2}, runs, Gang("head", workers=3, utility=2))
    assert found == [("in", "runs", "123"), ("claim", "head", {"a": "0", "b": "12"})]
    assert proposed({"a": 3, "b": 2}, runs, Gang("head", workers=4, utility=2)) == []


# -- listing ScaleUp -----------------------------------------------------------------------------


def test_idle_room_goes_to_the_first_of_the_queue_first():
    """Up to its maximum, near its parameter server; then to the next."""
    low = Gang("low", workers=1, most=9, on={"b": "0"}, at=0, utility=1)
    high = Gang("high", ps=1, workers=1, most=3, on={"a": "p0"}, at=0, utility=2)
    assert proposed({"a": 3, "b": 3}, low, high) == [
        ("out", "high", {"a": "1", "b": "2"}),
        ("out", "low", {"b": "1"}),
    ]


def test_nobody_grows_in_a_call_that_starts_a_job():
    """Line 22 returns before ScaleUp."""
    runs = Gang("runs", workers=1, most=9, on={"a": "0"}, at=0, utility=1)
    assert proposed({"a": 4}, runs, Gang("waits")) == [("start", "waits", {"a": "0"})]


# -- as printed ----------------------------------------------------------------------------------


def test_as_printed_one_job_starts_in_a_pass():
    """Line 22: return."""
    runs = Gang("runs", utility=9, on={"a": "0"}, at=0)
    gangs = [Gang("first", utility=2), Gang("second", utility=1)]
    assert proposed({"a": 4}, runs, *gangs, settings=LITERAL) == [("start", "first", {"a": "0"})]


def test_as_printed_room_is_made_for_a_job_that_has_just_started():
    """Line 11 stands in no else branch."""
    runs = Gang("runs", workers=4, least=1, on={"a": "0123"}, at=0, utility=1)
    head = Gang("head", workers=2, utility=2)
    assert proposed({"a": 4, "b": 2}, runs, head, settings=LITERAL) == [
        ("start", "head", {"b": "01"}),
        ("in", "runs", "23"),
    ]
    assert proposed({"a": 4, "b": 2}, runs, head) == [("start", "head", {"b": "01"})]


def test_as_printed_room_must_be_on_one_node():
    """ScaleDown, lines 7 and 22: "J can be scheduled in n"."""
    runs = [Gang(f"on-{node}", workers=2, least=1, on={node: "01"}, at=0, utility=1) for node in "ab"]
    head = Gang("head", workers=2, utility=2)
    assert proposed({"a": 2, "b": 2}, *runs, head, settings=LITERAL) == []
    assert proposed({"a": 2, "b": 2}, *runs, head) == [
        ("in", "on-b", "1"),
        ("in", "on-a", "1"),
        ("claim", "head", {"a": "0", "b": "1"}),
    ]


def test_as_printed_each_job_gains_one_worker_on_the_first_node_where_any_does():
    """ScaleUp: subtraction and creation stand outside the loop over j, and the first success ends it."""
    one = Gang("one", workers=1, most=4, on={"a": "0"}, at=0, utility=1)
    two = Gang("two", workers=1, most=4, on={"b": "0"}, at=0, utility=2)
    assert proposed({"a": 4, "b": 9}, one, two, settings=LITERAL) == [
        ("out", "two", {"a": "1"}),
        ("out", "one", {"a": "1"}),
    ]


# -- what holds for every cluster ----------------------------------------------------------------


@given(clusters(), st.booleans(), st.sampled_from([1, -1]))
def test_the_planner_lets_everything_through(state, literal, sign):
    """Nothing exceeds the open room, gangs are whole, nobody falls below the minimum or loses worker 0."""
    settings = KubeflowSettings(literal=literal, resource_sign=sign)
    assert refused(state, list(propose(state.snapshot(NOW), settings))) == []


@given(clusters())
def test_every_start_is_a_whole_gang_and_every_loss_leaves_the_minimum(state):
    """All parameter servers and min to max workers; never worker 0, never a parameter server."""
    snapshot = state.snapshot(NOW)
    assert broken_gang_rules(snapshot, propose(snapshot, DEFAULT)) == []


@given(clusters(), st.booleans())
def test_the_same_snapshot_gives_the_same_proposals_whatever_the_order_of_its_records(state, literal):
    """Every ordering ends in an id."""
    turned = turn_records(state)
    settings = KubeflowSettings(literal=literal)
    assert list(propose(state.snapshot(NOW), settings)) == list(propose(turned.snapshot(NOW), settings))


@given(st.integers(1, 4), st.integers(0, 1), st.sampled_from([1.0, 2.0]))
def test_printed_and_repaired_agree_on_one_job_and_an_idle_cluster(workers, ps, cpu):
    """With one waiting job that fits and nothing else, there is nothing to repair."""
    head = Gang("head", ps=ps, workers=workers, cpu=cpu)
    nodes = {"a": 20, "b": 12}
    assert proposed(nodes, head) == proposed(nodes, head, settings=LITERAL) != []
