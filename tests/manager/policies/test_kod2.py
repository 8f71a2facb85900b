"""KOD2: equation 1, Algorithms 1 to 3, and what was repaired in them."""

import dataclasses
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.actions import Admit
from specon_manager.model.cluster import Leaving, Phase
from specon_manager.model.resources import Resources
from specon_manager.policies.kod2 import JobState, KOD2Settings, normalise, propose, state_of, weight
from support.decisions.gang_clusters import clusters
from support.decisions.gang_layouts import NOW, Gang, refused, snapshot_of, written
from support.decisions.gang_layouts import state_of as cluster_of
from support.decisions.gang_rules import broken_gang_rules, turn_records

DEFAULT = KOD2Settings()
LITERAL = KOD2Settings(literal=True)
WHOLE = Resources(cpu=10, memory=32)


def proposed(nodes, *gangs, settings=DEFAULT, changed_at=NOW):
    """Return what is proposed right after a change, so that nothing grows, in short."""
    return written(propose(snapshot_of(nodes, *gangs, changed_at=changed_at), settings))


# -- equation 1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gang", "replica", "whole_gang"),
    [
        (Gang("j", workers=2, cpu=1, memory=3.2), 2 / 0.2, 2 / 0.4),
        (Gang("j", workers=4, cpu=1, memory=3.2), 4 / 0.2, 4 / 0.8),
        (Gang("j", workers=4, least=1, cpu=1, memory=3.2), 1 / 0.2, 1 / 0.2),
        (Gang("j", ps=1, workers=2, cpu=1, memory=3.2), 2 / 0.2, 2 / 0.6),
        (Gang("j", workers=1, cpu=10, memory=32), 0.5, 0.5),
        (Gang("j", workers=1, cpu=0), math.inf, math.inf),
    ],
)
def test_a_weight_is_the_fewest_workers_by_the_share_of_a_node_that_is_requested(gang, replica, whole_gang):
    """Equation 1: min / (cpu/CPU + mem/MEM), of one worker or of the smallest gang with its servers."""
    assert weight(gang.spec(), WHOLE, DEFAULT) == pytest.approx(replica)
    assert weight(gang.spec(), WHOLE, KOD2Settings(denominator="gang")) == pytest.approx(whole_gang)


def test_equation_1_is_a_sigmoid_above_one_half():
    """It is 1 / (1 + exp(-omega'))."""
    assert normalise(0) == 0.5
    assert normalise(1) == pytest.approx(0.7310586)
    assert normalise(math.inf) == 1


def test_jobs_whose_weights_are_both_1_in_double_precision_are_not_tied():
    """Decisions compare omega', which does not saturate."""
    first, heavy = Gang("first", workers=4, cpu=0.1), Gang("heavy", workers=4, cpu=0.05)
    assert (
        normalise(weight(first.spec(), WHOLE, DEFAULT))
        == normalise(weight(heavy.spec(), WHOLE, DEFAULT))
        == 1
    )
    assert proposed({"a": 10}, first, heavy) == [
        ("start", "heavy", {"a": "0123"}),
        ("start", "first", {"a": "0123"}),
    ]


def test_gpus_count_unless_the_paper_is_taken_at_its_word():
    """What is printed adds CPU and memory only."""
    whole, spec = Resources(cpu=10, gpu=4), Gang("j", cpu=1, gpu=2).spec()
    assert weight(spec, whole, DEFAULT) == pytest.approx(1 / 0.6)
    assert weight(spec, whole, LITERAL) == pytest.approx(1 / 0.1)


# -- Figure 5 ------------------------------------------------------------------------------------


def test_a_job_waits_starves_runs_and_is_complete():
    """STARVING is waiting for longer than STARVELIMIT, not as long."""
    gangs = [
        Gang("new"),
        Gang("limit", at=NOW - 120),
        Gang("starves", at=NOW - 121),
        Gang("runs", at=0, on={"a": "0"}),
        Gang("over", at=0),
    ]
    state = cluster_of({"a": 4}, gangs)
    over = msgspec.structs.replace(state.jobs["default/over"], ended_at=900.0)
    snapshot = state.with_job(over).snapshot(NOW)
    found = {job.name.rpartition("/")[2]: state_of(job, snapshot, DEFAULT) for job in snapshot.jobs.values()}
    assert found == {
        "new": JobState.WAITING,
        "limit": JobState.WAITING,
        "starves": JobState.STARVING,
        "runs": JobState.RUNNING,
        "over": JobState.COMPLETED,
    }


def test_a_job_of_which_only_servers_are_left_is_complete():
    """They are told to end once all workers have succeeded."""
    state = cluster_of({"a": 4}, [Gang("over", ps=1, workers=1, on={"a": "p0"})])
    ps, worker = (state.replicas[f"default/over/{name}"] for name in ("ps/0", "worker/0"))
    told = Leaving(purpose="complete", since=NOW, deadline=NOW, reason="its job is complete")
    state = state.with_replica(msgspec.structs.replace(worker, phase=Phase.SUCCEEDED))
    snapshot = state.with_replica(msgspec.structs.replace(ps, leaving=told)).snapshot(NOW)
    assert state_of(state.jobs["default/over"], snapshot, DEFAULT) is JobState.COMPLETED


# -- Algorithm 1 ---------------------------------------------------------------------------------


def test_the_heaviest_starts_first_and_all_that_fit_follow():
    """Lines 19 to 26: in the order of weight, then of submission; a job that does not fit is passed over."""
    gangs = [
        Gang("large", workers=1, cpu=6),
        Gang("second", workers=2, at=NOW - 1),
        Gang("first", workers=2, at=NOW - 2),
    ]
    assert proposed({"a": 6}, *gangs) == [("start", "first", {"a": "01"}), ("start", "second", {"a": "01"})]


def test_a_gang_starts_whole_with_as_many_workers_as_one_node_holds():
    """Section 4.1: fewest nodes, parameter server and workers together."""
    assert proposed({"a": 3, "b": 4}, Gang("j", ps=1, workers=6, least=2)) == [("start", "j", {"b": "p012"})]


def test_a_test_of_the_cluster_as_a_whole_starts_nothing():
    """Line 6 is repaired: a core on each of two nodes is not a node with two cores."""
    assert proposed({"a": 1, "b": 1}, Gang("j", workers=1, cpu=2)) == []


def test_a_lighter_job_never_takes_workers():
    """Line 5: scale-in is for a job that weighs at least as much as everything that runs."""
    runs = Gang("runs", workers=4, least=2, cpu=1, on={"a": "0123"}, at=0)
    assert proposed({"a": 4}, runs, Gang("light", workers=1, cpu=2)) == []


def test_a_job_that_has_starved_goes_before_heavier_ones_and_takes_workers():
    """Lines 27 to 29: its weight counts as the largest."""
    runs = Gang("runs", workers=4, least=2, cpu=1, on={"a": "0123"}, at=0)
    starved = Gang("starved", workers=1, cpu=2, at=NOW - 121)
    assert proposed({"a": 4}, runs, Gang("heavy", workers=2), starved) == [
        ("in", "runs", "23"),
        ("claim", "starved", {"a": "0"}),
    ]


def test_of_two_that_have_starved_the_one_that_came_first_goes_first():
    """Both count 1: ties by t_j, whatever they weighed."""
    early = Gang("early", workers=1, cpu=4, at=NOW - 300)
    late = Gang("late", workers=4, cpu=1, at=NOW - 200)
    runs = Gang("runs", workers=1, cpu=4, on={"b": "0"}, at=0)
    assert proposed({"a": 4, "b": 4}, runs, late, early) == [("start", "early", {"a": "0"})]


def test_nobody_starts_past_the_heaviest_unless_backfill_is_on():
    """Line 5 to 17: a pass is for the head of the queue; backfill lets those start that fit meanwhile."""
    gangs = [
        Gang("runs", workers=1, cpu=4, on={"a": "0"}, at=0),
        Gang("head", workers=8, cpu=1),
        Gang("small", workers=1),
    ]
    assert proposed({"a": 4, "b": 4}, *gangs) == []
    backfilled = [("start", "small", {"b": "0"})]
    assert proposed({"a": 4, "b": 4}, *gangs, settings=KOD2Settings(backfill=True)) == backfilled


def test_nobody_waits_behind_a_job_that_is_larger_than_the_cluster():
    """It can never start, and what is behind it would not either."""
    assert proposed({"a": 4}, Gang("huge", workers=9), Gang("small")) == [("start", "small", {"a": "0"})]


def test_a_parameter_server_is_apart_from_all_workers_only_where_it_cannot_be_otherwise():
    """The job waits for a node that holds it with a worker, unless the empty cluster has none."""
    nodes, head = {"a": 4, "b": 5}, Gang("head", ps=1, ps_cpu=1, workers=2, cpu=2)
    runs = Gang("runs", workers=1, cpu=4, on={"b": "0"}, at=0)
    assert proposed(nodes, runs, dataclasses.replace(head, at=NOW - 200)) == []
    assert proposed({"a": 4, "b": 1}, head) == [("start", "head", {"a": "01", "b": "p"})]


def test_a_replica_that_crashed_starts_again_before_anything_else_and_its_room_is_taken():
    """What runs in part holds room for nothing until it is whole again."""
    state = cluster_of({"a": 3}, [Gang("runs", workers=2, on={"a": "01"}, at=0), Gang("waits", workers=2)])
    crashed = state.replicas["default/runs/worker/1"]
    state = state.with_replica(msgspec.structs.replace(crashed, phase=Phase.PENDING))
    proposals = list(propose(state.snapshot(NOW), DEFAULT))
    assert [type(proposal) for proposal in proposals] == [Admit]
    assert proposals[0].replica == crashed.name


# -- Algorithm 2 ---------------------------------------------------------------------------------


def test_workers_go_from_the_lightest_job_first_and_no_more_than_needed():
    """Lines 3 to 25: ascending weight, each worker's room counted, until the smallest gang fits."""
    light = Gang("light", workers=2, least=1, cpu=2, on={"a": "01"}, at=0)
    heavy = Gang("heavy", workers=4, least=2, cpu=1, on={"b": "0123"}, at=0)
    head = Gang("head", workers=2, cpu=1)
    assert proposed({"a": 4, "b": 4}, light, heavy, head) == [
        ("in", "light", "1"),
        ("claim", "head", {"a": "01"}),
    ]


def test_workers_on_nodes_without_the_parameter_server_go_first_the_highest_index_first():
    """Line 12; worker 0 and the parameter server stay wherever they are."""
    runs = Gang("runs", ps=1, workers=5, least=1, on={"a": "p01", "b": "234"}, cpu=1, at=0)
    for needs, gone in ((1, "4"), (2, "34"), (3, "234")):
        head = Gang("head", workers=needs, at=NOW - 200)
        changed = proposed({"a": 3, "b": 3}, runs, head)
        assert changed == [("in", "runs", gone), ("claim", "head", {"b": "0123"[:needs]})]


def test_a_job_keeps_its_fewest_workers():
    """l_d = workers - min: one of four may go where three must stay."""
    runs = Gang("runs", workers=4, least=3, on={"a": "0123"}, at=0)
    assert proposed({"a": 4}, runs, Gang("head", workers=2, cpu=0.5)) == [
        ("in", "runs", "3"),
        ("claim", "head", {"a": "01"}),
    ]
    assert proposed({"a": 4}, runs, Gang("head", workers=3, cpu=0.5)) == []


def test_a_job_as_heavy_that_came_before_loses_nothing():
    """Lines 4 to 8: of equals the one that entered the queue first is excluded."""
    head = Gang("head", workers=2, cpu=1, at=NOW - 10)
    earlier = Gang("earlier", workers=4, least=2, cpu=1, on={"a": "0123"}, at=NOW - 20)
    assert proposed({"a": 4}, earlier, head) == []
    later = Gang("later", workers=4, least=2, cpu=1, on={"a": "0123"}, at=NOW - 5)
    assert proposed({"a": 4}, later, head) == [("in", "later", "23"), ("claim", "head", {"a": "01"})]


def test_room_is_tested_on_all_nodes_together_with_the_parameter_server():
    """Line 15 is repaired: the gang may need two nodes; and the last removal is tested too."""
    runs = [Gang(f"on-{node}", workers=2, least=1, cpu=2, on={node: "01"}, at=0) for node in "ab"]
    head = Gang("head", ps=1, workers=3, cpu=1)
    assert proposed({"a": 4, "b": 4}, *runs, head) == [
        ("in", "on-b", "1"),
        ("in", "on-a", "1"),
        ("claim", "head", {"a": "p0", "b": "12"}),
    ]
    assert proposed({"a": 4, "b": 4}, *runs, head, settings=LITERAL) == []


def test_workers_whose_room_turns_out_not_to_help_stay():
    """The lightest job was looked at first, but its node is too small for the gang."""
    light = Gang("light", workers=2, least=1, cpu=2, on={"a": "01"}, at=0)
    heavy = Gang("heavy", workers=4, least=1, cpu=1.5, on={"b": "0123"}, at=0)
    head = Gang("head", workers=1, cpu=4.5, at=NOW - 200)
    assert proposed({"a": 4, "b": 6}, light, heavy, head) == [
        ("in", "heavy", "123"),
        ("claim", "head", {"b": "0"}),
    ]


def test_workers_of_a_trainer_without_checkpoints_are_not_taken():
    """The planner would refuse it, and what they did would be lost."""
    runs = Gang("runs", workers=4, least=2, on={"a": "0123"}, at=0, checkpointing="none")
    assert proposed({"a": 4}, runs, Gang("head", workers=2, cpu=0.5)) == []


def test_while_workers_leave_no_more_are_taken_for_the_same_job():
    """The head waits with its claim; what leaves counts as its room."""
    runs = Gang("runs", workers=4, least=1, on={"a": "0123"}, leaving="23", at=0)
    head = Gang("head", workers=2, cpu=1)
    assert proposed({"a": 4}, runs, dataclasses.replace(head, claim={"a": "01"})) == []
    assert proposed({"a": 4}, runs, head) == [("claim", "head", {"a": "01"})]


def test_a_claim_is_redeemed_as_soon_as_there_is_room():
    """The next calls admit the job, before anybody else and with no regard to who is heavier now."""
    runs = Gang("runs", workers=2, on={"a": "01"}, at=0)
    claims = Gang("claims", workers=2, claim={"a": "01"})
    assert proposed({"a": 4}, runs, claims, Gang("heavier", workers=2, cpu=0.5)) == [
        ("start", "claims", {"a": "01"})
    ]


def test_a_claim_to_room_that_does_not_become_free_is_given_up():
    """Nothing leaves node a: the claim would keep its room from others for nothing."""
    runs = Gang("runs", workers=4, on={"a": "0123"}, at=0)
    claims = Gang("claims", workers=2, cpu=2, claim={"a": "01"})
    assert proposed({"a": 4}, runs, claims) == [("claim", "claims", {})]


# -- Algorithm 3 ---------------------------------------------------------------------------------


def test_idle_room_goes_to_the_heaviest_first_near_its_parameter_server():
    """Its server's node, then the other nodes where it runs, then the rest."""
    heavy = Gang("heavy", ps=1, workers=2, most=6, cpu=1, on={"b": "p0", "c": "1"}, at=0)
    light = Gang("light", workers=1, most=3, cpu=2, on={"d": "0"}, at=0)
    assert proposed({"a": 4, "b": 3, "c": 2, "d": 2}, heavy, light, changed_at=0) == [
        ("out", "heavy", {"b": "2", "c": "3", "a": "45"}),
        ("out", "light", {"a": "1"}),
    ]


def test_an_exact_fit_is_a_fit_except_as_printed():
    """Line 8 has `>`."""
    runs = Gang("runs", workers=1, most=3, on={"a": "0"}, at=0)
    assert proposed({"a": 2}, runs, changed_at=0) == [("out", "runs", {"a": "1"})]
    assert proposed({"a": 2}, runs, changed_at=0, settings=LITERAL) == []


@pytest.mark.parametrize(("cooldown", "grows"), [(60, False), (30, True), (0, True)])
def test_jobs_grow_only_a_while_after_the_last_change(cooldown, grows):
    """Each change of size costs a restart; 0 is as printed."""
    runs = Gang("runs", workers=1, most=2, on={"a": "0"}, at=0)
    settings = KOD2Settings(cooldown=cooldown)
    assert bool(proposed({"a": 9}, runs, changed_at=NOW - 30, settings=settings)) is grows


def test_nobody_grows_into_room_that_a_waiting_job_could_use():
    """The head of the queue blocks; what is behind it and would fit comes before growth."""
    runs = Gang("runs", workers=1, most=4, cpu=4, on={"a": "0"}, at=0)
    head, small = Gang("head", workers=8), Gang("small", workers=1, cpu=2)
    assert proposed({"a": 4, "b": 4}, runs, head, small, changed_at=0) == []
    assert proposed({"a": 4, "b": 4}, runs, head, changed_at=0) == [("out", "runs", {"b": "1"})]


def test_a_job_of_which_workers_leave_does_not_grow():
    """One direction at a time."""
    runs = Gang("runs", workers=3, least=1, on={"a": "012"}, leaving="2", at=0)
    assert proposed({"a": 9}, runs, changed_at=0) == []


# -- as printed ----------------------------------------------------------------------------------


def test_as_printed_one_pass_starts_the_head_only():
    """Lines 5 to 9, once for each event."""
    gangs = [Gang("first", workers=2, at=NOW - 1), Gang("second", workers=2)]
    assert proposed({"a": 4, "b": 4}, *gangs, settings=LITERAL) == [("start", "first", {"a": "01"})]


def test_as_printed_room_in_pieces_counts_as_room():
    """Line 6: there is enough in the cluster, so nobody is scaled in, and the job waits all the same."""
    runs = [Gang(f"runs-{node}", workers=2, least=1, cpu=1.5, on={node: "01"}, at=0) for node in ("a", "b")]
    head = Gang("head", workers=1, cpu=1.25, at=NOW - 200)
    assert proposed({"a": 4, "b": 4}, *runs, head, settings=LITERAL) == []
    assert proposed({"a": 4, "b": 4}, *runs, head) == [("in", "runs-b", "1"), ("claim", "head", {"b": "0"})]


def test_as_printed_only_the_newest_job_is_saved_from_starving():
    """Line 27 speaks of j, which is the new job."""
    runs = Gang("runs", workers=4, least=2, cpu=1, on={"a": "0123"}, at=0)
    starved = Gang("starved", workers=1, cpu=1.5, at=NOW - 300)
    assert proposed({"a": 4}, runs, starved, Gang("new", workers=1, cpu=3), settings=LITERAL) == []
    assert proposed({"a": 4}, runs, starved, settings=LITERAL) == [
        ("in", "runs", "23"),
        ("claim", "starved", {"a": "0"}),
    ]


# -- what holds for every cluster ----------------------------------------------------------------


@given(clusters(), st.booleans(), st.booleans(), st.sampled_from([0.0, 60.0]))
def test_the_planner_lets_everything_through(state, literal, backfill, cooldown):
    """Nothing exceeds the open room, gangs are whole, nobody falls below the minimum or loses worker 0."""
    settings = KOD2Settings(literal=literal, backfill=backfill, cooldown=cooldown)
    assert refused(state, list(propose(state.snapshot(NOW), settings))) == []


@given(clusters())
def test_every_start_is_a_whole_gang_and_every_loss_leaves_the_minimum(state):
    """All parameter servers and min to max workers; never worker 0, never a parameter server."""
    snapshot = state.snapshot(NOW)
    assert broken_gang_rules(snapshot, propose(snapshot, KOD2Settings(cooldown=0))) == []


@given(clusters(), st.booleans())
def test_the_same_snapshot_gives_the_same_proposals_whatever_the_order_of_its_records(state, literal):
    """Every ordering ends in an id."""
    turned = turn_records(state)
    settings = KOD2Settings(literal=literal)
    assert list(propose(state.snapshot(NOW), settings)) == list(propose(turned.snapshot(NOW), settings))


@given(st.integers(1, 4), st.integers(0, 1), st.sampled_from([1.0, 2.0]))
def test_printed_and_repaired_agree_on_one_job_and_an_idle_cluster(workers, ps, cpu):
    """With one waiting job that fits and nothing else, there is nothing to repair."""
    head = Gang("head", ps=ps, workers=workers, cpu=cpu)
    nodes = {"a": 20, "b": 12}
    assert proposed(nodes, head) == proposed(nodes, head, settings=LITERAL) != []
